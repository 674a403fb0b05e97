"""Speed of the spectral laws, best of five, one core: run with one BLAS thread."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from limen.spectra import CovarianceLaw, WeightedLaw, directional_outliers

POINTS = 10_000
ATOMS = 50


def best_of_five(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(5):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


@pytest.mark.parametrize("ratio", [0.02, 0.3, 3.0])
def test_density_of_fifty_atoms_at_ten_thousand_points(ratio: float) -> None:
    # A new law each time, so that edges and tables are paid for; fifty bands at the smallest ratio, one at the others.
    values, weights = np.geomspace(1.0, 1000.0, ATOMS), np.full(ATOMS, 1.0 / ATOMS)
    edges = CovarianceLaw(values, weights, ratio).edges()
    x = np.linspace(edges[0], edges[-1], POINTS)
    assert best_of_five(lambda: CovarianceLaw(values, weights, ratio).density(x)) <= 0.1


@pytest.mark.parametrize("ratio", [0.1, 1.0, 5.0])
def test_density_of_signed_weights_at_ten_thousand_points(ratio: float) -> None:
    values = np.random.default_rng(0).normal(size=ATOMS)
    weights = np.full(ATOMS, 1.0 / ATOMS)
    edges = WeightedLaw(values, weights, ratio).edges()
    x = np.linspace(edges[0], edges[-1], POINTS)
    assert best_of_five(lambda: WeightedLaw(values, weights, ratio).density(x)) <= 0.1


def test_directional_outliers() -> None:
    assert best_of_five(lambda: directional_outliers(lambda s: (s**2 - 1.0) / (s**2 + 0.5), 0.25)) <= 0.1
