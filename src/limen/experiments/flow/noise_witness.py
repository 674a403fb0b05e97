r"""Witnesses of noise fitting: the Gaussian model at two finite dimensions, and a real network beside it.

Labels are pure noise, or noise beside a target. With noise alone, $\sigma=he_p$, $p\ge2$, and the second layer at
$\gamma\sqrt m$ the limit does not depend on the width $m$, so that a few neurons in a few dozen dimensions show it.
It does so by $O(1/m)$ with a linear part in $\sigma$, by $O(m^{-1/2})$ with a target of degree 2 or more. The noise
that was drawn moves every train loss of a run alike; compared is the part of the initial train loss that remains.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from limen.experiments.figure import Mark, Points, mean_and_error
from limen.experiments.flow.flow_witness import GAUSSIAN, NETWORK, flow_problem, runs_in
from limen.experiments.flow.flow_words import NOTHING, flow_activation
from limen.experiments.number import Number
from limen.problem import InputError, TwoLayer
from limen.result import Findings, Result


def noise_problem(
    activation: str,
    width: int,
    samples_per_parameter: float,
    noise: float,
    second_layer: float,
    trained: bool,
    target: str = NOTHING,
) -> TwoLayer:
    r"""A network on noise, and a target if there is one, all $a_j=$ `second_layer`, fixed or trained; activation and
    target in words of `flow_words`. A constant in the activation is refused: it adds $\sqrt m\,\gamma s_0$ to every
    output, which no rotation of the neurons takes away."""
    constant = (flow_activation(activation).hermite or (0.0,))[0]
    if constant:
        raise InputError(
            f"activation must have no constant part, E[sigma(z)] = 0, got {constant:.3g} ({activation!r})."
        )
    return flow_problem(width, samples_per_parameter, noise, activation, target, second_layer, trained)


def remaining(result: Findings | Result) -> np.ndarray:
    """Train loss over its initial value; the first recorded time is 0."""
    loss = result.dataset.train_loss.values.ravel()
    return loss / loss[0]


def dimensions(d: int) -> tuple[int, int]:
    """The two dimensions of the Gaussian model: half of `d`, and `d`."""
    return d // 2, d


def noise_runs(problem: TwoLayer, times: np.ndarray, d: int, seed: int) -> list[Findings]:
    """The Gaussian model in the two `dimensions` of `d`, then a real network in the larger one."""
    return runs_in(dimensions(d), problem, times, seed)


def joined_theory(dataset: xr.Dataset, solved: Sequence[Findings | Result]) -> Findings:
    """Several solved flows as one; the status is the first that is not ok."""
    worst = next((part for part in solved if not part.ok), None)
    status = "the limit of the Gaussian model; real networks fit noise more slowly."
    ok = worst is None
    return Findings(dataset, ok, worst.status if worst else status)


def witness_marks(
    times: np.ndarray, model: np.ndarray | None, real: np.ndarray | None, d: int, named: bool
) -> list[Mark]:
    """Means over seeds of the Gaussian model and of real networks, (seed, point); none of what is None."""
    marks: list[Mark] = []
    if model is not None:
        marks.append(Points(times, *mean_and_error(model), f"Gaussian model, $d={d}$" * named, GAUSSIAN))
    if real is not None:
        marks.append(Points(times, *mean_and_error(real), f"real networks, $d={d}$" * named, NETWORK))
    return marks


def with_network_deviation(
    headline: Mapping[str, dict[str, float]],
    theory: xr.DataArray,
    networks: xr.DataArray | None,
    scale: float,
    what: str,
) -> dict[str, dict[str, float]]:
    """Adds how far the mean of real networks (seed, ...) is at most from the theory, in units of `scale`, which takes
    both witnesses; the theory is at no distance from itself."""
    apart = {"theory": 0.0}
    if networks is not None:
        apart["simulation"] = float(np.abs(networks.mean("seed").values - theory.values).max() / scale)
    words = f"largest deviation of {what} of real networks from the theory"
    return {
        witness: {**numbers, "network_deviation": Number(apart[witness], words)}
        for witness, numbers in headline.items()
    }
