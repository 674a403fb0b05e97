"""Data sets that ship with scikit-learn, nothing downloaded."""

import numpy as np

from limen.problem.spec import InputError


def shipped(name: str, shuffled: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of a set by name; with `shuffled` labels the same random order every time."""
    try:
        from sklearn import datasets
    except ImportError:
        raise InputError('data sets come with scikit-learn, which is missing: pip install "limen[data]".') from None
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, np.random.default_rng(0).permutation(y) if shuffled else y
