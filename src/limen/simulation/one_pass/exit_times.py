"""Exit times of spherical SGD on phase retrieval, by the exact overlap chain: the law at any dimension."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.bartlett import sphere_gram
from limen.gaussian.keys import stream_keys
from limen.precision import in_double
from limen.problem.activations import as_activation
from limen.problem.spec import InputError
from limen.simulation.one_pass.chain_steps import ChainFunctions, ChainRates, ChainState, committee_label, run_until
from limen.simulation.one_pass.overlap_chain import square_slope

# Seeds that have left are dropped when only this part is still inside: every new number of seeds is compiled anew.
DROP, WORTH_DROPPING = 8, 512


@in_double
def simulated_exit_times(
    width: int,
    d: int,
    rate: float,
    noise: float,
    fraction: float = 0.01,
    seeds: int | Sequence[int] = 256,
    horizon: float = 40.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Exit times (seeds,), and the starts' $\mu_0=d|m|^2$ and $\tau_0=2d\sum_{j<l}Q_{jl}^2$, one of each per seed.

    One run of SGD per seed from independent uniform neurons on the unit sphere; the exit is the first
    $t=\text{steps}\cdot\gamma/(dp)$ at which the excess risk is at most `1 - fraction` of its start, looked at after
    every step. `seeds`: 8 means seeds 0..7, or a list. Ends when all have left; a seed still inside at `horizon` is
    infinity. $O(p^3)$ a step, so $d$ costs only through the number of steps, $t\,dp/\gamma$.
    """
    width, d = int(width), int(d)
    check_exit(width, d, rate, noise, fraction, horizon)
    every = seeds_of(seeds)
    if (steps := horizon * d * width / rate) >= 2**31:
        raise InputError(f"horizon * d * width / rate must be below 2^31 steps, got {steps:.3g}: take a smaller d.")
    start = sphere_gram(stream_keys(every, d, "exit start"), width + 1, d)
    overlap, gram = start[:, :width, width:], start[:, :width, :width]
    function = as_activation("square").function
    functions = ChainFunctions(function, square_slope, committee_label(function), False, noise > 0, True, False, 1)
    unit = rate / (d * width)
    rates = ChainRates(unit, 0.0, noise**0.5, np.zeros(width), (np.ones((1, 1)), np.ones(1)))
    rates = jax.tree.map(jnp.asarray, rates)
    rest = gram - overlap @ overlap.transpose(0, 2, 1)
    parts = (np.moveaxis(overlap, 0, -1), np.moveaxis(rest, 0, -1), np.ones((width, len(every))))
    state = ChainState(*(jnp.asarray(part) for part in parts))
    keys = stream_keys(every, d, "overlap chain")
    level = (1.0 - fraction) * np.asarray(_excess_risk(state))
    exits, inside = np.full(len(every), np.inf), np.arange(len(every))
    most, done = int(np.ceil(horizon / unit)), 0
    while inside.size and done < most:
        few = inside.size // DROP if inside.size >= WORTH_DROPPING else 0
        state, keys, first, more = run_until(
            functions,
            _excess_risk,
            rates,
            state,
            jnp.ones((width, inside.size)),
            jnp.asarray([d - width - 1.0]),
            keys,
            jnp.asarray(level[inside]),
            jnp.asarray(few),
            jnp.asarray(most - done),
        )
        first = np.asarray(first)
        # The last block may go beyond the horizon.
        left = (first > 0) & (done + first <= most)
        exits[inside[left]] = (done + first[left]) * unit
        done += int(more)
        state, keys, inside = jax.tree.map(lambda part: part[..., ~left], state), keys[~left], inside[~left]  # noqa: B023
    tau = d * ((gram**2).sum(axis=(1, 2)) - width)
    return exits, d * (overlap**2).sum(axis=(1, 2)), tau


def seeds_of(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """8 means seeds 0..7; or a list."""
    every = tuple(range(seeds)) if isinstance(seeds, (int, np.integer)) else tuple(int(seed) for seed in seeds)
    if not every:
        raise InputError("seeds must be at least one.")
    return every


def _excess_risk(state: ChainState) -> jax.Array:
    r"""$1+\frac1{p^2}\mathrm{tr}\,Q^2-\frac2p|m|^2$, shape (seeds,)."""
    aligned, rest, _ = state
    width = aligned.shape[0]
    gram = rest + aligned * jnp.swapaxes(aligned, 0, 1)
    return 1.0 + (gram**2).sum(axis=(0, 1)) / width**2 - 2.0 / width * (aligned**2).sum(axis=(0, 1))


def check_exit(width: int, d: int, rate: float, noise: float, fraction: float, horizon: float) -> None:
    """Refuses arguments of an exit time that make no sense."""
    if width < 1:
        raise InputError(f"width must be at least 1, got {width}.")
    if d < width + 1:
        raise InputError(f"d must be at least width + 1 = {width + 1}, got {d}.")
    if not rate > 0.0:
        raise InputError(f"rate must be positive, got {rate}.")
    if not noise >= 0.0:
        raise InputError(f"noise must not be negative, got {noise}.")
    if not 0.0 < fraction < 1.0:
        raise InputError(f"fraction must lie in (0, 1), got {fraction}.")
    if not horizon > 0.0:
        raise InputError(f"horizon must be positive, got {horizon}.")
