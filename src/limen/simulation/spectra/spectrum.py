r"""Empirical spectra of symmetric operators given only by their product with a vector."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator, eigsh

from limen.problem import InputError
from limen.simulation.spectra.random_matrices import stream_generator

Operator = Callable[[np.ndarray], Any]


class Eigenspace(NamedTuple):
    """Eigenvalues `(count,)`, the most extreme first, and unit eigenvectors as columns `(dimension, count)`."""

    values: np.ndarray
    vectors: np.ndarray


class Estimate(NamedTuple):
    """Mean over probes and its standard error, NaN where there is one probe only."""

    mean: np.ndarray
    error: np.ndarray


def weighted_gram(samples: np.ndarray, weights: np.ndarray) -> Operator:
    r"""$v\mapsto\frac1nX^\top\big(g\odot(Xv)\big)$ without forming the matrix: $O(nd)$ per product.

    `samples` $X$ `(n, d)`, `weights` $g$ `(n,)`; the sample covariance is `weights` of ones.
    """
    samples, weights = np.asarray(samples), np.asarray(weights)
    if samples.ndim != 2 or weights.shape != samples.shape[:1]:
        raise InputError(f"weights must be one per sample ({samples.shape[:1]}), got shape {weights.shape}.")
    # A vector on the left of a row-major matrix reads it in order.
    return lambda vector: (weights * (samples @ vector)) @ samples / len(weights)


def top_eigenspace(operator: Operator, dimension: int, count: int, seed: int = 0) -> Eigenspace:
    """The `count` largest eigenvalues, descending, and their eigenvectors, by implicitly restarted Lanczos."""
    return _extreme(operator, dimension, count, seed, "LA")


def bottom_eigenspace(operator: Operator, dimension: int, count: int, seed: int = 0) -> Eigenspace:
    """The `count` smallest eigenvalues, ascending, and their eigenvectors, by implicitly restarted Lanczos."""
    return _extreme(operator, dimension, count, seed, "SA")


@dataclass(frozen=True, eq=False)
class LanczosSpectrum:
    r"""Gauss rules of the spectrum seen from random unit vectors: $\frac1d\mathrm{tr}f(A)\approx\sum_jw_jf(x_j)$.

    `nodes` and `weights` have shape `(probes, steps)`. Each rule is exact for polynomials of degree below 2·steps in
    the measure of its probe; the mean over probes is unbiased for the trace, and their spread gives the error.
    """

    nodes: np.ndarray
    weights: np.ndarray

    def expectation(self, function: Callable[[np.ndarray], np.ndarray]) -> Estimate:
        r"""$\frac1d\mathrm{tr}f(A)$; `function` takes nodes `(probes, steps)` and may add trailing axes."""
        values = np.asarray(function(self.nodes))
        weights = self.weights.reshape(self.weights.shape + (1,) * (values.ndim - 2))
        per_probe = (weights * values).sum(axis=1)
        mean, count = per_probe.mean(axis=0), len(per_probe)
        error = per_probe.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full_like(mean, np.nan)
        return Estimate(mean, error)

    def moments(self, count: int) -> Estimate:
        r"""$\frac1d\mathrm{tr}A^k$ for $k=1..$`count`."""
        return self.expectation(lambda nodes: nodes[..., None] ** np.arange(1, count + 1))

    def quantile(self, level: ArrayLike) -> np.ndarray:
        """The eigenvalue below which a part `level` of all lies: the mean over probes of their interpolated rules."""
        wanted, found = np.asarray(level, dtype=float), []
        for nodes, weights in zip(self.nodes, self.weights, strict=True):
            seen = weights > 0.0
            # Half of a node's weight lies on either side of it.
            found.append(np.interp(wanted, np.cumsum(weights[seen]) - 0.5 * weights[seen], nodes[seen]))
        return np.mean(found, axis=0)

    def density(self, x: ArrayLike, width: float) -> Estimate:
        """Spectral density at the points `x` `(points,)`, smoothed with a Gaussian of standard deviation `width`.

        `width` should exceed the spacing of nodes, about the length of the support divided by steps.
        """
        if not width > 0.0:
            raise InputError(f"width must be positive, got {width}.")
        x = np.asarray(x, dtype=float)
        norm = width * np.sqrt(2.0 * np.pi)
        return self.expectation(lambda nodes: np.exp(-0.5 * ((x - nodes[..., None]) / width) ** 2) / norm)


def lanczos(operator: Operator, dimension: int, steps: int, probes: int, seed: int = 0) -> LanczosSpectrum:
    """Stochastic Lanczos quadrature with full reorthogonalisation (Golub & Meurant 2010; Ubaru, Chen & Saad 2017).

    `operator` takes and returns vectors `(dimension,)`, NumPy or JAX. Cost: `probes` times `steps` products, plus
    $O(d\\cdot steps^2)$ each for orthogonality; memory $O(d\\cdot steps)$. An error needs two probes.
    """
    if not 1 <= steps <= dimension:
        raise InputError(f"steps must lie between 1 and dimension ({dimension}), got {steps}.")
    if probes < 1:
        raise InputError(f"probes must be at least 1, got {probes}.")
    generator = stream_generator(seed, dimension, "lanczos")
    nodes, weights = np.zeros((probes, steps)), np.zeros((probes, steps))
    for probe in range(probes):
        values, parts = spectrum_from(operator, generator.standard_normal(dimension), steps)
        nodes[probe, : len(values)] = values
        weights[probe, : len(values)] = parts
    return LanczosSpectrum(nodes, weights)


def spectrum_from(operator: Operator, vector: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss rule of the spectrum as one vector sees it: its squares along eigenvectors."""
    values, vectors = eigh_tridiagonal(*_tridiagonal(operator, vector, steps))
    return values, vectors[0] ** 2


def _tridiagonal(operator: Operator, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    basis = np.empty((steps, start.size))
    diagonal, off_diagonal = np.empty(steps), np.empty(steps)
    vector = start / np.linalg.norm(start)
    largest = 0.0
    for step in range(steps):
        basis[step] = vector
        product = np.asarray(operator(vector), dtype=float)
        diagonal[step] = vector @ product
        largest = max(largest, float(np.linalg.norm(product)))
        known = basis[: step + 1]
        # In exact arithmetic the two newest vectors are all there is to take away; rounding leaves a little of the
        # others, and where most of the product was taken away a second time is enough for orthogonality.
        product = product - (known[-2:] @ product) @ known[-2:]
        before, left = np.inf, float(np.linalg.norm(product))
        while left < 0.7 * before and left > 1e-12 * largest:
            product = product - (known @ product) @ known
            before, left = left, float(np.linalg.norm(product))
        off_diagonal[step] = left
        if off_diagonal[step] <= 1e-12 * largest:
            return diagonal[: step + 1], off_diagonal[:step]
        vector = product / off_diagonal[step]
    return diagonal, off_diagonal[:-1]


def _extreme(operator: Operator, dimension: int, count: int, seed: int, which: str) -> Eigenspace:
    if not 1 <= count < dimension:
        raise InputError(f"count must lie between 1 and dimension - 1 ({dimension - 1}), got {count}.")
    linear = LinearOperator(
        shape=(dimension, dimension),
        matvec=lambda v: np.asarray(operator(np.ravel(v)), dtype=float),  # pyright: ignore[reportCallIssue]
        dtype=np.float64,
    )
    start = stream_generator(seed, dimension, "eigenspace").standard_normal(dimension)
    # Near-degenerate outliers need a search space well beyond their number.
    space = min(dimension, max(2 * count + 10, 20))
    values, vectors = eigsh(linear, k=count, which=which, ncv=space, v0=start)
    order = np.argsort(values) if which == "SA" else np.argsort(values)[::-1]
    return Eigenspace(values[order], vectors[:, order])
