"""Shared by the closed forms: one way to take moments of independent normals."""

from itertools import product

import numpy as np
import pytest


@pytest.fixture
def gauss_hermite():
    """Expectation over independent standard normals, exact for polynomials up to degree 2 nodes - 1 in each."""

    def mean(function, fields, nodes=8):
        points, weights = np.polynomial.hermite_e.hermegauss(nodes)
        weights = weights / weights.sum()
        grid = np.array(list(product(points, repeat=fields)))
        return np.prod(np.array(list(product(weights, repeat=fields))), axis=1) @ function(grid)

    return mean
