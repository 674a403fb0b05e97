"""References, by key; `limen.cite` gathers those a problem or experiment used."""

BIBTEX = {
    "saad1995": """@article{saad1995,
  author = {Saad, David and Solla, Sara A.},
  title = {On-line learning in soft committee machines},
  journal = {Physical Review E}, volume = {52}, number = {4}, pages = {4225--4243}, year = {1995}
}""",
    "goldt2019": """@inproceedings{goldt2019,
  author = {Goldt, Sebastian and Advani, Madhu and Saxe, Andrew M. and Krzakala, Florent and Zdeborov{\\'a}, Lenka},
  title = {Dynamics of stochastic gradient descent for two-layer neural networks in the teacher-student setup},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {32}, year = {2019}
}""",
    "arnaboldi2023escaping": """@article{arnaboldi2023escaping,
  author = {Arnaboldi, Luca and Krzakala, Florent and Loureiro, Bruno and Stephan, Ludovic},
  title = {Escaping mediocrity: how two-layer networks learn hard generalized linear models with {SGD}},
  journal = {arXiv preprint arXiv:2305.18502}, year = {2023}
}""",
    "montanari2026": """@article{montanari2026,
  author = {Montanari, Andrea and Wang, Zihao},
  title = {Phase Transitions for Feature Learning in Neural Networks},
  journal = {arXiv preprint arXiv:2602.01434}, year = {2026}
}""",
}


def bibtex(keys: tuple[str, ...]) -> str:
    """BibTeX entries of the given keys, in order, each once."""
    return "\n\n".join(BIBTEX[key] for key in dict.fromkeys(keys))
