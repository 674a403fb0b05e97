r"""Frozen scrambled Sobol normals: a deterministic stand-in for a large Gaussian sample.

The points are those of `scipy.stats.qmc.Sobol`, bit by bit, without importing `scipy.stats`, which takes half a second:
point $i$ is $s\oplus\bigoplus_kg_kw_k$, with $g$ the binary digits of the Gray code of $i$, $s$ a random shift and
$w_k=Lv_k$ the direction numbers of Joe & Kuo 2008 under a random lower triangular matrix of bits.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from limen.checks import power_of_two
from limen.problem.spec import InputError

MOST_DIMENSIONS = 21201  # of the direction numbers that SciPy ships
BITS = 30
_SPACING = 2.0 ** -(BITS + 1)


def sobol_normals(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    r"""Standard normals from an Owen-scrambled Sobol sequence, shape (count, dimension), float64.

    The same arguments always give the same points, so that an average over them is a smooth deterministic
    function of its parameters; for smooth integrands its error falls nearly like 1/count. `count` must be a
    power of two, without which the points lose their balance. Points on the grid of spacing $2^{-30}$ are
    moved by half a spacing, which keeps them off 0 and 1.

    Source: Owen 1998, "Scrambling Sobol' and Niederreiter-Xing points".
    """
    return sobol_columns(count, dimension, seed)(0, dimension)


def sobol_columns(count: int, dimension: int, seed: int = 0) -> Callable[[int, int], np.ndarray]:
    """The same points by columns: a function of `begin` and `end` that gives those of `sobol_normals`, shape
    (count, end - begin). Where few of many dimensions are met, only these are paid for."""
    from scipy.special import ndtri

    count = power_of_two("count", count)
    if not 1 <= dimension <= MOST_DIMENSIONS:
        raise InputError(f"dimension must be between 1 and {MOST_DIMENSIONS}, got {dimension}.")
    if count > 1 << BITS:
        raise InputError(f"count must be at most 2**{BITS}, got {count}.")
    points = scrambled_columns(count, dimension, np.random.default_rng(seed))
    return lambda begin, end: ndtri(points(begin, end) + _SPACING)


def scrambled_points(count: int, dimension: int, random: np.random.Generator) -> np.ndarray:
    """Scrambled Sobol points in [0, 1), shape (count, dimension), `count` a power of two."""
    return scrambled_columns(count, dimension, random)(0, dimension)


def scrambled_columns(count: int, dimension: int, random: np.random.Generator) -> Callable[[int, int], np.ndarray]:
    """The columns `begin` to `end` of the same points, as a function of the two."""
    if not direction_numbers().is_file():  # another version of SciPy may keep them elsewhere
        from scipy.stats import qmc

        whole = qmc.Sobol(dimension, scramble=True, bits=BITS, rng=random).random_base2(count.bit_length() - 1)
        return lambda begin, end: whole[:, begin:end]
    random = random.spawn(1)[0]
    shift = random.integers(2, size=(dimension, BITS), dtype=np.uint32) @ (1 << np.arange(BITS, dtype=np.uint32))
    lower = np.tril(random.integers(2, size=(dimension, BITS, BITS), dtype=np.uint32))
    lower[:, np.arange(BITS), np.arange(BITS)] = 1
    levels = count.bit_length() - 1
    # Digits of the direction numbers, the highest first: those of the scrambled ones are sums modulo two.
    places = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    digits = (_directions(dimension)[:, None, :levels] >> places[:, None]) & 1
    mixed = (lower.astype(np.float32) @ digits.astype(np.float32)).astype(np.uint32) & 1
    scrambled = np.ascontiguousarray(np.einsum("dpk,p->kd", mixed, np.uint32(1) << places))

    def columns(begin: int, end: int) -> np.ndarray:
        points = np.empty((count, end - begin), np.uint32)
        points[0] = shift[begin:end]
        for k in range(levels):
            # The Gray code goes through the first half backwards, with one digit more.
            np.bitwise_xor(points[(1 << k) - 1 :: -1], scrambled[k, begin:end], out=points[1 << k : 2 << k])
        return points * 2.0**-BITS

    return columns


@lru_cache(maxsize=8)
def _directions(dimension: int) -> np.ndarray:
    """Direction numbers (dimension, BITS), by the recursion of each dimension's primitive polynomial."""
    polynomials, first = (part[:dimension].astype(np.int64) for part in _tables())
    numbers = np.ones((dimension, BITS), np.int64)
    degrees = np.frexp(polynomials.astype(float))[1] - 1
    for degree in np.unique(degrees[1:]):
        rows = np.flatnonzero(degrees == degree)
        rows = rows[rows > 0]
        taken = numbers[rows]
        taken[:, :degree] = first[rows, :degree]
        for j in range(degree, BITS):
            new = taken[:, j - degree].copy()
            for k in range(degree):
                has = (polynomials[rows] >> (degree - 1 - k)) & 1
                new ^= has * (taken[:, j - k - 1] << (k + 1))
            taken[:, j] = new
        numbers[rows] = taken
    return (numbers << np.arange(BITS - 1, -1, -1)).astype(np.uint32)


@lru_cache(maxsize=1)
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Primitive polynomials (dimensions,) and first direction numbers (dimensions, 18), as SciPy ships them."""
    with np.load(direction_numbers()) as held:
        return held["poly"], held["vinit"]


def direction_numbers() -> Path:
    """The file of direction numbers that SciPy ships."""
    import scipy

    return Path(scipy.__file__).parent / "stats" / "_sobol_direction_numbers.npz"
