r"""Many small XOR networks trained side by side by SGD, for probabilities over starts.

At $\lambda=\infty$ inputs are the four means themselves, so that training moves nothing but second layer and overlaps:
only the plane of the means is simulated, and $d$ sets the step $\delta=c/d$ and the size $d^{-1/2}$ of the initial
overlaps. At finite $\lambda$ all $d$ dimensions are.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.method import answers
from limen.precision import in_double
from limen.problem import InputError, XorMixture
from limen.result import Findings
from limen.simulation.effective.mixture_steps import Rates, Sample, Weights, xor_step
from limen.simulation.effective.mixture_training import rates_of
from limen.simulation.generators import numpy_generator
from limen.simulation.work import MOST_SGD_WORK

CITATIONS = ("benarous2022",)
# Steps drawn at once: their inputs take some megabytes for a few dozen networks in a hundred dimensions.
BLOCK = 256


@answers("simulation", CITATIONS)
@in_double
def train_networks(problem: XorMixture, time: float, d: int, networks: int, seed: int) -> Findings:
    r"""`networks` trained for `time` from $W_{ij}\sim N(0,1/d)$, $v_i\sim N(0,1)$, each on samples of its own.

    Variables `second_layer` (network, time, neuron) and `overlap` (network, time, neuron, mean), at the end only. Cost:
    $O(Kd)$ a step and network, $O(K)$ at $\lambda=\infty$.
    """
    left = round(time * d / problem.step)
    axes = 2 if np.isinf(problem.sharpness) else d
    work = float(left) * networks * problem.width * axes / MOST_SGD_WORK
    if work > 1.0:
        raise InputError(
            f"time must be shorter, networks fewer or d smaller: {left} steps of {networks} networks at d = {d} are "
            f"{work:.2g} times the work SGD accepts."
        )
    generator = numpy_generator(seed, d, f"xor networks {problem.width} {axes}")
    rows = generator.standard_normal((networks, problem.width, axes)) / np.sqrt(d)
    state = Weights(jnp.asarray(rows), jnp.asarray(generator.standard_normal((networks, problem.width))))
    rates = rates_of(problem, d)
    while left > 0:
        noise = np.zeros((BLOCK, networks, 2)) if axes == 2 else generator.standard_normal((BLOCK, networks, d))
        clouds = generator.integers(0, 4, (BLOCK, networks))
        # Always whole blocks of samples: one compilation.
        state = _advance(rates, state, Sample(noise, np.zeros((BLOCK, networks)), clouds), min(left, BLOCK))
        left -= BLOCK
    second, overlap = np.asarray(state.second_layer), np.asarray(state.rows)[..., :2]
    dataset = xr.Dataset(
        {
            "second_layer": (("network", "time", "neuron"), second[:, None]),
            "overlap": (("network", "time", "neuron", "mean"), overlap[:, None]),
        },
        coords={"time": [time], "mean": ["mu", "nu"]},
        attrs={"d": d},
    )
    status = f"full SGD of {networks} networks, d = {d}."
    return Findings(dataset, True, status)


@jax.jit
def _advance(rates: Rates, state: Weights, samples: Sample, count: Any) -> Weights:
    step = jax.vmap(partial(xor_step, rates))

    def one(i: Any, state: Weights) -> Weights:
        return step(state, jax.tree.map(lambda part: part[i], samples))

    return jax.lax.fori_loop(0, count, one, state)
