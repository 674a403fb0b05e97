"""The theory of the flow against the finite-dimensional Gaussian model it is the limit of, and against real networks.

The Gaussian model must agree within error once extrapolated in 1/d, in two-time correlations too, and planted errors
must be caught. Real networks differ from it: their second layer, overlap and test loss follow while learning, their
train loss stays above; how far is held fast here, and the exact theory of small steps explains it.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import limen
import limen.descent
import limen.flow
from limen.result import Result

QUADRATIC = limen.activation(hermite=[0, 0.8, 0.6])
# Exactly orthogonal neurons without overlap: the start of the theory, without its fluctuations at finite dimension.
LEARNING = limen.TwoLayer(
    limen.target(hermite=[0, 1], noise=0.3),
    limen.network(5, QUADRATIC, train_second_layer=True),
    limen.GradientFlow(),
    samples_per_dim=5.0,
    start=limen.OverlapStart(0.0, gram=np.eye(5).tolist()),
)
NOISE_ONLY = limen.TwoLayer(
    limen.target(hermite=[0], noise=1.0),
    limen.network(4, limen.activation(hermite=[0, 0, 1]), second_layer=1.0),
    limen.GradientFlow(),
    samples_per_dim=2.0,
    start=limen.OverlapStart(0.0, gram=np.eye(4).tolist()),
)
TWO_GROUPS = limen.TwoLayer(
    limen.target("z1 + 0.7*z1*z2", noise=0.3),
    limen.network(
        4,
        limen.activation(hermite=[0.2, 0.8, 0.4, 0.3]),
        second_layer=(1.5, 1.5, 1.5, -1.0),
        train_second_layer=True,
    ),
    limen.GradientFlow(),
    samples_per_dim=4.0,
    start=limen.OverlapStart(0.0, gram=np.eye(4).tolist()),
)
PROBLEMS = {"learning": LEARNING, "noise only": NOISE_ONLY, "two groups": TWO_GROUPS}
TIMES = {"learning": [0.0, 0.2, 0.8, 2.5], "noise only": [0.0, 0.3, 1.0, 3.0], "two groups": [0.0, 0.2, 0.6, 2.0]}
SIZES = {"learning": (40, 80, 160), "noise only": (40, 80, 160), "two groups": (20, 30, 40)}
SEEDS = {"learning": (48, 40, 16), "noise only": (80, 48, 24), "two groups": (48, 40, 32)}
# Standard errors off, at the worst point, of an extrapolation from a few dozen seeds.
WORST = 4.0
STEPS = [0, 1, 2, 4, 8, 14, 20]


def changed(problem: limen.TwoLayer, **values) -> limen.TwoLayer:
    return limen.TwoLayer(**{name: values.get(name, getattr(problem, name)) for name in type(problem).model_fields})


def without_noise(problem: limen.TwoLayer) -> limen.TwoLayer:
    return changed(problem, target=problem.target.model_copy(update={"noise": 0.0}))


def with_swapped_times(theory: Result) -> Result:
    """C(t, t'-) in the place of C(t, t'): the last argument one recorded time behind."""
    correlation = theory.dataset.correlation
    wrong = correlation.values[:, np.maximum(np.arange(correlation.sizes["time2"]) - 1, 0)]
    return replace(theory, dataset=theory.dataset.assign(correlation=(correlation.dims, wrong)))


def projected(problem: limen.TwoLayer, step: float) -> limen.TwoLayer:
    return changed(problem, algorithm=limen.GradientDescent(step, spherical=True))


def descent_theory(problem: limen.TwoLayer) -> Result:
    found = limen.flow.finite_step(problem, STEPS[-1])
    return replace(found, dataset=found.dataset.sel(time=STEPS, time2=STEPS))


def sampled(problem: limen.TwoLayer, times, d: int, seeds: int, **options) -> Result:
    return limen.simulate(problem, times, d=d, seeds=seeds, simulator="sampled-gaussian-model", **options)


@lru_cache(maxsize=1)
def projected_runs() -> tuple[Result, ...]:
    return tuple(sampled(projected(LEARNING, 1.0), STEPS, d, 80) for d in (40, 80))


DESCENT_VARIABLES = ("train_loss", "test_loss", "overlap", "correlation")


@pytest.mark.slow
def test_projected_descent_of_the_gaussian_model():
    comparison = limen.compare(descent_theory(projected(LEARNING, 1.0)), projected_runs(), DESCENT_VARIABLES)
    assert comparison.verdict == "agrees", str(comparison)


@pytest.mark.parametrize("twin", ["step", "noise", "times"])
def test_planted_errors_in_projected_descent_are_caught(twin):
    wrong = {
        "step": lambda: descent_theory(projected(LEARNING, 1.2)),
        "noise": lambda: descent_theory(projected(without_noise(LEARNING), 1.0)),
        "times": lambda: with_swapped_times(descent_theory(projected(LEARNING, 1.0))),
    }[twin]()
    wrong = replace(wrong, spec=projected_runs()[0].spec)
    comparison = limen.compare(wrong, projected_runs(), DESCENT_VARIABLES)
    assert comparison.verdict == "disagrees", str(comparison)


@lru_cache(maxsize=3)
def flow_runs(name: str) -> tuple[Result, ...]:
    sizes = zip(SIZES[name], SEEDS[name], strict=True)
    return tuple(sampled(PROBLEMS[name], TIMES[name], d, seeds, tolerance=1e-4) for d, seeds in sizes)


def extrapolated_deviations(theory: Result, runs: tuple[Result, ...]) -> dict[str, float]:
    """Largest deviation of each variable, in standard errors of a fit b + A/d to the means over seeds."""
    found = {}
    for name in ("train_loss", "test_loss", "second_layer", "overlap", "gram", "correlation"):
        samples = [run.dataset[name].values.reshape(len(run.seeds), -1) for run in runs]
        means = np.array([part.mean(axis=0) for part in samples])
        errors = np.array([part.std(axis=0, ddof=1) / len(part) ** 0.5 for part in samples])
        expected = theory.dataset[name].values.ravel()
        moving = (errors > 1e-9).all(axis=0)
        deviations = [0.0]
        for point in np.flatnonzero(moving):
            weights = 1.0 / errors[:, point]
            sizes = np.array([run.dataset.attrs["d"] for run in runs])
            design = np.stack([np.ones(len(runs)), 1.0 / sizes], axis=1) * weights[:, None]
            covariance = np.linalg.inv(design.T @ design)
            limit = (covariance @ design.T @ (weights * means[:, point]))[0]
            deviations.append(abs(limit - expected[point]) / covariance[0, 0] ** 0.5)
        found[name] = max(deviations)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_flow_of_the_gaussian_model_extrapolated_in_dimension(name):
    deviations = extrapolated_deviations(limen.flow.solve(PROBLEMS[name], TIMES[name]), flow_runs(name))
    assert max(deviations.values()) < WORST, deviations


def planted(name: str, twin: str) -> Result:
    problem, times = PROBLEMS[name], TIMES[name]
    assert problem.samples_per_dim is not None
    if twin == "samples":
        return limen.flow.solve(changed(problem, samples_per_dim=1.1 * problem.samples_per_dim), times)
    if twin == "noise":
        return limen.flow.solve(without_noise(problem), times)
    if twin == "less noise":
        return limen.flow.solve(changed(problem, target=limen.target(hermite=[0], noise=0.9)), times)
    if twin == "sign":
        network = problem.network.model_copy(update={"second_layer": (1.5, 1.5, 1.5, 1.0)})
        return limen.flow.solve(changed(problem, network=network), times)
    return with_swapped_times(limen.flow.solve(problem, times))


TWINS = [
    *(("learning", twin) for twin in ("samples", "noise", "times")),
    *(("noise only", twin) for twin in ("less noise", "times")),
    *(("two groups", twin) for twin in ("sign", "noise", "times")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "twin"), TWINS)
def test_planted_errors_in_the_flow_are_caught(name, twin):
    deviations = extrapolated_deviations(planted(name, twin), flow_runs(name))
    assert max(deviations.values()) > WORST, deviations


def network_means(problem: limen.TwoLayer, times, d: int, seeds: int):
    return limen.simulate(problem, times, d=d, seeds=seeds, tolerance=1e-4).dataset.mean("seed")


@pytest.mark.slow
def test_real_networks_while_learning():
    problem = changed(
        LEARNING,
        network=limen.network(10, QUADRATIC, train_second_layer=True),
        start=limen.OverlapStart(0.0, gram=np.eye(10).tolist()),
    )
    times = [0.5, 1.0, 2.0, 5.0, 10.0]
    theory, networks = limen.flow.solve(problem, times).dataset, network_means(problem, times, 300, 6)
    for name in ("second_layer", "overlap", "test_loss"):
        np.testing.assert_allclose(networks[name], theory[name], rtol=0.08)
    # The Gaussian model fits noise too fast: its train loss falls below that of networks, ever further.
    ratio = (theory.train_loss / networks.train_loss).values
    assert 0.95 < ratio[0] < 1.02
    assert (np.diff(ratio) < 0.01).all()
    assert 0.62 < ratio[-1] < 0.78


@pytest.mark.slow
def test_exact_theory_of_small_steps_has_the_train_loss_of_networks():
    time, counts = 2.0, (10, 20)
    losses = []
    for count in counts:
        # A step lasts eta d/n, with n/d = 5.
        descent = limen.descent.solve(projected(LEARNING, 5.0 * time / count), [count], paths=4096, scrambles=3)
        losses.append(descent.dataset.train_loss.item())
    exact = 2 * losses[1] - losses[0]
    gaussian = limen.flow.solve(LEARNING, [time]).dataset.train_loss.item()
    networks = network_means(LEARNING, [time], 300, 8).train_loss.item()
    assert exact == pytest.approx(networks, rel=0.04)
    assert 0.84 < gaussian / networks < 0.92
