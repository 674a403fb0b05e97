"""XOR and Gaussian mixtures: exact chains against SGD in d dimensions, flows against chains, blocks against test sets.

Planted errors must be seen: a penalty, a step or a sharpness that is not the simulation's.
"""

import math

import numpy as np
import pytest

import limen
from limen import GaussianMixture, OverlapStart, XorMixture, effective

MIXTURE = GaussianMixture(
    3, 4.0, 0.3, 2.0, probabilities=(0.5, 0.3, 0.2), mean_gram=((1, 0.2, 0), (0.2, 1, 0), (0, 0, 2))
)
XOR = XorMixture(3, 4.0, 0.1, 2.0)
XOR_START = OverlapStart(((0.6, 0.0), (-0.2, 0.5), (0.1, -0.7)))
XOR_SECOND = (0.8, -1.0, -0.7)


def options(problem):
    if isinstance(problem, XorMixture):
        return {"start": XOR_START, "second_layer": XOR_SECOND}
    return {"start": OverlapStart(((0.3, 0.0, 0.1), (0.0, 0.2, 0.0), (0.1, 0.0, -0.4)))}


def statistics(run):
    return np.concatenate(
        [run.dataset[name].isel(time=-1).values.reshape(len(run.seeds), -1) for name in sorted(run.dataset.data_vars)],
        axis=1,
    )


def discrepancy(one, other):
    """The largest difference of means, and of logarithms of standard deviations, in standard errors."""
    first, second = statistics(one), statistics(other)
    error = np.sqrt(first.var(axis=0, ddof=1) / len(first) + second.var(axis=0, ddof=1) / len(second))
    means = np.abs(first.mean(axis=0) - second.mean(axis=0)) / error
    spreads = np.abs(np.log(first.std(axis=0, ddof=1) / second.std(axis=0, ddof=1)))
    # Statistics such as squared lengths are not Gaussian: 1.3 is what their fourth moments add to the error.
    return means.max(), (spreads / (1.3 * math.sqrt(0.5 / len(first) + 0.5 / len(second)))).max()


@pytest.mark.parametrize(
    "problem", [pytest.param(MIXTURE, id="mixture", marks=pytest.mark.slow), pytest.param(XOR, id="xor")]
)
def test_the_chain_has_the_law_of_sgd(problem):
    name = "xor" if isinstance(problem, XorMixture) else "mixture"
    problem = problem.model_copy(update=options(problem))
    full = limen.simulate(problem, [3.0], d=16, seeds=200, simulator=f"{name}-sgd")
    chain = limen.simulate(problem, [3.0], d=16, seeds=range(1000, 2024), simulator=f"{name}-chain")
    means, spreads = discrepancy(full, chain)
    assert means < 4.5 and spreads < 4.5
    wrong = problem.model_copy(update={"step": 1.4 * problem.step})
    twin = limen.simulate(wrong, [3.0], d=16, seeds=range(1000, 2024), simulator=f"{name}-chain")
    assert max(discrepancy(full, twin)) > 4.5


@pytest.mark.slow
def test_the_sum_over_classes_shrinks_by_the_same_factor_at_every_step():
    # As many chains as elsewhere in this file share one compilation.
    for simulator, seeds in (("mixture-sgd", 2), ("mixture-chain", 128)):
        run = limen.simulate(MIXTURE, [0.0, 1.0, 3.0], d=16, seeds=seeds, simulator=simulator).dataset
        factor = (1 - MIXTURE.step * MIXTURE.penalty / 16) ** run.step.values
        totals = run.overlap.sum("class").values
        assert np.allclose(totals, totals[:, :1] * factor[:, None], rtol=0, atol=1e-13)
        square = run.orthogonal_gram.sum(("class", "class2")).values
        assert np.allclose(square, square[:, :1] * factor**2, rtol=1e-9)


def test_paths_do_not_depend_on_what_is_recorded_or_on_company():
    for simulator, seeds in (("xor-sgd", 2), ("xor-chain", 128)):
        long = limen.simulate(XOR, [1.0, 2.0, 3.0], d=16, seeds=seeds, simulator=simulator).dataset
        short = limen.simulate(XOR, [3.0], d=16, seeds=[1], simulator=simulator).dataset
        assert np.allclose(long.overlap.values[1, -1], short.overlap.values[0, -1], atol=1e-12)


def test_theory_and_simulation_start_from_the_same_statistics():
    theory = limen.predict(XOR, [0.0], d=50, seeds=2).dataset
    for simulator in ("xor-sgd", "xor-chain"):
        run = limen.simulate(XOR, [0.0], d=50, seeds=2, simulator=simulator).dataset
        for name in ("overlap", "second_layer", "orthogonal_gram"):
            assert np.allclose(theory[name], run[name], atol=1e-14)


def test_the_mixture_flow_agrees_with_the_chain_and_a_wrong_penalty_does_not():
    problem, times = GaussianMixture(3, 10.0, 0.1, 1.0), np.linspace(1.0, 6.0, 6)
    runs = [limen.simulate(problem, times, d=d, seeds=128, simulator="mixture-chain") for d in (150, 600)]
    comparison = limen.compare(limen.predict(problem, times), runs)
    assert comparison.verdict == "agrees", str(comparison)
    for wrong in ({"penalty": 0.11}, {"step": 1.2}):
        twin = limen.predict(problem.model_copy(update=wrong), times)
        assert limen.compare(twin, runs, resolution=0.001, differing=tuple(wrong)).verdict == "disagrees"


@pytest.mark.slow
@pytest.mark.parametrize("second_layer", [XOR_SECOND, (0.5, 0.9, -1.2)])
def test_the_xor_flow_agrees_with_the_chain_and_a_wrong_one_does_not(second_layer):
    problem, times = XorMixture(3, 10.0, 0.05, 1.0, XOR_START, second_layer), np.linspace(2.0, 12.0, 6)
    runs = [limen.simulate(problem, times, d=d, seeds=256, simulator="xor-chain") for d in (300, 1200)]
    comparison = limen.compare(limen.predict(problem, times), runs)
    assert comparison.verdict == "agrees", str(comparison)
    for wrong in ({"penalty": 0.055}, {"step": 1.3}):
        twin = limen.predict(problem.model_copy(update=wrong), times)
        assert limen.compare(twin, runs, resolution=0.001, differing=tuple(wrong)).verdict == "disagrees"


@pytest.mark.slow
def test_the_sharp_xor_flow_agrees_with_sgd_without_noise():
    problem, times = XorMixture(4, math.inf, 0.05, 1.0), np.linspace(2.0, 20.0, 4)
    theory = limen.predict(problem, times, d=1000, seeds=8)
    runs = limen.simulate(problem, times, d=1000, seeds=8, simulator="xor-chain")
    # Sliding overlaps chatter within a step of zero, and clouds are drawn at random: deviations of order d^(-1/2).
    difference = runs.dataset - theory.dataset
    assert float(abs(difference.overlap.mean("seed")).max()) < 0.04
    assert float(abs(difference.second_layer.mean("seed")).max()) < 0.04


@pytest.mark.slow
@pytest.mark.parametrize(("matrix", "seeds"), [("hessian", 8), ("gradient", 8)])
def test_blocks_of_the_mixture_at_d_500(matrix, seeds):
    problem = GaussianMixture(3, 10.0, 0.05, 1.0)
    find = effective.hessian_block if matrix == "hessian" else effective.gradient_block
    theory = find(problem, 10.0, 6.0)
    run = effective.measure_block(problem, [10.0], 6.0, 500, seeds=seeds, matrix=matrix).dataset
    values, alignment = run.eigenvalue.values[:, 0], run.alignment.values[:, 0]
    count = len(theory.outliers)
    sums = values[:, :count].sum(axis=1)
    allowed = 4 * sums.std(ddof=1) / math.sqrt(seeds) + 0.001
    # Near-degenerate outliers mix at finite d; their sum does not.
    assert np.abs(values.mean(axis=0)[:count] - theory.outliers).max() < 0.03 * theory.outliers[0]
    assert abs(sums.mean() - theory.outliers.sum()) < allowed
    spread = alignment.std(ddof=1) / math.sqrt(seeds)
    if matrix == "hessian":
        assert abs(alignment.mean() - theory.alignment) < 4 * spread + 0.004
        # The same without the part of the finite test set.
        twin = find(problem, 10.0, 600.0)
        assert abs(sums.mean() - twin.outliers.sum()) > allowed
        assert abs(alignment.mean() - twin.alignment) > 4 * spread + 0.004


@pytest.mark.slow
def test_signed_blocks_of_the_mixture():
    problem = GaussianMixture(3, 10.0, 0.05, 1.0)
    theory = effective.hessian_block(problem, 6.0, 6.0, block=(0, 1))
    run = effective.measure_block(problem, [6.0], 6.0, 400, seeds=4, block=(0, 1)).dataset
    values = run.eigenvalue.values[:, 0].mean(axis=0)
    assert np.allclose(values[:2], theory.lower_outliers[:2], rtol=0.04)
    assert abs(float(run.alignment.mean()) - theory.alignment) < 0.02


@pytest.mark.slow
def test_first_and_second_layer_blocks_of_xor():
    problem = XorMixture(4, 20.0, 0.05, 1.0)
    given = {
        "start": OverlapStart(((0.3, 0.0), (-0.3, 0.0), (0.0, 0.3), (0.0, -0.3))),
        "second_layer": (0.5, 0.5, -0.5, -0.5),
    }
    for matrix, find in (("hessian", effective.hessian_block), ("gradient", effective.gradient_block)):
        theory = find(problem, 20.0, 6.0, neuron=2, **given)
        run = effective.measure_block(problem, [20.0], 6.0, 400, 6, matrix, block=(2, 2), **given).dataset
        assert np.allclose(run.eigenvalue.mean("seed").values[0], theory.outliers, rtol=0.08)
        assert abs(float(run.alignment.mean()) - theory.alignment) < 0.015
        layer = effective.second_layer_block(problem, 20.0, matrix, **given)
        run = effective.measure_second_layer(problem, [20.0], 6.0, 400, 6, matrix, **given).dataset
        assert np.allclose(run.eigenvalue.mean("seed").values[0], layer.eigenvalues, rtol=0.06)


@pytest.mark.slow
def test_success_is_measured_beside_the_sign_signature_value():
    """At N = 200 and sharpness 20 four neurons find all clusters more often than their signs say: .145 at t = 100."""
    problem = XorMixture(4, 20.0, 0.05, 1.0)
    run = limen.simulate(problem, [100.0], d=200, seeds=640, simulator="xor-chain")
    found = float(np.mean(effective.occupied_clusters(run) == 4))
    error = math.sqrt(0.145 * 0.855 / 640)
    assert abs(found - 0.145) < 3.5 * math.hypot(error, 0.014)
    assert found - effective.lottery_probability(problem) > 3.0 * error
