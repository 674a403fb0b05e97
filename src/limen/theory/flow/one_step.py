r"""The one-step state: $z$ is one number on all of $[0,1]$, and everything is algebraic.

With $D(0)=C(0)=1$ and the abbreviations $h=h(q_1)$ etc. at the end $q_1$ of the step (1, or less when a continuous part
follows),

$$D=1-\kappa zh,\qquad C=1+\alpha\kappa^2\frac hD,\qquad x^{-2}=h''C+\alpha\kappa^2\frac{h'^2}{D^2},\qquad
\frac{q_1}{x(x+q_1z)}=h'C,$$

one equation for $z$. It is stable at $q=0$ when $(x+q_1z)^2h''(0)<1$, always if $h''(0)=0$.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from limen.theory.flow.long_times.ageing_state import AgeingState, NoiseCovariance, ending_state, local_slope

SCAN = 400


@dataclass(frozen=True)
class OneStep:
    """A step from overlap 0 to `end`: slope $z$ and $x$, $D$, $C$ at the end."""

    end: float
    slope: float
    x: float
    resolvent: float
    correlation: float

    def at(self, h: NoiseCovariance, alpha: float, kappa: float, q: np.ndarray) -> tuple[np.ndarray, ...]:
        r"""$x(q)$, $D(q)$, $C(q)$ and $g(q)$ on the step."""
        x = self.x + self.slope * (self.end - q)
        resolvent = self.resolvent + kappa * self.slope * (h(self.end) - h(q))
        correlation = 1.0 + alpha * kappa**2 * h(q) / resolvent
        return x, resolvent, correlation, h(q, 1) * correlation - q / (x * (self.x + self.slope * self.end))


def one_step(h: NoiseCovariance, alpha: float, kappa: float, end: float = 1.0) -> OneStep | None:
    r"""The step with the smallest $z\ge0$; None if there is none ($\kappa$ too large)."""
    value, first, second = (h(end, order) for order in (0, 1, 2))

    def parts(z: np.ndarray | float) -> tuple[np.ndarray | float, ...]:
        resolvent = 1.0 - kappa * z * value
        correlation = 1.0 + alpha * kappa**2 * value / resolvent
        x = (second * correlation + alpha * (kappa * first / resolvent) ** 2) ** -0.5
        return x, resolvent, correlation

    def excess(z: np.ndarray | float) -> np.ndarray | float:
        x, _, correlation = parts(z)
        return x * (x + end * z) * first * correlation / end - 1.0

    # The solution at kappa = 0, which it leaves upwards as kappa grows.
    start = (end * second - first) / (first * end * second**0.5)
    if kappa == 0.0:
        return OneStep(end, start, second**-0.5, 1.0, 1.0)
    largest = min((1.0 - 1e-12) / (kappa * value), 20.0 * (start + first**-0.5 / end))
    scan = np.linspace(0.0, largest, SCAN)
    signs = np.asarray(excess(scan)) >= 0.0
    if not signs.any():
        return None
    crossing = int(np.argmax(signs))
    if crossing == 0:
        slope = 0.0
    else:
        slope = float(brentq(excess, scan[crossing - 1], scan[crossing], xtol=1e-15, rtol=1e-14))  # pyright: ignore
    x, resolvent, correlation = (float(part) for part in parts(slope))
    return OneStep(end, slope, x, resolvent, correlation)


def stable_at_zero(h: NoiseCovariance, step: OneStep) -> bool:
    r"""Whether $g'(0)<0$, that is $(x+q_1z)^2h''(0)<1$: two late times can forget each other entirely at one pace."""
    return bool((step.x + step.end * step.slope) ** 2 * h(0.0, 2) < 1.0)


def stable_at_end(h: NoiseCovariance, alpha: float, kappa: float, step: OneStep) -> bool:
    r"""Whether $g''(q_1)\le0$, that is $z\ge$ `local_slope`: otherwise no exponent leaves the plateau at $q_1$."""
    local = local_slope(h, alpha, kappa, step.end, step.x, step.resolvent, step.correlation)
    return 0.0 <= local <= step.slope


def one_step_state(h: NoiseCovariance, alpha: float, kappa: float) -> AgeingState | None:
    r"""The one-step state at $(\alpha,\kappa)$, stable or not; None where it does not exist."""
    step = one_step(h, alpha, kappa)
    if step is None:
        return None
    return ending_state(h, kappa, "one step", None, step.slope, step.x, step.resolvent, step.correlation)


def one_step_threshold(h: NoiseCovariance, alpha: float) -> tuple[float, bool]:
    r"""$\gamma$ at which the one-step gap closes (noise variance 1), and whether the step is stable at $q=0$ there.

    With $u=h(1)/h'(1)$ and $w=h(1)h''(1)/h'(1)^2$,

    $$\gamma^2=\frac{\alpha\,w}{h(1)\,(1-u+w)\,[(1-u)(1-\alpha)+w]},$$

    which for $h=c\,q^p$ is $\frac{p\,\alpha}{2(p-1)(2-\alpha)c}$ (Montanari & Urbani 2025). There `stable_at_end` is
    $2(1-\alpha)\big[\frac{h''}{(1-\alpha)h'}-1\big]\ge(1-\alpha)\frac{h'''}{h''}+3\alpha\frac{h''}{h'}$ at $q=1$, for
    $c\,q^p$: $\alpha\le\frac{p-2}{2p-3}$.
    """
    value, first, second = (h(1.0, order) for order in (0, 1, 2))
    u, w = value / first, value * second / first**2
    gamma = (alpha * w / (value * (1.0 - u + w) * ((1.0 - u) * (1.0 - alpha) + w))) ** 0.5
    resolvent = 1.0 / (1.0 - u + w / (1.0 - alpha))
    x = resolvent * alpha**0.5 / (gamma * first)
    at_zero = x * second / ((1.0 - alpha) * first)
    return gamma, bool(at_zero**2 * h(0.0, 2) < 1.0)


def one_step_ratio(h: NoiseCovariance, gamma: float) -> float:
    r"""$\alpha$ at which `one_step_threshold` is `gamma`; it may exceed 1."""
    value, first, second = (h(1.0, order) for order in (0, 1, 2))
    u, w = value / first, value * second / first**2
    scaled = gamma**2 * value * (1.0 - u + w)
    return scaled * (1.0 - u + w) / (w + scaled * (1.0 - u))
