"""`RandomFeatures` problems: excess risk and training error of gradient flow on the second layer, at every time."""

import numpy as np
import xarray as xr

from limen.method import Method
from limen.problem import InputError, RandomFeatures
from limen.result import Findings
from limen.theory.kernel.activation_moments import activation_moments
from limen.theory.kernel.filters import combine, flow_risk
from limen.theory.kernel.random_features import linear_regime

CITATIONS = ("mei2022",)


def refuses(problem: object) -> str | None:
    """Why this limit does not apply, or None."""
    if not isinstance(problem, RandomFeatures):
        return "it solves RandomFeatures problems."
    try:
        activation_moments(problem.activation)
    except InputError as error:
        return str(error)
    return None


def solve(problem: RandomFeatures, times: np.ndarray) -> Findings:
    r"""`excess_mse` and `train_mse` (mean squares, without ½) at `times`, as $N,n,d\to\infty$ with fixed ratios.

    The contour sums of `random_features_flow` with the filter of flow with weight decay,
    $\varphi(z)=1-z\frac{1-e^{-t(z+\lambda)}}{z+\lambda}$; as $t\to\infty$ they reach `random_features` of the same
    $\lambda$. 5 to 50 ms for each factor of 4 in time, more near $N=n$.
    """
    spectrum = linear_regime(activation_moments(problem.activation), problem.linear, problem.nonlinear)
    parts = flow_risk(spectrum, problem.features_per_dim, problem.samples_per_dim, times, problem.ridge)
    risk = combine(parts, times.shape, problem.noise)
    dataset = xr.Dataset({"excess_mse": ("time", risk.test), "train_mse": ("time", risk.train)}, coords={"time": times})
    return Findings(dataset, True, "converged.")


random_features_problem = Method("random-features", "theory", CITATIONS, refuses, solve)
