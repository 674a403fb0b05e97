"""Gradient flow of a first layer, on the sphere or free, and of a second one, for any risk with a gradient."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from limen.problem.decays import Regularization

RiskAndGradient = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]

MOST_STAGES = 200
MOST_STEPS = 500_000
FIRST_POWER_STEPS = 20
# Power iterations stay below the largest rate, and stability ends sharply at the limit of the number of stages.
RATE_MARGIN = 1.2
DAMPING = 2.0 / 13.0
# Long enough to average over the samples at a kink of the activation, short enough for the curvature of the sphere.
DIFFERENCE = 0.03


@dataclass(frozen=True)
class FlowRule:
    r"""Numbers of the flow: its speed $n/d$, that of the second layer (0 when it is fixed), the radius of the sphere
    (a number, or one per neuron, (m, 1)) and the error allowed per step; whether neurons stay on the sphere, and what
    is added to the gradients."""

    speed: float
    second_speed: float
    radius: float | np.ndarray
    tolerance: float
    spherical: bool = True
    regularization: Regularization | None = None


@dataclass(frozen=True)
class FlowPath:
    """At each time: risk (time,), first layers (time, m, d), second layers (time, m); and the counts of steps and of
    gradients, and whether the last time was reached."""

    risk: np.ndarray
    first: np.ndarray
    second: np.ndarray
    steps: int
    gradients: int
    finished: bool


class SphereFlow:
    r"""The flow

    $$\dot w_j=-\tfrac nd\Big(I-\frac{w_jw_j^\top}{|w_j|^2}\Big)\Big[\nabla_{w_j}\hat R+\sum_l\Lambda_{t,jl}w_l\Big],
    \qquad\dot a_j=-\tfrac nd\big[\partial_{a_j}\hat R+\lambda_ta_j\big]$$

    of a risk given by `gradient`: first layer (m, d), second layer (m,) to risk and its two gradients. Without
    `spherical` the projection is left out.

    Weights and velocities are vectors of $md+m$ numbers, and of the time behind them where something depends on it. On
    the sphere only directions of neurons enter the velocity, so that it is defined around the sphere, exactly tangent,
    and has real rates (those of the Hessian on the sphere, and zeros).
    """

    def __init__(self, gradient: RiskAndGradient, shape: tuple[int, int], rule: FlowRule) -> None:
        self.rule = rule
        self.shape = shape
        self.gradients = 0
        self._gradient = gradient
        regularization = rule.regularization
        self.clocked = regularization is not None and regularization.changes

    def gradient(self, first: np.ndarray, second: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Risk and its gradients, counted."""
        self.gradients += 1
        return self._gradient(first, second)

    def velocity(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Risk and velocity at `weights`."""
        first, second = self.layers(weights)
        unit = first / np.linalg.norm(first, axis=1, keepdims=True) if self.rule.spherical else first
        placed = self.rule.radius * unit if self.rule.spherical else first
        risk, slope, second_slope = self.gradient(placed, second)
        if self.rule.regularization is not None:
            time = float(weights[-1]) if self.clocked else 0.0
            slope = slope + self.rule.regularization.matrix(time) @ placed
            second_slope = second_slope + self.rule.regularization.second_layer(time) * second
        if self.rule.spherical:
            slope = slope - unit * np.einsum("md,md->m", unit, slope)[:, None]
        parts = [-self.rule.speed * slope.ravel(), -self.rule.second_speed * second_slope]
        return risk, np.concatenate([*parts, [1.0]] if self.clocked else parts)

    def weights(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The layers at time 0 as one vector."""
        return np.concatenate([first.ravel(), second, [0.0]] if self.clocked else [first.ravel(), second])

    def layers(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First layer (m, d) and second layer (m,) of a vector of weights."""
        width, d = self.shape
        return weights[: width * d].reshape(width, d), weights[width * d : width * (d + 1)]

    def on_sphere(self, weights: np.ndarray) -> np.ndarray:
        """The weights with every neuron put back to its length, where the flow keeps it."""
        if not self.rule.spherical:
            return weights
        first, _ = self.layers(weights)
        scaled = first * (self.rule.radius / np.linalg.norm(first, axis=1, keepdims=True))
        return np.concatenate([scaled.ravel(), weights[first.size :]])

    def rate_along(self, weights: np.ndarray, velocity: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, float]:
        """The image of a unit vector under the derivative of the velocity, as a unit vector and its length."""
        image = (self.velocity(weights + DIFFERENCE * direction)[1] - velocity) / DIFFERENCE
        size = float(np.linalg.norm(image))
        return (image / size, size) if 0.0 < size < np.inf else (direction, 0.0)

    def fastest(self, weights: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, float]:
        """A vector near the mode of the largest rate, and that rate with a margin."""
        # Any vector will do that is no eigenvector: the same one for all flows of this shape.
        direction, rate = np.random.default_rng(0).standard_normal(weights.size), 0.0
        direction /= np.linalg.norm(direction)
        for _ in range(FIRST_POWER_STEPS):
            direction, rate = self.rate_along(weights, velocity, direction)
        return direction, max(RATE_MARGIN * rate, 1e-12)

    def start_rate(self, first: np.ndarray, second: np.ndarray) -> float:
        """The largest rate at given layers, with its margin: what the cost of a flow grows with."""
        weights = self.weights(first, second)
        return self.fastest(weights, self.velocity(weights)[1])[1]

    def local_error(self, error: np.ndarray, weights: np.ndarray) -> float:
        """Largest error of a neuron or of the second layer, in units of what is allowed."""
        first, second = self.layers(error)
        neurons = np.max(np.linalg.norm(first, axis=1, keepdims=True) / self.rule.radius)
        return float(max(neurons, (np.abs(second) / (1.0 + np.abs(self.layers(weights)[1]))).max())) / (
            self.rule.tolerance
        )


def flow_path(flow: SphereFlow, first: np.ndarray, second: np.ndarray, times: np.ndarray) -> FlowPath:
    r"""The weights at increasing `times`, from `first` (m, d) and `second` (m,) at time 0.

    Runge-Kutta-Chebyshev steps of second order (Sommeijer, Shampine & Verwer 1998) of adapted length $h$: $s$ stages
    are stable for rates up to $0.65s^2/h$, so that at long times $T$ units of time cost of the order of $\sqrt T$
    gradients where an ordinary explicit method takes $T$ of them. The rates of a gradient flow are real, as the method
    wants; the largest is followed by one power iteration per step. The local error of every $w_j/|w_j|$ and of
    $a_j/(1+|a_j|)$ stays below the tolerance; after each step neurons are put back to their length.
    """
    width, d = flow.shape
    weights, now, steps = flow.weights(first, second), 0.0, 0
    risk, velocity = flow.velocity(weights)
    fastest, rate = flow.fastest(weights, velocity)
    proposed = 0.1 / rate
    risks, firsts, seconds = np.empty(times.size), np.empty((times.size, width, d)), np.empty((times.size, width))
    for i, until in enumerate(times):
        # A step too short to move the clock means that no velocity is finite.
        while now < until and steps < MOST_STEPS and now + proposed > now:
            proposed = min(proposed, 0.64 * MOST_STAGES**2 / rate)
            length = min(proposed, until - now)
            stages = max(2, 1 + int(np.sqrt(1.0 + 1.54 * length * rate)))
            moved = flow.on_sphere(chebyshev_step(flow, weights, velocity, length, stages))
            moved_risk, moved_velocity = flow.velocity(moved)
            error = flow.local_error(0.8 * (weights - moved) + 0.4 * length * (velocity + moved_velocity), moved)
            # What is not a number is refused like a large error.
            factor = min(max(0.8 / max(error, 1e-9) ** (1 / 3), 0.1), 5.0) if np.isfinite(error) else 0.1
            # Samples held at a kink of the activation make the error large whatever the length of a step; a smooth flow
            # is never kept to steps this short.
            shortest = 0.5 * flow.rule.tolerance ** (1 / 3) / rate
            if error <= 1.0 or (length <= shortest and np.isfinite(error)):
                now = until if length == until - now else now + length
                weights, risk, velocity = moved, moved_risk, moved_velocity
                # A step cut short by a recorded time says nothing against the length proposed for it.
                proposed = max(proposed, factor * length) if length < proposed else factor * length
            else:
                proposed = factor * length
            if np.isfinite(error):
                proposed = max(proposed, 0.9 * shortest)
            fastest, found = flow.rate_along(weights, velocity, fastest)
            rate = max(RATE_MARGIN * found, 0.95 * rate)
            steps += 1
        risks[i] = risk
        firsts[i], seconds[i] = flow.layers(weights)
    return FlowPath(risks, firsts, seconds, steps, flow.gradients, bool(now >= times[-1]))


def descent_path(flow: SphereFlow, first: np.ndarray, second: np.ndarray, times: np.ndarray, step: float) -> FlowPath:
    r"""The weights after whole numbers `times` of steps of projected gradient descent: $w_j-\eta\nabla_{w_j}\hat R$ put
    back to its length, $a_j-\eta\,\partial_{a_j}\hat R$."""
    width, d = flow.shape
    counts, done = np.rint(times).astype(int), 0
    second_step = step if flow.rule.second_speed > 0.0 else 0.0
    risks, firsts, seconds = np.empty(times.size), np.empty((times.size, width, d)), np.empty((times.size, width))
    risk, slope, second_slope = flow.gradient(first, second)
    for i, count in enumerate(counts):
        for _ in range(count - done):
            moved = first - step * slope
            first = moved * (flow.rule.radius / np.linalg.norm(moved, axis=1, keepdims=True))
            second = second - second_step * second_slope
            risk, slope, second_slope = flow.gradient(first, second)
        done = int(count)
        risks[i], firsts[i], seconds[i] = risk, first, second
    return FlowPath(risks, firsts, seconds, done, flow.gradients, bool(np.isfinite(firsts).all()))


def chebyshev_step(
    flow: SphereFlow, weights: np.ndarray, velocity: np.ndarray, length: float, stages: int
) -> np.ndarray:
    """One step with `stages` stages; `velocity` is that of `weights`."""
    first_weight, coefficients = _coefficients(stages)
    before, current = weights, weights + length * first_weight * velocity
    for rest, mu, nu, along, back in coefficients:
        slope = flow.velocity(current)[1]
        before, current = current, (
            rest * weights + mu * current + nu * before + (length * along) * slope - (length * along * back) * velocity
        )  # fmt: skip
    return current


def _coefficients(stages: int) -> tuple[float, Iterator[tuple[float, float, float, float, float]]]:
    r"""The weight of the first stage, and of each later one those of the start, the last and the last but one stage,
    the last slope, and the first slope in units of it: from $T_j(w_0)$ and two derivatives, $w_0=1+\epsilon/s^2$."""
    w0 = 1.0 + DAMPING / stages**2
    root = np.sqrt(w0**2 - 1.0)
    angle = stages * np.log(w0 + root)
    w1 = np.sinh(angle) * root**2 / (np.cosh(angle) * stages * root - w0 * np.sinh(angle))
    b1 = 1.0 / (2.0 * w0) ** 2

    def later() -> Iterator[tuple[float, float, float, float, float]]:
        t, t_before, slope, slope_before, bend, bend_before = w0, 1.0, 1.0, 0.0, 0.0, 0.0
        b, b_before = b1, b1
        for _ in range(2, stages + 1):
            t_next = 2.0 * w0 * t - t_before
            slope_next = 2.0 * w0 * slope - slope_before + 2.0 * t
            bend_next = 2.0 * w0 * bend - bend_before + 4.0 * slope
            b_next = bend_next / slope_next**2
            mu, nu = 2.0 * w0 * b_next / b, -b_next / b_before
            yield 1.0 - mu - nu, mu, nu, mu * w1 / w0, 1.0 - t * b
            t, t_before, slope, slope_before, bend, bend_before = t_next, t, slope_next, slope, bend_next, bend
            b, b_before = b_next, b

    return w1 * b1, later()
