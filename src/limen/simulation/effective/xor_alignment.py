r"""All blocks of one XOR network along one training: both layers, Hessian and gradient second moment.

As `limen.simulation.effective.mixture_blocks`, with one training and one test set per time for all of them.
"""

from typing import Any

import numpy as np
import xarray as xr

from limen.method import answers
from limen.precision import in_double
from limen.problem import OverlapStart, XorMixture
from limen.result import Findings
from limen.simulation.effective.mixture_blocks import (
    XOR_LEADING,
    alignment,
    fresh_inputs,
    sample_weights,
    second_layer_spectrum,
)
from limen.simulation.effective.mixture_training import nearest_steps, start_of, trained_weights
from limen.simulation.generators import numpy_generator
from limen.simulation.spectra.spectrum import top_eigenspace, weighted_gram

CITATIONS = ("benarous2023",)
MATRICES = ("hessian", "gradient")


@answers("simulation", CITATIONS)
@in_double
def measure_network(
    problem: XorMixture,
    times: np.ndarray,
    test_samples_per_dim: float,
    d: int,
    seed: int,
    neuron: int,
    start: OverlapStart,
    second_layer: Any,
) -> Findings:
    r"""Trains once and measures, on a new test set at every time, for `matrix` Hessian and gradient:

    `second_eigenvalue` (seed, matrix, time, rank) all $K$ of the second layer, `second_alignment` of $v$ with the four
    leading eigenvectors; `first_eigenvalue` the two leading ones of the block of `neuron`, `first_alignment` of $W_i$
    with their span. Beside them `second_layer` and `overlap` (seed, time, neuron...), as from training alone.
    """
    begin = start_of(problem, d, seed, start, second_layer)
    rows, second = trained_weights(problem, begin, d, seed, nearest_steps(problem, times, d))
    generator = numpy_generator(seed, d, "mixture test")
    shape = (1, len(MATRICES), len(times))
    layer, layer_aligned = np.empty((*shape, problem.width)), np.empty(shape)
    values, aligned = np.empty((*shape, XOR_LEADING)), np.empty(shape)
    for t in range(len(times)):
        inputs, clouds = fresh_inputs(problem, d, round(test_samples_per_dim * d), generator)
        active = np.maximum(inputs @ rows[t].T, 0.0)
        for m, matrix in enumerate(MATRICES):
            layer[0, m, t], layer_aligned[0, m, t] = second_layer_spectrum(active, second[t], clouds, matrix)
            weights = sample_weights(problem, rows[t], second[t], inputs, clouds, matrix, (neuron, neuron))
            space = top_eigenspace(weighted_gram(inputs, weights), d, XOR_LEADING, seed)
            values[0, m, t], aligned[0, m, t] = space.values, alignment(space.vectors, rows[t, neuron])
    dims = ("seed", "matrix", "time")
    dataset = xr.Dataset(
        {
            "second_eigenvalue": ((*dims, "rank"), layer),
            "second_alignment": (dims, layer_aligned),
            "first_eigenvalue": ((*dims, "first_rank"), values),
            "first_alignment": (dims, aligned),
            "second_layer": (("seed", "time", "neuron"), second[None]),
            "overlap": (("seed", "time", "neuron", "mean"), rows[None, :, :, :2]),
        },
        coords={"time": times, "seed": [seed], "matrix": list(MATRICES), "mean": ["mu", "nu"]},
        attrs={"d": d},
    )
    status = f"full SGD in d = {d}, blocks on fresh test sets."
    return Findings(dataset, True, status)
