"""Laws of the independent entries of random matrices, all of mean 0 and variance 1."""

from collections.abc import Callable

import numpy as np

from limen.problem import InputError

Shape = tuple[int, ...]
# Chance that an entry of a sparse matrix is not 0.
FILLED = 0.2
# Degrees of freedom of the heavy-tailed law: variance, but no fourth moment.
HEAVY = 3.0


def _sparse(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    signs = generator.choice([-1.0, 1.0], shape)
    return np.where(generator.random(shape) < FILLED, signs / np.sqrt(FILLED), 0.0)


ENTRY_LAWS: dict[str, Callable[[np.random.Generator, Shape], np.ndarray]] = {
    "gaussian": lambda generator, shape: generator.standard_normal(shape),
    "rademacher": lambda generator, shape: generator.choice([-1.0, 1.0], shape),
    "uniform": lambda generator, shape: generator.uniform(-np.sqrt(3.0), np.sqrt(3.0), shape),
    "laplace": lambda generator, shape: generator.laplace(0.0, np.sqrt(0.5), shape),
    "sparse": _sparse,
    "heavy": lambda generator, shape: generator.standard_t(HEAVY, shape) * np.sqrt(1.0 - 2.0 / HEAVY),
}


def draw_entries(law: str, generator: np.random.Generator, shape: Shape) -> np.ndarray:
    r"""Independent entries of mean 0 and variance 1.

    `gaussian`; `rademacher` ($\pm1$); `uniform`; `laplace` (two-sided exponential); `sparse` ($\pm1/\sqrt{0.2}$ with
    probability 0.2, else 0); `heavy` (Student's t with 3 degrees of freedom: no fourth moment).
    """
    if law not in ENTRY_LAWS:
        raise InputError(f"law must be one of {', '.join(ENTRY_LAWS)}, got {law!r}.")
    return ENTRY_LAWS[law](generator, shape)
