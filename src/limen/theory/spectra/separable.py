r"""Population covariance and sample weights at once: $\frac1n\sum_ig_i\,\Sigma^{1/2}\xi_i\xi_i^\top\Sigma^{1/2}$."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from limen.checks import positive
from limen.problem.spec import InputError
from limen.theory.spectra.discrete_law import Numbers, discrete_law
from limen.theory.spectra.separable_outliers import separable_edges

DAMPING = 0.5
ITERATIONS = 20_000
CLOSE = 1e-5
POLISHING_STEPS = 12
TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class SeparableLaw:
    r"""Spectrum of $\frac1n\sum_ig_ix_ix_i^\top$, $x_i=\Sigma^{1/2}\xi_i$, $\xi_i\sim N(0,I_d)$, $\gamma=d/n$ fixed.

    `values`, `value_weights`: law $H$ of the eigenvalues of $\Sigma$ (not negative). `weights`, `probabilities`: law
    of $g$, any sign. For $\mathrm{Im}\,z>0$,
    $$e=E_H\frac{s}{as-z},\qquad a=E\frac{g}{1+\gamma ge},\qquad S=E_H\frac1{as-z}$$
    (separable covariance: Paul & Silverstein 2009). The map $e\mapsto e$ takes the upper half plane into itself, also
    for signed $g$, so its fixed point is unique and damped iteration converges; Newton finishes. Iterations grow as
    $1/\mathrm{Im}\,z$ near the bulk: use it off the axis. With one constant side it reduces to `WeightedLaw` or
    `CovarianceLaw`, which are exact on the axis.
    """

    values: np.ndarray
    value_weights: np.ndarray
    weights: np.ndarray
    probabilities: np.ndarray
    ratio: float

    def __init__(
        self, values: Numbers, value_weights: Numbers, weights: Numbers, probabilities: Numbers, ratio: float
    ) -> None:
        population, proportions = discrete_law(values, value_weights, "values", "value_weights")
        if population[0] < 0.0:
            raise InputError(
                f"values must not be negative (they are eigenvalues of a covariance), got {population[0]}."
            )
        sample_weights, masses = discrete_law(weights, probabilities, "weights", "probabilities")
        object.__setattr__(self, "values", population)
        object.__setattr__(self, "value_weights", proportions)
        object.__setattr__(self, "weights", sample_weights)
        object.__setattr__(self, "probabilities", masses)
        object.__setattr__(self, "ratio", positive("ratio", ratio))

    @property
    def moments(self) -> tuple[float, float]:
        r"""$E g\,E s$ and $(E g)^2E s^2+\gamma E g^2(E s)^2$."""
        weight, square = (float(self.probabilities @ self.weights**power) for power in (1, 2))
        value, value_square = (float(self.value_weights @ self.values**power) for power in (1, 2))
        return weight * value, weight**2 * value_square + self.ratio * square * value**2

    def stieltjes(self, z: ArrayLike) -> np.ndarray:
        """$S(z)$ for complex `z` off the real axis, any shape."""
        z = np.asarray(z, dtype=complex)
        if (np.imag(z) == 0.0).any():
            raise InputError("z must lie off the real axis, got a real value.")
        upper = np.real(z) + 1j * np.abs(np.imag(z))
        inner = self._inner(self._fixed_point(upper.ravel()))
        values = (1.0 / (inner[:, None] * self.values - upper.reshape(-1, 1))) @ self.value_weights
        values = values.reshape(z.shape)
        return np.where(np.imag(z) > 0.0, values, values.conj())

    def inner_transforms(self, z: complex) -> tuple[complex, complex]:
        r"""$e(z)$ and $a(z)$ at one `z` above the real axis."""
        e = self._fixed_point(np.array([complex(z)]))
        return complex(e[0]), complex(self._inner(e)[0])

    def edges(self) -> tuple[float, float]:
        r"""Left and right end of the bulk, zeros included; see `separable_edges`."""
        return separable_edges(self.weights, self.values, self.value_weights, self.ratio, self.probabilities)

    def density(self, x: ArrayLike, smoothing: float) -> np.ndarray:
        r"""Density at `x` smoothed by a Cauchy kernel of half-width `smoothing`: $\frac1\pi\mathrm{Im}\,S(x+i\eta)$."""
        height = positive("smoothing", smoothing)
        return np.imag(self.stieltjes(np.asarray(x, dtype=float) + 1j * height)) / np.pi

    def _fixed_point(self, z: np.ndarray) -> np.ndarray:
        e = -float(self.value_weights @ self.values) / z
        active = np.arange(z.size)
        for _ in range(ITERATIONS):
            new = self._outer(self._inner(e[active]), z[active])
            change = np.abs(new - e[active]) / np.abs(new)
            e[active] = DAMPING * e[active] + (1.0 - DAMPING) * new
            active = active[change > CLOSE]
            if active.size == 0:
                break
        for _ in range(POLISHING_STEPS):
            value, slope = self._map_and_slope(e, z)
            e = e - (e - value) / (1.0 - slope)
        residual = np.abs(e - self._outer(self._inner(e), z)) / np.abs(e)
        if not ((residual <= TOLERANCE) & (np.imag(e) > 0.0)).all():
            raise ArithmeticError(
                f"the fixed point was not found (relative residual {residual.max():.1e}); take z further from the axis."
            )
        return e

    def _inner(self, e: np.ndarray) -> np.ndarray:
        return (self.weights / (1.0 + self.ratio * self.weights * e[:, None])) @ self.probabilities

    def _outer(self, a: np.ndarray, z: np.ndarray) -> np.ndarray:
        return (self.values / (a[:, None] * self.values - z[:, None])) @ self.value_weights

    def _map_and_slope(self, e: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ratios = self.weights / (1.0 + self.ratio * self.weights * e[:, None])
        a, a_slope = ratios @ self.probabilities, -self.ratio * (ratios**2) @ self.probabilities
        parts = self.values / (a[:, None] * self.values - z[:, None])
        return parts @ self.value_weights, -((parts**2) @ self.value_weights) * a_slope
