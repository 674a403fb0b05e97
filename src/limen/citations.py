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
    "veiga2022": """@inproceedings{veiga2022,
  author = {Veiga, Rodrigo and Stephan, Ludovic and Loureiro, Bruno and Krzakala, Florent and Zdeborov{\\'a}, Lenka},
  title = {Phase diagram of stochastic gradient descent in high-dimensional two-layer neural networks},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {35}, pages = {23244--23255},
  year = {2022}
}""",
    "arnaboldi2023escaping": """@article{arnaboldi2023escaping,
  author = {Arnaboldi, Luca and Krzakala, Florent and Loureiro, Bruno and Stephan, Ludovic},
  title = {Escaping mediocrity: how two-layer networks learn hard generalized linear models with {SGD}},
  journal = {arXiv preprint arXiv:2305.18502}, year = {2023}
}""",
    "arnaboldi2023high": """@article{arnaboldi2023high,
  author = {Arnaboldi, Luca and Stephan, Ludovic and Krzakala, Florent and Loureiro, Bruno},
  title = {From high-dimensional \\& mean-field dynamics to dimensionless {ODEs}: A unifying approach to {SGD} in
    two-layers networks},
  journal = {arXiv preprint arXiv:2302.05882}, year = {2023}
}""",
    "berthier2023": """@article{berthier2023,
  author = {Berthier, Rapha{\\"e}l and Montanari, Andrea and Zhou, Kangjie},
  title = {Learning time-scales in two-layers neural networks},
  journal = {arXiv preprint arXiv:2303.00055}, year = {2023}
}""",
    "safran2018": """@inproceedings{safran2018,
  author = {Safran, Itay and Shamir, Ohad},
  title = {Spurious Local Minima are Common in Two-Layer {ReLU} Neural Networks},
  booktitle = {International Conference on Machine Learning}, pages = {4433--4441}, year = {2018}
}""",
    "montanari2026": """@article{montanari2026,
  author = {Montanari, Andrea and Wang, Zihao},
  title = {Phase Transitions for Feature Learning in Neural Networks},
  journal = {arXiv preprint arXiv:2602.01434}, year = {2026}
}""",
    "gromov2023": """@article{gromov2023,
  author = {Gromov, Andrey},
  title = {Grokking modular arithmetic},
  journal = {arXiv preprint arXiv:2301.02679}, year = {2023}
}""",
    "power2022": """@article{power2022,
  author = {Power, Alethea and Burda, Yuri and Edwards, Harri and Babuschkin, Igor and Misra, Vedant},
  title = {Grokking: generalization beyond overfitting on small algorithmic datasets},
  journal = {arXiv preprint arXiv:2201.02177}, year = {2022}
}""",
    "celentano2021": """@article{celentano2021,
  title = {The high-dimensional asymptotics of first order methods with random data},
  author = {Celentano, Michael and Cheng, Chen and Montanari, Andrea},
  journal = {arXiv preprint arXiv:2112.07572}, year = {2021}
}""",
    "gerbelot2022": """@article{gerbelot2022,
  title = {Rigorous dynamical mean field theory for stochastic gradient descent methods},
  author = {Gerbelot, C{\\'e}dric and Troiani, Emanuele and Mignacco, Francesca and Krzakala, Florent and
          Zdeborov{\\'a}, Lenka},
  journal = {arXiv preprint arXiv:2210.06591}, year = {2022}
}""",
    "cohen2021": """@inproceedings{cohen2021,
  author = {Cohen, Jeremy M. and Kaur, Simran and Li, Yuanzhi and Kolter, J. Zico and Talwalkar, Ameet},
  title = {Gradient descent on neural networks typically occurs at the edge of stability},
  booktitle = {International Conference on Learning Representations}, year = {2021}
}""",
    "kingma2015": """@inproceedings{kingma2015,
  title = {Adam: a method for stochastic optimization},
  author = {Kingma, Diederik P. and Ba, Jimmy},
  booktitle = {International Conference on Learning Representations}, year = {2015}
}""",
    "abbe2022": """@inproceedings{abbe2022,
  author = {Abbe, Emmanuel and {Boix-Adser{\\`a}}, Enric and Misiakiewicz, Theodor},
  title = {The merged-staircase property: a necessary and nearly sufficient condition for {SGD} learning of sparse
           functions on two-layer neural networks},
  booktitle = {Conference on Learning Theory}, pages = {4782--4887}, year = {2022}
}""",
    "marchenko1967": """@article{marchenko1967,
  author = {Mar{\\v{c}}enko, Vladimir A. and Pastur, Leonid A.},
  title = {Distribution of eigenvalues for some sets of random matrices},
  journal = {Mathematics of the USSR-Sbornik}, volume = {1}, number = {4}, pages = {457--483}, year = {1967}
}""",
    "silverstein1995": """@article{silverstein1995,
  author = {Silverstein, Jack W.},
  title = {Strong convergence of the empirical distribution of eigenvalues of large dimensional random matrices},
  journal = {Journal of Multivariate Analysis}, volume = {55}, number = {2}, pages = {331--339}, year = {1995}
}""",
    "johnstone2001": """@article{johnstone2001,
  author = {Johnstone, Iain M.},
  title = {On the distribution of the largest eigenvalue in principal components analysis},
  journal = {The Annals of Statistics}, volume = {29}, number = {2}, pages = {295--327}, year = {2001}
}""",
    "benarous2021": """@article{benarous2021,
  author = {Ben Arous, G{\\'e}rard and Gheissari, Reza and Jagannath, Aukosh},
  title = {Online stochastic gradient descent on non-convex losses from high-dimensional inference},
  journal = {Journal of Machine Learning Research}, volume = {22}, number = {106}, pages = {1--51}, year = {2021}
}""",
    "benarous2022": """@article{benarous2022,
  author = {Ben Arous, G{\\'e}rard and Gheissari, Reza and Jagannath, Aukosh},
  title = {High-dimensional limit theorems for {SGD}: Effective dynamics and critical scaling},
  journal = {arXiv preprint arXiv:2206.04030}, year = {2022}
}""",
    "benarous2023": """@inproceedings{benarous2023,
  author = {Ben Arous, G{\\'e}rard and Gheissari, Reza and Huang, Jiaoyang and Jagannath, Aukosh},
  title = {High-dimensional {SGD} aligns with emerging outlier eigenspaces},
  booktitle = {International Conference on Learning Representations}, year = {2024}, note = {arXiv:2310.03010}
}""",
    "baik2005": """@article{baik2005,
  author = {Baik, Jinho and Ben Arous, G{\\'e}rard and P{\\'e}ch{\\'e}, Sandrine},
  title = {Phase transition of the largest eigenvalue for nonnull complex sample covariance matrices},
  journal = {The Annals of Probability}, volume = {33}, number = {5}, pages = {1643--1697}, year = {2005}
}""",
    "paul2007": """@article{paul2007,
  author = {Paul, Debashis},
  title = {Asymptotics of sample eigenstructure for a large dimensional spiked covariance model},
  journal = {Statistica Sinica}, volume = {17}, number = {4}, pages = {1617--1642}, year = {2007}
}""",
    "ledoit2011": """@article{ledoit2011,
  author = {Ledoit, Olivier and P{\\'e}ch{\\'e}, Sandrine},
  title = {Eigenvectors of some large sample covariance matrix ensembles},
  journal = {Probability Theory and Related Fields}, volume = {151}, pages = {233--264}, year = {2011}
}""",
    "dobriban2018": """@article{dobriban2018,
  author = {Dobriban, Edgar and Wager, Stefan},
  title = {High-dimensional asymptotics of prediction: Ridge regression and classification},
  journal = {The Annals of Statistics}, volume = {46}, number = {1}, pages = {247--279}, year = {2018}
}""",
    "hastie2022": """@article{hastie2022,
  author = {Hastie, Trevor and Montanari, Andrea and Rosset, Saharon and Tibshirani, Ryan J.},
  title = {Surprises in high-dimensional ridgeless least squares interpolation},
  journal = {The Annals of Statistics}, volume = {50}, number = {2}, pages = {949--986}, year = {2022}
}""",
    "belkin2019": """@article{belkin2019,
  author = {Belkin, Mikhail and Hsu, Daniel and Ma, Siyuan and Mandal, Soumik},
  title = {Reconciling modern machine-learning practice and the classical bias--variance trade-off},
  journal = {Proceedings of the National Academy of Sciences}, volume = {116}, number = {32},
  pages = {15849--15854}, year = {2019}
}""",
    "spigler2018": """@article{spigler2018,
  author = {Spigler, Stefano and Geiger, Mario and d'Ascoli, St{\\'e}phane and Sagun, Levent and Biroli, Giulio and
            Wyart, Matthieu},
  title = {A jamming transition from under- to over-parametrization affects generalization in deep learning},
  journal = {arXiv preprint arXiv:1810.09665}, year = {2018}
}""",
    "geiger2018": """@article{geiger2018,
  author = {Geiger, Mario and Spigler, Stefano and d'Ascoli, St{\\'e}phane and Sagun, Levent and Baity-Jesi, Marco and
            Biroli, Giulio and Wyart, Matthieu},
  title = {The jamming transition as a paradigm to understand the loss landscape of deep neural networks},
  journal = {arXiv preprint arXiv:1809.09349}, year = {2018}
}""",
    "ali2019": """@inproceedings{ali2019,
  author = {Ali, Alnur and Kolter, J. Zico and Tibshirani, Ryan J.},
  title = {A continuous-time view of early stopping for least squares regression},
  booktitle = {International Conference on Artificial Intelligence and Statistics}, pages = {1370--1378}, year = {2019}
}""",
    "advani2020": """@article{advani2020,
  author = {Advani, Madhu S. and Saxe, Andrew M. and Sompolinsky, Haim},
  title = {High-dimensional dynamics of generalization error in neural networks},
  journal = {Neural Networks}, volume = {132}, pages = {428--446}, year = {2020}
}""",
    "mei2022": """@article{mei2022,
  author = {Mei, Song and Montanari, Andrea},
  title = {The generalization error of random features regression: precise asymptotics and the double descent curve},
  journal = {Communications on Pure and Applied Mathematics}, volume = {75}, number = {4}, pages = {667--766},
  year = {2022}
}""",
    "zhang2017": """@inproceedings{zhang2017,
  author = {Zhang, Chiyuan and Bengio, Samy and Hardt, Moritz and Recht, Benjamin and Vinyals, Oriol},
  title = {Understanding deep learning requires rethinking generalization},
  booktitle = {International Conference on Learning Representations}, year = {2017}
}""",
    "canatar2021": """@article{canatar2021,
  author = {Canatar, Abdulkadir and Bordelon, Blake and Pehlevan, Cengiz},
  title = {Spectral Bias and Task-Model Alignment Explain Generalization in Kernel Regression and Infinitely Wide
           Neural Networks},
  journal = {Nature Communications}, volume = {12}, pages = {2914}, year = {2021}
}""",
    "wei2022": """@inproceedings{wei2022,
  author = {Wei, Alexander and Hu, Wei and Steinhardt, Jacob},
  title = {More Than a Toy: Random Matrix Models Predict How Real-World Neural Representations Generalize},
  booktitle = {International Conference on Machine Learning}, year = {2022}
}""",
    "paquette2024": """@inproceedings{paquette2024,
  author = {Paquette, Elliot and Paquette, Courtney and Xiao, Lechao and Pennington, Jeffrey},
  title = {4+3 Phases of Compute-Optimal Neural Scaling Laws},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {37}, year = {2024}
}""",
    "soven1967": """@article{soven1967,
  author = {Soven, Paul},
  title = {Coherent-Potential Model of Substitutional Disordered Alloys},
  journal = {Physical Review}, volume = {156}, pages = {809--813}, year = {1967}
}""",
    "simon2023": """@article{simon2023,
  author = {Simon, James B. and Karkada, Dhruva and Ghosh, Nikhil and Belkin, Mikhail},
  title = {More is better in modern machine learning: when infinite overparameterization is optimal and overfitting is
    obligatory},
  journal = {arXiv preprint arXiv:2311.14646}, year = {2023}
}""",
    "defilippis2024": """@inproceedings{defilippis2024,
  author = {Defilippis, Leonardo and Loureiro, Bruno and Misiakiewicz, Theodor},
  title = {Dimension-free deterministic equivalents and scaling laws for random feature regression},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {37}, pages = {104630--104693},
  year = {2024}
}""",
    "sagun2017": """@article{sagun2017,
  author = {Sagun, Levent and Evci, Utku and G{\\"u}ney, V. U{\\u g}ur and Dauphin, Yann and Bottou, L{\\'e}on},
  title = {Empirical analysis of the {Hessian} of over-parametrized neural networks},
  journal = {arXiv preprint arXiv:1706.04454}, year = {2017}
}""",
    "papyan2020": """@article{papyan2020,
  author = {Papyan, Vardan},
  title = {Traces of class/cross-class structure pervade deep learning spectra},
  journal = {Journal of Machine Learning Research}, volume = {21}, number = {252}, pages = {1--64}, year = {2020}
}""",
    "jacot2018": """@inproceedings{jacot2018,
  author = {Jacot, Arthur and Gabriel, Franck and Hongler, Cl{\\'e}ment},
  title = {Neural tangent kernel: convergence and generalization in neural networks},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {31}, year = {2018}
}""",
    "cover1965": """@article{cover1965,
  author = {Cover, Thomas M.},
  title = {Geometrical and statistical properties of systems of linear inequalities with applications in pattern
    recognition},
  journal = {IEEE Transactions on Electronic Computers}, volume = {EC-14}, number = {3}, pages = {326--334},
  year = {1965}
}""",
    "novikoff1962": """@inproceedings{novikoff1962,
  author = {Novikoff, Albert B. J.},
  title = {On convergence proofs on perceptrons},
  booktitle = {Proceedings of the Symposium on the Mathematical Theory of Automata}, volume = {12},
  pages = {615--622}, year = {1962}
}""",
    "soudry2018": """@article{soudry2018,
  author = {Soudry, Daniel and Hoffer, Elad and Nacson, Mor Shpigel and Gunasekar, Suriya and Srebro, Nathan},
  title = {The implicit bias of gradient descent on separable data},
  journal = {Journal of Machine Learning Research}, volume = {19}, number = {70}, pages = {1--57}, year = {2018}
}""",
    "belkin2019interpolation": """@inproceedings{belkin2019interpolation,
  author = {Belkin, Mikhail and Rakhlin, Alexander and Tsybakov, Alexandre B.},
  title = {Does data interpolation contradict statistical optimality?},
  booktitle = {International Conference on Artificial Intelligence and Statistics}, pages = {1611--1619}, year = {2019}
}""",
    "cover1967": """@article{cover1967,
  author = {Cover, Thomas M. and Hart, Peter E.},
  title = {Nearest neighbor pattern classification},
  journal = {IEEE Transactions on Information Theory}, volume = {13}, number = {1}, pages = {21--27}, year = {1967}
}""",
    "gyorfi2002": """@book{gyorfi2002,
  author = {Gy{\\"o}rfi, L{\\'a}szl{\\'o} and Kohler, Michael and Krzy{\\.z}ak, Adam and Walk, Harro},
  title = {A distribution-free theory of nonparametric regression},
  publisher = {Springer}, year = {2002}
}""",
    "bartlett2002": """@article{bartlett2002,
  author = {Bartlett, Peter L. and Mendelson, Shahar},
  title = {Rademacher and {Gaussian} complexities: risk bounds and structural results},
  journal = {Journal of Machine Learning Research}, volume = {3}, pages = {463--482}, year = {2002}
}""",
    "nagarajan2019": """@inproceedings{nagarajan2019,
  author = {Nagarajan, Vaishnavh and Kolter, J. Zico},
  title = {Uniform convergence may be unable to explain generalization in deep learning},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {32}, year = {2019}
}""",
    "lee2019": """@inproceedings{lee2019,
  author = {Lee, Jaehoon and Xiao, Lechao and Schoenholz, Samuel S. and Bahri, Yasaman and Novak, Roman and
    Sohl-Dickstein, Jascha and Pennington, Jeffrey},
  title = {Wide neural networks of any depth evolve as linear models under gradient descent},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {32}, year = {2019}
}""",
    "chizat2019": """@inproceedings{chizat2019,
  author = {Chizat, L{\\'e}na{\\"i}c and Oyallon, Edouard and Bach, Francis},
  title = {On lazy training in differentiable programming},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {32}, year = {2019}
}""",
    "bartlett2021": """@article{bartlett2021,
  author = {Bartlett, Peter L. and Montanari, Andrea and Rakhlin, Alexander},
  title = {Deep learning: a statistical viewpoint},
  journal = {Acta Numerica}, volume = {30}, pages = {87--201}, year = {2021}
}""",
    "montanari2022": """@article{montanari2022,
  author = {Montanari, Andrea and Zhong, Yiqiao},
  title = {The interpolation phase transition in neural networks: memorization and generalization under lazy training},
  journal = {The Annals of Statistics}, volume = {50}, number = {5}, pages = {2816--2847}, year = {2022}
}""",
    "geshkovski2023": """@article{geshkovski2023,
  author = {Geshkovski, Borjan and Letrouit, Cyril and Polyanskiy, Yury and Rigollet, Philippe},
  title = {A mathematical perspective on transformers},
  journal = {arXiv preprint arXiv:2312.10794}, year = {2023}
}""",
    "criscitiello2024": """@article{criscitiello2024,
  author = {Criscitiello, Christopher and Rebjock, Quentin and McRae, Andrew D. and Boumal, Nicolas},
  title = {Synchronization on circles and spheres with nonlinear interactions},
  journal = {arXiv preprint arXiv:2405.18273}, year = {2024}
}""",
    "bruno2024": """@article{bruno2024,
  author = {Bruno, Giuseppe and Pasqualotto, Federico and Agazzi, Andrea},
  title = {Emergence of meta-stable clustering in mean-field transformer models},
  journal = {arXiv preprint arXiv:2410.23228}, year = {2024}
}""",
    "polyanskiy2025": """@article{polyanskiy2025,
  author = {Polyanskiy, Yury and Rigollet, Philippe and Yao, Andrew},
  title = {Synchronization of mean-field models on the circle},
  journal = {arXiv preprint arXiv:2507.22857}, year = {2025}
}""",
    "watanabe1994": """@article{watanabe1994,
  author = {Watanabe, S. and Strogatz, S. H.},
  title = {Constants of motion for superconducting {Josephson} arrays},
  journal = {Physica D: Nonlinear Phenomena}, volume = {74}, pages = {197--253}, year = {1994}
}""",
    "ott2008": """@article{ott2008,
  author = {Ott, Edward and Antonsen, Thomas M.},
  title = {Low dimensional behavior of large systems of globally coupled oscillators},
  journal = {Chaos}, volume = {18}, number = {3}, pages = {037113}, year = {2008}
}""",
    "weinan2017": """@article{weinan2017,
  author = {E, Weinan},
  title = {A proposal on machine learning via dynamical systems},
  journal = {Communications in Mathematics and Statistics}, volume = {5}, number = {1}, pages = {1--11}, year = {2017}
}""",
    "chen2018": """@inproceedings{chen2018,
  author = {Chen, Ricky T. Q. and Rubanova, Yulia and Bettencourt, Jesse and Duvenaud, David},
  title = {Neural ordinary differential equations},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {31}, year = {2018}
}""",
    "rice1945": """@article{rice1945,
  author = {Rice, Stephen O.},
  title = {Mathematical analysis of random noise},
  journal = {Bell System Technical Journal}, volume = {24}, number = {1}, pages = {46--156}, year = {1945}
}""",
    "wendel1962": """@article{wendel1962,
  author = {Wendel, James G.},
  title = {A problem in geometric probability},
  journal = {Mathematica Scandinavica}, volume = {11}, pages = {109--111}, year = {1962}
}""",
    "sommeijer1998": """@article{sommeijer1998,
  author = {Sommeijer, B. P. and Shampine, L. F. and Verwer, J. G.},
  title = {{RKC}: an explicit solver for parabolic {PDEs}},
  journal = {Journal of Computational and Applied Mathematics}, volume = {88}, number = {2}, pages = {315--326},
  year = {1998}
}""",
    "bartlett1996": """@inproceedings{bartlett1996,
  author = {Bartlett, Peter L.},
  title = {For valid generalization the size of the weights is more important than the size of the network},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {9}, year = {1996}
}""",
    "cugliandolo1993": """@article{cugliandolo1993,
  author = {Cugliandolo, Leticia F. and Kurchan, Jorge},
  title = {Analytical solution of the off-equilibrium dynamics of a long-range spin-glass model},
  journal = {Physical Review Letters}, volume = {71}, number = {1}, pages = {173--176}, year = {1993}
}""",
    "mei2018": """@article{mei2018,
  author = {Mei, Song and Montanari, Andrea and Nguyen, Phan-Minh},
  title = {A mean field view of the landscape of two-layer neural networks},
  journal = {Proceedings of the National Academy of Sciences}, volume = {115}, number = {33}, pages = {E7665--E7671},
  year = {2018}
}""",
    "bartlett2020": """@article{bartlett2020,
  author = {Bartlett, Peter L. and Long, Philip M. and Lugosi, G{\\'a}bor and Tsigler, Alexander},
  title = {Benign overfitting in linear regression},
  journal = {Proceedings of the National Academy of Sciences}, volume = {117}, number = {48},
  pages = {30063--30070}, year = {2020}
}""",
    "mallinar2022": """@inproceedings{mallinar2022,
  author = {Mallinar, Neil and Simon, James and Abedsoltan, Amirhesam and Pandit, Parthe and Belkin, Misha and
          Nakkiran, Preetum},
  title = {Benign, tempered, or catastrophic: toward a refined taxonomy of overfitting},
  booktitle = {Advances in Neural Information Processing Systems}, volume = {35}, year = {2022}
}""",
    "montanari2025": """@article{montanari2025,
  author = {Montanari, Andrea and Urbani, Pierfrancesco},
  title = {Dynamical decoupling of generalization and overfitting in large two-layer networks},
  journal = {arXiv preprint arXiv:2502.21269}, year = {2025}
}""",
}
# Public pages with which authors, title, place, year and numbers were compared; a new entry joins one of these rows,
# or a row "not checked: no page found".
_COMPARED_WITH = {
    "arXiv page": """
        montanari2026 berthier2023 celentano2021 gerbelot2022 arnaboldi2023escaping simon2023 montanari2025""",
    "copy of the arXiv record": """
        arnaboldi2023high benarous2022 sagun2017 geshkovski2023 criscitiello2024 bruno2024 polyanskiy2025
        cohen2021 spigler2018 geiger2018 gromov2023 power2022""",
    "proceedings page": """
        benarous2023 cohen2021 mallinar2022""",
    "author's page": """
        soven1967""",
    "public bibliography": """
        saad1995 goldt2019 veiga2022 safran2018 kingma2015 abbe2022 marchenko1967 silverstein1995
        johnstone2001 benarous2021 baik2005 paul2007 ledoit2011 dobriban2018 hastie2022 belkin2019 ali2019
        advani2020 mei2022 zhang2017 canatar2021 wei2022 paquette2024 defilippis2024 papyan2020 jacot2018
        cover1965 novikoff1962 soudry2018 belkin2019interpolation cover1967 gyorfi2002 bartlett2002
        nagarajan2019 lee2019 chizat2019 bartlett2021 montanari2022 watanabe1994 ott2008 weinan2017 chen2018
        rice1945 wendel1962 sommeijer1998 bartlett1996 cugliandolo1993 mei2018 bartlett2020""",
}
CHECKED = {key: page for page, keys in _COMPARED_WITH.items() for key in keys.split()}


def bibtex(keys: tuple[str, ...]) -> str:
    """BibTeX entries of the given keys, in order, each once."""
    return "\n\n".join(BIBTEX[key] for key in dict.fromkeys(keys))
