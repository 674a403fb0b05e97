r"""Teacher and student on the sphere with any loss $\ell(y,g(s))$, $y=f(s_*)+\sqrt\Delta\,\varepsilon$.

With $c=\ell'(y,g(s))\,g'(s)$, $s_*=ms+\sqrt{1-m^2}\,w$ and $m=\cos t$, the loss $\phi(m)=E\,\ell$ has the slope
$$\phi'(m)=\frac{E[c\,w]}{\sin t}$$
(integration by parts in the angle). Expanded at $m=0$,
$$\phi(m)=\sum_k\phi_km^k,\qquad\phi_k=E\big[\ell\big(f(z_1)+\sqrt\Delta\,\varepsilon,g(z_2)\big)h_k(z_1)h_k(z_2)\big],$$
$z_1,z_2$ independent and $h_k$ orthonormal: the first $k\ge1$ with $\phi_k\ne0$ is the information exponent *of the
loss*. For the square loss $\phi_k=-2u_k(f)u_k(g)$; another loss sees other functions of the label, and its exponent may
be smaller: 3 becomes 1 for $f=g=h_3$ with the pseudo-Huber loss (Ben Arous, Gheissari & Jagannath 2021).
"""

from functools import cached_property, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.angles import AngleSeries, AngleSlope, angle_series
from limen.gaussian.functions import ScalarFunction, as_function
from limen.gaussian.quadrature import gaussian_rule
from limen.gaussian.rotated import RotatedRule
from limen.problem import Activation, InputError
from limen.problem.losses import Loss
from limen.theory.effective.sphere.sphere_moments import HIGHEST_EXPONENT, REACH, SpherePopulation

# Gauss–Hermite nodes of the label noise.
NOISE_NODES = 12
# Width of the panels of the rule, and points that are evaluated at a time, so that one shape is compiled.
WIDTH, BLOCK = 1.0, 65536
LONGEST = 64
# Coefficients below this part of the size of the loss are errors of the rule.
ROUNDING = 1e-5


class LossPopulation(SpherePopulation):
    r"""Moments of the loss and of its slope by a two-dimensional rule that follows the kinks of both links.

    Tabulated in the angle $\arccos m$; exact to about $10^{-10}$ for smooth losses; kinks of
    the loss itself are not followed and leave some $10^{-5}$.
    """

    def __init__(self, link: Activation, student: Activation, noise: float, loss: Loss) -> None:
        self._link, self._student, self._loss = as_function(link), as_function(student), loss
        if self._student.jumps_at(gaussian_rule(self._student).kinks):
            raise InputError(f"student_link must be continuous for SGD to see a gradient, got {student.label!r}.")
        slope = self._student.derivative()
        assert slope is not None  # activations are JAX functions
        self._slope: ScalarFunction = slope
        nodes, weights = np.polynomial.hermite_e.hermegauss(NOISE_NODES)
        self._noise = (nodes * noise**0.5, weights / weights.sum()) if noise > 0.0 else (np.zeros(1), np.ones(1))
        self._at = lru_cache(maxsize=None)(self._moments_at)

    def loss(self, m: np.ndarray) -> np.ndarray:
        return self._series[0](m)

    def slope(self, m: np.ndarray) -> np.ndarray:
        return self._fall(m)

    def gradient_square(self, m: np.ndarray) -> np.ndarray:
        return np.maximum(self._series[1](m), 0.0)

    def signal_noise(self, m: np.ndarray) -> np.ndarray:
        return np.maximum(self._series[2](m), 0.0)

    def leading(self) -> tuple[int, float]:
        return self._first

    @cached_property
    def _first(self) -> tuple[int, float]:
        along, field, weights = self._rule.nodes(0.5 * np.pi)
        loss, _ = self._averages(along, field)
        size = float(np.sqrt(np.sum(weights * loss**2)))
        before = [np.zeros_like(along), np.zeros_like(along)]
        now = [np.ones_like(along), np.ones_like(along)]
        for k in range(1, HIGHEST_EXPONENT + 1):
            later = [
                (z * h - np.sqrt(k - 1) * g) / np.sqrt(k) for z, h, g in zip((along, field), now, before, strict=True)
            ]
            before, now = now, later
            coefficient = float(np.sum(weights * loss * now[0] * now[1]))
            if abs(coefficient) > ROUNDING * size:
                if coefficient > 0.0:
                    raise InputError(
                        f"loss must fall with the overlap at first, and its coefficient of degree {k} is "
                        f"{coefficient:.4g}: positive overlaps are repelled and there is no recovery."
                    )
                return k, -k * coefficient
        raise InputError(f"loss must depend on the overlap through a degree of 1 to {HIGHEST_EXPONENT}, and does not.")

    @cached_property
    def _rule(self) -> RotatedRule:
        rules = [gaussian_rule(function) for function in (self._link, self._student)]
        reach = float(np.ceil(np.clip(2.0**0.5 * max(rule.extent for rule in rules), REACH, 38.0)))
        kinks = [np.array(rule.kinks) for rule in rules]
        return RotatedRule(self._link, self._student, kinks[0], kinks[1], reach, 1.0, WIDTH, 0.0)

    @cached_property
    def _series(self) -> tuple[AngleSeries, AngleSeries, AngleSeries]:
        scale = self._at(0.5 * np.pi)
        loss, square, noise = (
            angle_series(lambda angle, i=i: self._at(angle)[i], max(abs(scale[i]), 1e-300), LONGEST) for i in range(3)
        )
        return loss, square, noise

    @cached_property
    def _fall(self) -> AngleSlope:
        size = max(self._at(0.5 * np.pi)[1] ** 0.5, 1e-300)
        turned = angle_series(lambda angle: -self._at(angle)[3], size, LONGEST)
        return AngleSlope(turned.coefficients, turned.error)

    def _moments_at(self, angle: float) -> tuple[float, float, float, float]:
        r"""$E\ell$, $Ec^2$, $E[c^2(s_*-ms)^2]$ and $E[cw]$ at one angle."""
        along, field, weights = self._rule.nodes(angle)
        across = along - np.cos(angle) * field
        loss, pulls = self._averages(along, field)
        sine = np.sin(angle)
        # At angles 0 and pi the slope does not see w, whose mean is 0.
        turn = float(np.sum(weights * pulls[0] * across)) / sine if sine > 1e-12 else 0.0
        square = weights * pulls[1]
        return float(np.sum(weights * loss)), float(square.sum()), float((square * across**2).sum()), turn

    def _averages(self, along: np.ndarray, field: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Over the label noise: the loss, its slope in the field and the square of that slope, at given points."""
        mean, output, chain = self._link.values(along), self._student.values(field), self._slope.values(field)
        flat = np.zeros((3, along.size))
        for begin in range(0, along.size, BLOCK):
            part = slice(begin, begin + BLOCK)
            labels, outputs = mean.ravel()[part], output.ravel()[part]
            room = (0, BLOCK - labels.size)
            found = self._evaluate(np.pad(labels, room), np.pad(outputs, room))
            flat[:, part] = found[:, : labels.size]
        loss, slope, square = (row.reshape(along.shape) for row in flat)
        return loss, (slope * chain, square * chain**2)

    def _evaluate(self, labels: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(_noisy_moments(self._loss.function, self._loss.slope, labels, outputs, *self._noise))


@partial(jax.jit, static_argnums=(0, 1))
def _noisy_moments(loss: Any, slope: Any, labels: Any, outputs: Any, shifts: Any, weights: Any) -> Any:
    r"""Means over $y=$ label $+$ shift of $\ell$, $\ell'$ and $\ell'^2$, shape (3, points)."""

    def add(total: Any, pair: Any) -> Any:
        shift, weight = pair
        pull = slope(labels + shift, outputs)
        return total + weight * jnp.stack([loss(labels + shift, outputs), pull, pull**2]), None

    return jax.lax.scan(add, jnp.zeros((3, labels.size)), (shifts, weights))[0]
