"""Exit times of spherical SGD on phase retrieval, by the exact overlap chain: the law at any dimension."""

import numpy as np

from limen.gaussian.bartlett import sphere_gram
from limen.gaussian.keys import stream_keys
from limen.precision import in_double
from limen.problem.activations import as_activation
from limen.problem.spec import InputError
from limen.simulation.chain_steps import ChainFunctions, ChainRates, committee_label
from limen.simulation.overlap_chain import advance_chain, square_slope

# Recorded times per unit of log-growth: linear interpolation of the risk between them is then exact to 1e-4.
POINTS = 400
MOST_ROUNDS = 6


@in_double
def simulated_exit_times(
    width: int, d: int, rate: float, noise: float, fraction: float = 0.01, seeds: int = 256, horizon: float = 4.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Exit times (seeds,), and the starts' $\mu_0=d|m|^2$ and $\tau_0=2d\sum_{j<l}Q_{jl}^2$, one of each per seed.

    One run of SGD per seed from independent uniform neurons on the unit sphere; the exit is the first
    $t=\text{steps}\cdot\gamma/(dp)$ at which the excess risk is `1 - fraction` of its start. `horizon` is the time run
    first; it is doubled until every seed has left (at most five times; a seed still inside is infinity).
    $O(p^3)$ a step, so $d$ costs only through the number of steps, $t\,dp/\gamma$.
    """
    if not 0.0 < fraction < 1.0:
        raise InputError(f"fraction must lie in (0, 1), got {fraction}.")
    if d < width + 1:
        raise InputError(f"d must be at least width + 1 = {width + 1}, got {d}.")
    start = sphere_gram(stream_keys(range(seeds), d, "exit start"), width + 1, d)
    overlap, gram = start[:, :width, width:], start[:, :width, :width]
    function = as_activation("square").function
    functions = ChainFunctions(function, square_slope, committee_label(function), False, noise > 0, True, False, 1)
    unit = rate / (d * width)
    rates = ChainRates(unit, 0.0, noise**0.5, np.zeros(width), (np.ones((1, 1)), np.ones(1)))
    exits = np.full(seeds, np.inf)
    for _ in range(MOST_ROUNDS):
        steps = np.unique(np.rint(np.linspace(0.0, horizon / unit, int(POINTS * horizon) + 1)).astype(np.int64))
        inside = np.flatnonzero(np.isinf(exits))
        aligned, grams, _ = advance_chain(
            functions, rates, overlap[inside], gram[inside], np.ones((inside.size, width)), d, steps, inside.tolist()
        )
        risk = 1.0 + (grams**2).sum(axis=(2, 3)) / width**2 - 2.0 / width * (aligned**2).sum(axis=(2, 3))
        exits[inside] = _first_crossing(steps * unit, risk, (1.0 - fraction) * risk[:, :1])
        if np.isfinite(exits).all():
            break
        horizon *= 2.0
    tau = d * ((gram**2).sum(axis=(1, 2)) - width)
    return exits, d * (overlap**2).sum(axis=(1, 2)), tau


def _first_crossing(times: np.ndarray, risk: np.ndarray, level: np.ndarray) -> np.ndarray:
    below = risk <= level
    found = below.any(axis=1)
    after = np.maximum(below.argmax(axis=1), 1)
    rows = np.arange(len(risk))
    high, low = risk[rows, after - 1], risk[rows, after]
    part = (high - level[:, 0]) / np.where(high > low, high - low, 1.0)
    crossing = times[after - 1] + np.clip(part, 0.0, 1.0) * (times[after] - times[after - 1])
    return np.where(found, crossing, np.inf)
