"""Bayes-optimal overlaps of three directions against problems that are smaller: one or two directions among three, a
radius, and a plain average over drawn labels."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import ncx2

from limen.gaussian.sobol import sobol_normals
from limen.problem.targets import target
from limen.theory.thresholds.bayes import bayes_overlap
from limen.theory.thresholds.information_theoretic import information_theoretic
from limen.theory.thresholds.label_channel import target_channel
from limen.theory.thresholds.overlap_curve import information_and_slope as of_one
from limen.theory.thresholds.overlap_matrices import fixed_point, full_start, information_and_slope

HIDDEN, ALONE = target("(z1 + z2 + z3)**2/3", noise=0.25), target("z**2", noise=0.25)
ALONG = np.ones(3) / 3.0**0.5
RADIAL, RADIAL_NOISE = target("tanh(z1**2 + z2**2 + z3**2 - 3)", noise=0.1), 0.1
BLOCK = np.array([[0.4, 0.2], [0.2, 0.3]])


def gauss(count: int, top: float) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return 0.5 * top * (nodes + 1.0), 0.5 * top * weights


def radial_information(q: float) -> float:
    r"""$I(qI)$ of `RADIAL`: given $|\xi|$, $|z|^2/(1-q)$ is noncentral chi-square with 3 degrees of freedom and centre
    $q|\xi|^2/(1-q)$, and a label tells of the directions through radii alone."""
    known, chances = gauss(60, 7.0)
    chances = chances * known**2 * np.exp(-0.5 * known**2)
    chances /= chances.sum()
    radius, weights = gauss(400, 7.5)
    law = ncx2.pdf(radius[:, None] ** 2 / (1.0 - q), 3, q * known**2 / (1.0 - q)) * (radius * weights)[:, None]
    law /= law.sum(axis=0)
    clean, scale = np.tanh(radius**2 - 3.0), RADIAL_NOISE**0.5
    labels = np.arange(-1.0 - 7.0 * scale, 1.0 + 7.0 * scale, scale / 8.0)
    likelihood = np.exp((labels[:, None] - clean) ** 2 * (-0.5 / RADIAL_NOISE)) @ law
    likelihood *= (labels[1] - labels[0]) / (2.0 * np.pi * RADIAL_NOISE) ** 0.5
    return float(np.sum((likelihood * np.log(likelihood / (likelihood @ chances)[:, None])) @ chances))


def radial_slope(q: float, step: float = 1e-3) -> float:
    r"""$G(qI)$ is a multiple of the identity, and its trace is twice $dI/dq$."""
    return (radial_information(q + step) - radial_information(q - step)) / (3.0 * step)


@pytest.mark.parametrize("q", [0.05, 0.7, 0.85])
def test_one_direction_hidden_among_three_is_one_direction(q):
    information, slope = information_and_slope(HIDDEN, q * np.outer(ALONG, ALONG))
    alone = of_one(target_channel(ALONE, 1 << 11, 256), q)
    assert (information, ALONG @ slope @ ALONG) == pytest.approx(alone, rel=8e-3)
    np.testing.assert_allclose(slope @ [[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], 0.0, atol=1e-9)


@pytest.mark.parametrize("q", [0.2, 0.8])
def test_a_label_of_the_radius_is_a_problem_of_radii(q):
    information, slope = information_and_slope(RADIAL, q * np.eye(3))
    assert information == pytest.approx(radial_information(q), rel=5e-3)
    np.testing.assert_allclose(slope, radial_slope(q) * np.eye(3), rtol=6e-3, atol=1e-9)


def test_a_direction_without_effect_changes_nothing():
    """z1 z2 with and without a third direction, which gains nothing; another order of the names, another of Q."""
    whole = np.zeros((3, 3))
    whole[:2, :2] = BLOCK
    information, slope = information_and_slope(target("z1*z2 + 0*z3", noise=0.25), whole)
    smaller = information_and_slope(target("z1*z2", noise=0.25), BLOCK)
    assert information == pytest.approx(smaller[0], rel=3e-3)
    np.testing.assert_allclose(slope[:2, :2], smaller[1], rtol=3e-3)
    np.testing.assert_allclose(slope[2], 0.0, atol=1e-12)
    order = [2, 0, 1]
    moved = information_and_slope(target("z2*z3 + 0*z1", noise=0.25), whole[np.ix_(order, order)])
    assert moved[0] == pytest.approx(information, rel=1e-3)
    np.testing.assert_allclose(moved[1], slope[np.ix_(order, order)], rtol=1e-3, atol=1e-9)


def test_information_by_drawn_labels():
    """No symmetry, nothing separates: labels drawn, their chances averaged over drawn coordinates."""
    link, noise = "z1*z2 + z3", 0.5
    overlap = np.array([[0.5, 0.1, 0.0], [0.1, 0.3, 0.2], [0.0, 0.2, 0.6]])
    values, vectors = np.linalg.eigh(overlap)
    known_root, rest_root = ((vectors * np.sqrt(part)) @ vectors.T for part in (values, 1.0 - values))

    def clean(z: np.ndarray) -> np.ndarray:
        return z[..., 0] * z[..., 1] + z[..., 2]

    drawn, inner = sobol_normals(2048, 7, 1), sobol_normals(2048, 3, 2)
    known = drawn[:, :3] @ known_root
    labels = clean(known + drawn[:, 3:6] @ rest_root) + noise**0.5 * drawn[:, 6]

    def chance(z: np.ndarray) -> np.ndarray:
        return np.exp((labels[:, None] - clean(z)) ** 2 * (-0.5 / noise)).mean(axis=1)

    given = chance(known[:, None] + inner @ rest_root)
    brute = np.log(given / chance(inner)).mean()
    found = information_and_slope(target(link, noise=noise), overlap)[0]
    assert found == pytest.approx(brute, rel=0.02)


@pytest.mark.slow
def test_overlap_of_one_direction_hidden_among_three():
    found = fixed_point(HIDDEN, 1.5, full_start(HIDDEN))
    assert found.settled
    np.testing.assert_allclose(
        found.overlap, bayes_overlap(ALONE, 1.5).information_theoretic * np.outer(ALONG, ALONG), atol=5e-3
    )


@pytest.mark.slow
def test_overlap_and_threshold_of_a_radius():
    r"""The best overlap is $q=\delta g/(1+\delta g)$ with $g$ by radii; the quotient $-\frac32(q+\log(1-q))/I(qI)$
    grows with $q$, so that the threshold is its limit at zero."""

    def quotient(q: float) -> float:
        return -1.5 * (q + np.log1p(-q)) / radial_information(q)

    assert quotient(0.02) < quotient(0.1) < quotient(0.5)
    possible = 2.0 * quotient(0.02) - quotient(0.04)
    assert information_theoretic(RADIAL) == pytest.approx(possible, rel=5e-3)
    delta = 2.0 * possible
    q = brentq(lambda q: delta * radial_slope(q) - q / (1.0 - q), 0.1, 0.98, xtol=1e-4)
    known = fixed_point(RADIAL, delta, full_start(RADIAL))
    assert known.settled
    np.testing.assert_allclose(known.overlap, q * np.eye(3), atol=5e-3)
