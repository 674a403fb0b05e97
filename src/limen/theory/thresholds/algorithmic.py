r"""The least number of samples per dimension from which a hard direction can be found efficiently.

One hard coordinate: $\delta_{alg}=1\big/E_y\big[(E[z^2-1\mid y])^2\big]$. Several:
$1/\delta_{alg}$ is the largest eigenvalue of $M\mapsto E[T\,M\,T]$ with $T=E[zz^\top-I\mid y]$ on the hard coordinates,
conditioned on $y$ and on the easy coordinates, which are found at any $\delta$. Below it the uninformed fixed point of
Bayes-optimal message passing is stable; above, spectral methods succeed.

Source: Mondelli & Montanari 2019 and Barbier, Krzakala, Macris, Miolane & Zdeborová 2019 (one direction); Troiani,
Dandi, Defilippis, Zdeborová, Loureiro & Krzakala 2024 (several).
"""

from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from limen.gaussian.sobol import sobol_normals
from limen.link.hard_subspace import generative_statistics, hard_subspace
from limen.link.label_points import checked_target, link_values, normal_scores
from limen.link.staircase import staircase_points, staircase_step
from limen.problem.inputs import Inputs
from limen.problem.spec import InputError
from limen.problem.targets import Target
from limen.theory.thresholds.label_channel import FIRST_PIECES, label_channel
from limen.theory.thresholds.population_hessian import target_profile

CELLS = 64
GRID = 1 << 11
SCORE_REACH = 5.0
SCRAMBLES = 4
# Panels of Gauss-Legendre nodes for one and for two easy coordinates; more are sampled.
PANELS = {1: ((-7.0, -3.0, -1.5, 0.0, 1.5, 3.0, 7.0), 4), 2: ((-6.0, -2.0, 0.0, 2.0, 6.0), 3)}
MANY_EASY = 128


def algorithmic(target: Any, inputs: Inputs | None = None) -> float:
    r"""$\delta_{alg}=n/d$ for weak recovery of a first hard direction, as $n,d\to\infty$.

    `inputs` of several variances, known to the algorithm, divide it by $\sum_bp_b^2/w_b\ge1$: see
    `population_hessian`.

    - 0 when the link has no hard direction: weak recovery needs no threshold.
    - Infinite when, given the easy coordinates, $E[zz^\top-I\mid y]=0$ on the hard ones: the next generative leap is
      3 or more (as for $\mathrm{sign}(z_1z_2z_3)$), or a hard direction does not enter the link at all. No known
      polynomial algorithm then succeeds with $n\propto d$.

    One hard coordinate: cells of the label, extrapolated in their width; relative error about $10^{-5}$ with
    additive noise or none ($z^2$: 1/2 to $2\cdot10^{-6}$), $10^{-3}$ when `e` is inside the formula or a noiseless
    link has many branches, which beside easy coordinates can cost up to $10^{-2}$. Several: 4 Sobol scrambles, of
    which only products of different ones are used, so that sampling noise does not bias the result; relative error
    about $10^{-3}$. Takes 1 to 5 s; the last 64 answers are kept.
    """
    if inputs is None or inputs.isotropic:
        return _threshold(checked_target(target))
    profile, fractions = target_profile(inputs)
    return _threshold(checked_target(target)) / float(fractions @ profile**2)


@lru_cache(maxsize=64)
def _threshold(target: Target) -> float:
    subspace = hard_subspace(target)
    if subspace.dimension == 0:
        return 0.0
    points = staircase_points(target, subspace.easy_basis, generative_statistics)
    if staircase_step(points, subspace.easy_basis, 2).directions.shape[1] == 0:
        return np.inf
    nodes, weights = _easy_nodes(target.latents - subspace.dimension)
    conditional = _one_hard if subspace.dimension == 1 else _several_hard
    operator = sum(
        weight * conditional(target, subspace.easy_basis @ node, subspace.basis, len(nodes))
        for node, weight in zip(nodes, weights, strict=True)
    )
    largest = float(np.linalg.eigvalsh(0.5 * (operator + np.transpose(operator)))[-1])
    if not largest > 0:
        raise InputError(f"the second-order signal of target {target.label!r} is too weak to be told from zero.")
    return 1.0 / largest


def _one_hard(target: Target, easy: np.ndarray, basis: np.ndarray, nodes: int) -> np.ndarray:
    def values(z: np.ndarray, e: np.ndarray) -> np.ndarray:
        return link_values(target, easy + z[:, None] * basis[:, 0], e)

    pieces = FIRST_PIECES if nodes == 1 else FIRST_PIECES // 4
    coarse, fine = (
        label_channel(values, target.uses_inner_noise, target.noise, GRID, cells, pieces).fisher_square()
        for cells in (CELLS, 2 * CELLS)
    )
    return np.array([[fine + (fine - coarse) / 3.0]])


def _several_hard(target: Target, easy: np.ndarray, basis: np.ndarray, nodes: int) -> np.ndarray:
    r"""$E[T\otimes T]$ at one value of the easy coordinates, shape ($r^2$, $r^2$)."""
    count = 1 << (18 if nodes == 1 else 14 if nodes <= 32 else 12)
    cells = CELLS if count >= 1 << 14 else CELLS // 2
    rank, inner, noisy = basis.shape[1], int(target.uses_inner_noise), target.noise > 0
    deviations, scores = [], []
    for seed in range(SCRAMBLES):
        points = sobol_normals(count, rank + inner + noisy, 100 + seed)
        z = points[:, :rank]
        labels = link_values(target, easy + z @ basis.T, points[:, rank] if inner else np.zeros(count))
        scores.append(normal_scores(labels + np.sqrt(target.noise) * points[:, -1]))
        deviations.append((z[:, :, None] * z[:, None, :] - np.eye(rank)).reshape(count, -1))
    coarse, fine = (_squared_means(scores, deviations, number) for number in (cells, 2 * cells))
    return fine + (fine - coarse) / 3.0


def _squared_means(scores: list[np.ndarray], deviations: list[np.ndarray], cells: int) -> np.ndarray:
    sums, masses, size = [], np.zeros(cells), deviations[0].shape[1]
    rank = round(size**0.5)
    for score, deviation in zip(scores, deviations, strict=True):
        place = (np.clip(score, -SCORE_REACH, SCORE_REACH * (1 - 1e-9)) + SCORE_REACH) * (cells / (2 * SCORE_REACH))
        cell = place.astype(int)
        sums.append([np.bincount(cell, deviation[:, entry], cells) / len(score) for entry in range(size)])
        masses += np.bincount(cell, minlength=cells) / len(score)
    each = np.array(sums)
    masses = np.where(masses > 0, masses / len(scores), 1.0)
    total = each.sum(0)
    squares = (total / masses) @ total.T - sum((part / masses) @ part.T for part in each)
    squares = squares / (len(scores) * (len(scores) - 1))
    # E[T_ab T_cd] becomes the matrix of M -> E[T M T], that is E[T_ac T_bd].
    return squares.reshape((rank,) * 4).transpose(0, 2, 1, 3).reshape(size, size)


def _easy_nodes(size: int) -> tuple[np.ndarray, np.ndarray]:
    if size == 0:
        return np.zeros((1, 0)), np.ones(1)
    if size not in PANELS:
        return sobol_normals(MANY_EASY, size, 7), np.full(MANY_EASY, 1.0 / MANY_EASY)
    edges, order = np.array(PANELS[size][0]), PANELS[size][1]
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = 0.5 * np.diff(edges)[:, None]
    axis = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes).ravel()
    chances = (half * weights).ravel() * np.exp(-0.5 * axis**2)
    chances /= chances.sum()
    grid = np.array(list(product(axis, repeat=size)))
    return grid, np.prod(np.array(list(product(chances, repeat=size))), axis=1)
