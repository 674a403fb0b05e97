"""All diagonal blocks of a mixture classifier along one training, its overlaps with the means, and its coordinates."""

from typing import Any, get_args

import numpy as np
import xarray as xr

from limen.precision import in_double
from limen.problem import GaussianMixture
from limen.problem.times import time_grid
from limen.simulation.effective.mixture_blocks import Matrix, alignment, fresh_inputs, sample_weights
from limen.simulation.effective.mixture_training import nearest_steps, start_of, trained_weights
from limen.simulation.generators import numpy_generator
from limen.simulation.spectra.spectrum import top_eigenspace, weighted_gram

MATRICES: tuple[Matrix, ...] = get_args(Matrix)
CURVES = ("weights", "hessian", "gradient")


@in_double
def measure_all_blocks(
    problem: GaussianMixture, times: Any, test_samples_per_dim: float, d: int, seed: int
) -> xr.Dataset:
    r"""One training in $d$ dimensions; at each of `times` the blocks (c, c) of all classes on one fresh test set.

    `eigenvalue_*` (time, rank): the $k$ leading ones of the first class's block, and `alignment_*` (time, class) of
    $x^c$ with the leading eigenvectors of its own block, `*` the hessian or the gradient matrix: for the first class
    those of `measure_block` with this seed. `overlap` (time, class, mean): $\langle x^c,\mu_a\rangle$. `coordinates`
    (curve, axis) at the last time: $x^1/\|x^1\|$ and the leading eigenvectors of its two blocks, positive on $\mu_1$;
    the means span the first axes.
    """
    grid, count, k = time_grid(times, False), round(test_samples_per_dim * d), problem.classes
    rows, second = trained_weights(
        problem, start_of(problem, d, seed, None, None), d, seed, nearest_steps(problem, grid, d)
    )
    generator = numpy_generator(seed, d, "mixture test")
    values, aligned = np.empty((2, len(grid), k)), np.empty((2, len(grid), k))
    leading = np.empty((2, d))
    for t in range(len(grid)):
        inputs, clouds = fresh_inputs(problem, d, count, generator)
        for i, matrix in enumerate(MATRICES):
            for c in range(k):
                weights = sample_weights(problem, rows[t], second[t], inputs, clouds, matrix, (c, c))
                space = top_eigenspace(weighted_gram(inputs, weights), d, k, seed)
                aligned[i, t, c] = alignment(space.vectors, rows[t][c])
                if c == 0:
                    values[i, t], leading[i] = space.values, space.vectors[:, 0]
    towards = problem.means[0]
    curves = np.stack([rows[-1][0] / np.linalg.norm(rows[-1][0]), *leading])
    curves *= np.where(curves[:, : towards.size] @ towards < 0.0, -1.0, 1.0)[:, None]
    variables: dict[str, Any] = {
        "overlap": (("time", "class", "mean"), rows[:, :, : towards.size] @ problem.means.T),
        "coordinates": (("curve", "axis"), curves),
    }
    for i, matrix in enumerate(MATRICES):
        variables[f"eigenvalue_{matrix}"] = (("time", "rank"), values[i])
        variables[f"alignment_{matrix}"] = (("time", "class"), aligned[i])
    return xr.Dataset(variables, coords={"time": grid, "curve": list(CURVES), "rank": np.arange(k)}, attrs={"d": d})
