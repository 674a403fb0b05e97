"""The random features of a power-law problem, shared by simulation and by the theory that is exact given them."""

import numpy as np

from limen.gaussian.keys import numpy_generators
from limen.problem.families.power_law_features import PowerLawFeatures
from limen.problem.spec import InputError

MOST_ENTRIES = 4e7


def drawn_features(problem: PowerLawFeatures, seed: int) -> tuple[np.ndarray, np.ndarray]:
    r"""$D^{1/2}W$ (v, d) and $D^{1/2}b$ (v,), $D=\mathrm{diag}(j^{-2\alpha})$, $b_j=j^{-\beta}$."""
    v, d = problem.ambient, problem.features
    if float(v) * d > MOST_ENTRIES:
        raise InputError(f"ambient times features must be at most {MOST_ENTRIES:.0e}, got {float(v) * d:.1e}.")
    index = np.arange(1.0, v + 1.0)
    (generator,) = numpy_generators((seed,), d, "power-law features")
    scales = index**-problem.alpha
    return scales[:, None] * generator.standard_normal((v, d)) / np.sqrt(d), scales * index**-problem.beta
