"""`Ridge` problems: excess risk and training error of gradient flow with weight decay, at every time."""

import numpy as np
import xarray as xr

from limen.method import Method
from limen.problem import Ridge
from limen.result import Findings
from limen.theory.kernel.filters import ridge_flow

CITATIONS = ("ali2019", "advani2020", "hastie2022")


def refuses(problem: object) -> str | None:
    """Why this limit does not apply, or None."""
    return None if isinstance(problem, Ridge) else "it solves Ridge problems."


def solve(problem: Ridge, times: np.ndarray) -> Findings:
    r"""`excess_mse` and `train_mse` (mean squares, without ½) of `ridge_flow` at `times`, $p,n\to\infty$.

    `bias_mse` and `variance_mse` are the two parts of the excess risk. Milliseconds away from $\gamma=1$.
    """
    risk = ridge_flow(problem.ratio, times, problem.noise, **problem.population, ridge=problem.ridge)
    dataset = xr.Dataset(
        {
            "excess_mse": ("time", risk.test),
            "train_mse": ("time", risk.train),
            "bias_mse": ("time", risk.bias),
            "variance_mse": ("time", risk.variance),
        },
        coords={"time": times},
    )
    return Findings(dataset, True, "converged.")


ridge_problem = Method("ridge", "theory", CITATIONS, refuses, solve)
