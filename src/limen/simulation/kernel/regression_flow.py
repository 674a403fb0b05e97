"""`Ridge` and `RandomFeatures` problems at finite size: gradient flow with weight decay on drawn data."""

import numpy as np
import xarray as xr

from limen.method import Method
from limen.problem import InputError, RandomFeatures, Ridge
from limen.result import Findings
from limen.simulation.kernel.least_squares import draw_least_squares, rows_least_squares, spectral_errors
from limen.simulation.kernel.random_features import draw_random_features, random_features_errors
from limen.simulation.kernel.spectral_estimators import RegressionErrors, Shrinkage


def decaying_flow_shrinkages(times: np.ndarray, ridge: float) -> list[Shrinkage]:
    r"""$q(s)=s\frac{1-e^{-t(s+\lambda)}}{s+\lambda}$ for each time: what flow with weight decay fits along a singular
    vector of eigenvalue $s>0$."""

    def shrinkage(duration: float) -> Shrinkage:
        return lambda s: -s / (s + ridge) * np.expm1(-duration * (s + ridge))

    return [shrinkage(float(duration)) for duration in times]


def refuses_ridge(problem: object) -> str | None:
    """Why this simulator does not apply, or None."""
    return None if isinstance(problem, Ridge) else "it trains Ridge problems."


def solve_ridge(problem: Ridge, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""Gradient flow on one data set of $p=d$ dimensions and $n=d/\gamma$ samples (rounded).

    The flow is followed exactly along the singular vectors of the data; `excess_mse` is exact given the data. One
    SVD, $O(d\,n\min(d,n))$.
    """
    samples = _count("ratio", d / problem.ratio)
    held = problem.inputs.rows
    if held is None:
        data = draw_least_squares(seed, d, samples, problem.noise, **problem.population)
    elif d == problem.d:
        data = rows_least_squares(seed, held, samples, problem.noise, problem.inputs.fractions, problem.signal)
    else:
        raise InputError(f"d must be the {problem.d} directions of the data or left out, got {d}.")
    errors = spectral_errors(data, decaying_flow_shrinkages(times, problem.ridge))
    return _findings(times, d, seed, errors, f"gradient flow on {samples} samples.")


def refuses_random_features(problem: object) -> str | None:
    """Why this simulator does not apply, or None."""
    return None if isinstance(problem, RandomFeatures) else "it trains RandomFeatures problems."


def solve_random_features(
    problem: RandomFeatures, times: np.ndarray, d: int, seed: int, test_samples: int = 2000
) -> Findings:
    r"""Gradient flow on one draw of features, data and labels in dimension $d$; $N$ and $n$ are rounded.

    `excess_mse` is the mean over `test_samples` fresh inputs. One SVD, $O(nN\min(n,N))$, and the features of the fresh
    inputs.
    """
    features = _count("features_per_dim", problem.features_per_dim * d)
    samples = _count("samples_per_dim", problem.samples_per_dim * d)
    data = draw_random_features(
        seed, problem.activation, d, features, samples, **problem.target, test_samples=test_samples
    )
    errors = random_features_errors(data, decaying_flow_shrinkages(times, problem.ridge))
    status = f"gradient flow on {features} features and {samples} samples."
    return _findings(times, d, seed, errors, status)


def _findings(times: np.ndarray, d: int, seed: int, errors: RegressionErrors, status: str) -> Findings:
    dims = ("seed", "time")
    dataset = xr.Dataset(
        {"excess_mse": (dims, errors.test[None]), "train_mse": (dims, errors.train[None])},
        coords={"time": times, "seed": [seed]},
        attrs={"d": d},
    )
    return Findings(dataset, True, status)


def _count(name: str, value: float) -> int:
    count = round(value)
    if count < 1:
        raise InputError(f"{name} must leave at least one sample and one feature at this d, got {value:g} of them.")
    return count


ridge_flow_simulation = Method("ridge-flow", "simulation", (), refuses_ridge, solve_ridge)
random_features_simulation = Method(
    "random-features-flow", "simulation", (), refuses_random_features, solve_random_features
)
