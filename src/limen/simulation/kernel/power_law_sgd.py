"""One-pass SGD on random features of power-law data, in as many dimensions as the problem has."""

import numpy as np
import xarray as xr

from limen.gaussian.power_law_draw import drawn_features
from limen.method import Method
from limen.problem.families.power_law_features import PowerLawFeatures
from limen.problem.rates import check_rate_until, is_schedule, rate_values
from limen.problem.spec import InputError
from limen.result import Findings
from limen.simulation.generators import numpy_generator
from limen.simulation.record import diverged, states_at

CITATIONS = ("paquette2024",)
# Samples times ambient times features of one run: about half an hour on one core.
MOST_WORK = 3e13
BLOCK_ENTRIES = 2_000_000


def refuses(problem: object) -> str | None:
    """Why this simulator cannot run the problem, or None."""
    return None if isinstance(problem, PowerLawFeatures) else "it trains PowerLawFeatures."


def solve(problem: PowerLawFeatures, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""Draws the features and trains on fresh samples; the risk of every recorded $\theta$ is exact,
    $|D^{1/2}(W\theta-b)|^2$. Cost: $vd$ operations a sample."""
    if d != problem.features:
        raise InputError(f"d must be the features of the problem ({problem.features}) or left out, got {d}.")
    steps = np.rint(times).astype(np.int64)
    batch, v = problem.batch, problem.ambient
    work = float(steps[-1]) * batch * v * d / MOST_WORK
    if work > 1.0:
        raise InputError(f"times must be shorter: {steps[-1]} steps are {work:.2g} times the work SGD accepts.")
    if is_schedule(problem.rate):
        check_rate_until(problem.rate, float(steps[-1]))
    weighted, target = drawn_features(problem, seed)
    generator = numpy_generator(seed, d, "power-law samples")
    noises = numpy_generator(seed, d, "power-law label noise")
    most = max(1, BLOCK_ENTRIES // (v * batch))

    def advance(state: tuple[np.ndarray, int], left: int) -> tuple[tuple[np.ndarray, int], int]:
        (theta, done), count = state, min(most, left)
        rates = rate_values(problem.rate, np.arange(done, done + count, dtype=float))
        normals = generator.standard_normal((count * batch, v))
        features = (normals @ weighted).reshape(count, batch, d)
        labels = (normals @ target).reshape(count, batch)
        if problem.noise > 0.0:
            labels = labels + np.sqrt(problem.noise) * noises.standard_normal((count, batch))
        for rate, phi, y in zip(rates, features, labels, strict=True):
            theta = theta - rate * ((phi @ theta - y) @ phi)
        return (theta, done + count), count

    path = states_at(steps, (np.zeros(d), 0), advance)
    risk = np.array([0.5 * np.sum((weighted @ theta - target) ** 2) for theta, _ in path])
    dataset = xr.Dataset(
        {
            "excess_risk": (("seed", "time"), risk[None]),
            "test_loss": (("seed", "time"), risk[None] + 0.5 * problem.noise),
        },
        coords={"time": times, "seed": [seed], "step": ("time", steps), "samples": ("time", steps * batch)},
        attrs={"d": d},
    )
    finite = bool(np.isfinite(risk).all())
    status = f"SGD on {d} features of {v} dimensions." if finite else diverged(d, "rate")
    return Findings(dataset, finite, status)


power_law_sgd = Method("power-law-sgd", "simulation", CITATIONS, refuses, solve)
