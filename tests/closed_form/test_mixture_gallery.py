"""What the mixtures' experiments show, against the functions of the chapter and cases counted by hand."""

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr

from limen import XorMixture, effective
from limen.experiments.effective.outlier_emergence import OutlierEmergence
from limen.experiments.effective.spectral_alignment import SpectralAlignment
from limen.experiments.effective.spectral_alignment_xor import SpectralAlignmentXor
from limen.experiments.effective.xor_lottery import XorLottery
from limen.experiments.effective.xor_mixture import XorTraining
from limen.experiments.effective.xor_starts import directed_start
from limen.result import Result
from limen.theory.effective.mixtures.block_weights import Kind

KINDS: tuple[tuple[Kind, Any], ...] = (("hessian", effective.hessian_block), ("gradient", effective.gradient_block))


def result(kind, seeds=(), **variables):
    """A result with these variables."""
    return Result(xr.Dataset(variables, attrs={"d": 100}), {}, kind, True, "made by hand.", {}, seeds, ())


def trained(second, overlap):
    """A simulation of XOR networks that ended with these weights, one per seed."""
    second, overlap = np.asarray(second, dtype=float), np.asarray(overlap, dtype=float)
    return result(
        "simulation",
        tuple(range(len(second))),
        second_layer=(("seed", "time", "neuron"), second[:, None]),
        overlap=(("seed", "time", "neuron", "mean"), overlap[:, None]),
    )


def test_clusters_are_counted_neuron_by_neuron():
    run = trained(
        [[1.0, 1.0, -1.0, -1.0], [1.0, 1.0, -1.0, -1.0], [1.0, 0.2, 1.0, -1.0]],
        [
            [[1, 0], [-1, 0], [0, 1], [0, -1]],
            [[0, 1], [0, -1], [0, -1], [0, -1]],
            [[1, 0], [-1, 0], [0, 1], [0.9, 0.2]],
        ],
    )
    assert list(effective.occupied_clusters(run)) == [4, 1, 1]
    # At a lower level the second neuron of the last network counts, and the last neuron's overlap with nu.
    assert list(effective.occupied_clusters(run, 0.1)) == [4, 1, 3]
    numbers = XorTraining(width=4).headline(run, run)["simulation"]
    assert numbers["clouds_found"] == 2.0
    assert numbers["second_layer_square"] == pytest.approx((4.0 + 4.0 + 3.04) / 3)


@pytest.mark.parametrize("clouds", [1, 2, 3, 4])
def test_directed_starts_lean_towards_their_clouds(clouds):
    start, second = directed_start(8, clouds, 0.4, 0)
    overlaps = np.array(start.overlap)
    assert effective.occupied_clusters(trained([second], [overlaps]), 0.15) == clouds
    main = np.abs(overlaps).max(axis=1)
    assert main.min() > 0.2 and main.max() < 0.6 and np.abs(second).min() >= 0.5
    assert np.array_equal(np.abs(overlaps).argmax(axis=1) == 0, second > 0)


def test_the_lottery_pairs_widths_with_their_odds():
    lottery = XorLottery(widths=(4, 6), d=40, time=1.0, networks=2, noisy_networks=1)
    theory = lottery.theory()
    assert theory.dataset.success.values[0] == pytest.approx(3 / 32)
    assert lottery.headline(theory)["theory"]["success_6"] == pytest.approx(
        effective.lottery_probability(XorMixture(6, math.inf, 0.05, 1.0))
    )


@pytest.mark.slow
def test_both_layers_shown_are_the_blocks_of_the_chapter():
    shown = SpectralAlignmentXor(width=5, clouds=3, time=0.5, records=2, neuron=3, test_samples_per_dim=20.0)
    last = shown.theory().dataset.isel(time=-1)
    start, second = directed_start(5, 3, 0.4, 0)
    given = {"start": start, "second_layer": second}
    for matrix, find in KINDS:
        layer = effective.second_layer_block(shown.problem(), 0.5, matrix, **given)
        found = last.sel(matrix=matrix)
        assert np.allclose(found.second_eigenvalue, layer.eigenvalues, rtol=5e-3)
        assert float(found.second_alignment) == pytest.approx(layer.alignment, rel=2e-3)
        block = find(shown.problem(), 0.5, 20.0, neuron=2, **given)
        assert len(block.outliers) >= 2 and float(found.first_alignment) == pytest.approx(block.alignment, rel=5e-3)
    assert np.allclose(last.second_leading_sum, last.second_eigenvalue.values[:, :4].sum(axis=1))
    assert float(last.first_alignment_squared) == float(last.first_alignment.sel(matrix="hessian")) ** 2


@pytest.mark.slow
def test_alignment_shown_is_that_of_the_chapter():
    shown = SpectralAlignment(classes=2, time=3.0, records=2, test_samples_per_dim=6.0)
    theory = shown.theory().dataset
    assert list(theory.time.values) == [0.0, 3.0] and theory.fine.size == 4
    for matrix, find in KINDS:
        block = find(shown.problem(), 3.0, 6.0)
        assert float(theory[f"alignment_{matrix}"][-1]) == pytest.approx(block.alignment, rel=1e-6)
        assert float(theory[f"outliers_{matrix}"][-1]) == len(block.outliers)
    block = effective.hessian_block(shown.problem(), 3.0, 6.0)
    assert float(theory.leading_sum[-1]) == pytest.approx(block.outliers.sum(), rel=1e-6)
    assert float(theory.alignment_squared[-1]) == pytest.approx(block.alignment**2, rel=1e-6)


@pytest.mark.slow
def test_samples_needed_are_those_of_the_chapter():
    shown = OutlierEmergence(classes=2, time=2.0, ratios=(1.0, 4.0))
    theory = shown.theory()
    needed = [effective.samples_for_outlier(shown.problem(), 2.0, j) for j in (1, 2)]
    assert np.allclose(theory.dataset.samples_needed, needed, rtol=1e-6) and needed[0] < needed[1]
    headline = shown.headline(theory)["theory"]
    assert headline["samples_first_outlier"] == pytest.approx(needed[0], rel=1e-6)
    block = effective.hessian_block(shown.problem(), 2.0, 4.0)
    assert np.allclose(theory.dataset.eigenvalue[-1], block.outliers, rtol=1e-6)
    assert headline["alignment_most_samples"] == pytest.approx(block.alignment, rel=1e-6)


def test_only_outliers_that_have_clearly_emerged_are_compared():
    """Thresholds .5, .8 and never: at one sample per dimension the first counts, at four the first two."""
    ratios = {"ratio": [1.0, 4.0]}
    values = np.array([[3.0, 2.0, 1.0], [4.0, 3.0, 1.0]])
    theory = result(
        "theory",
        eigenvalue=(("ratio", "rank"), values),
        samples_needed=("rank", np.array([0.5, 0.8, np.inf])),
        leading_sum=("ratio", values.sum(axis=1)),
    )
    noise = 0.01 * np.random.default_rng(0).standard_normal((16, 2, 3))
    shown = OutlierEmergence(classes=3)
    for (ratio, rank), verdict in {
        (0, 0): "disagrees",
        (0, 1): "agrees",
        (1, 1): "disagrees",
        (1, 2): "agrees",
    }.items():
        runs = values + noise
        runs[:, ratio, rank] *= 1.3
        simulation = result("simulation", tuple(range(16)), eigenvalue=(("seed", "ratio", "rank"), runs))
        for one in (theory, simulation):
            one.dataset.coords.update(ratios)
        assert shown.compare(theory, simulation).verdict == verdict, (ratio, rank)
