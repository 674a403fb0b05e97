r"""$E[\sigma(G_1)\phi(G_2)]$ for two standard normals of correlation $\cos t$, kinks included."""

from dataclasses import dataclass, replace

import numpy as np

from limen.gaussian.functions import ScalarFunction
from limen.gaussian.panels import normal_density
from limen.gaussian.quadrature import gaussian_rule

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
FINEST = 2  # panels of width 2**-2
ACCURACY = 1e-13
TEST_ANGLES = (0.03, 0.9, 2.5)


@dataclass(frozen=True, eq=False)
class RotatedRule:
    r"""The two-dimensional rule for one pair of functions.

    With $\rho=\cos t$, $0\le t\le\pi/2$, and independent standard normals $a,b$, put
    $G_{1,2}=\cos\frac t2\,a\pm\sin\frac t2\,b$. A kink $z_k$ of $\sigma$ lies at $a=(z_k-\sin\frac t2b)/\cos\frac t2$,
    one of $\phi$ at $a=(z_k+\sin\frac t2b)/\cos\frac t2$: Gauss-Legendre panels in $a$ are split there, and panels
    in $b$ where two kinks cross, so that every piece is smooth and the rule converges geometrically, uniformly
    in $t$. Angles beyond $\pi/2$ use $E[\sigma(G_1)\phi(G_2)]_{\pi-t}=E[\sigma(G_1)\phi(-G_2)]_t$.
    `width` is the largest panel, `error` the relative change at the last halving of it.
    """

    first: ScalarFunction
    second: ScalarFunction
    first_kinks: np.ndarray
    second_kinks: np.ndarray
    reach: float
    scale: float
    width: float
    error: float

    def __call__(self, angle: float) -> float:
        """The expectation at correlation cos(angle), 0 <= angle <= pi."""
        first, second, weights = self.nodes(angle)
        return float(np.sum(self.first.values(first) * self.second.values(second) * weights))

    def nodes(self, angle: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""Points $G_1$, $G_2$ of correlation cos(angle) and their weights, three arrays of one shape.

        They serve any function of both that is smooth away from the kinks.
        """
        reflected = angle > 0.5 * np.pi
        if reflected:
            angle = np.pi - angle
        cosine, sine = np.cos(0.5 * angle), np.sin(0.5 * angle)
        sign = -1.0 if reflected else 1.0
        kinks = np.sort(sign * self.second_kinks)
        base = np.arange(-self.reach, self.reach + 0.5 * self.width, self.width)
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = ((self.first_kinks[:, None] - kinks[None, :]) / (2 * sine)).ravel()
        crossings = crossings[np.abs(crossings) < self.reach]
        b, b_weights = _panels(np.unique(np.concatenate([base, crossings])))
        moved = [(point - sine * b) / cosine for point in self.first_kinks]
        moved += [(point + sine * b) / cosine for point in kinks]
        edges = np.broadcast_to(base, (len(b), len(base)))
        if moved:
            edges = np.sort(np.concatenate([edges, np.clip(np.stack(moved, -1), base[0], base[-1])], axis=1), axis=1)
        a, a_weights = _panels(edges)
        shift = (sine * b)[:, None]
        return cosine * a + shift, sign * (cosine * a - shift), b_weights[:, None] * a_weights


def rotated_rule(first: ScalarFunction, second: ScalarFunction) -> RotatedRule:
    """The rule adapted to a pair: kinks and extent from their one-dimensional rules, panels halved until three
    test angles change by at most 1e-13 of the product of the norms, from width 1 down to 1/4."""
    rules = [gaussian_rule(first), gaussian_rule(second)]
    first_kinks, second_kinks = (np.array(rule.kinks) for rule in rules)
    reach = float(np.ceil(np.clip(max(rule.extent for rule in rules), 8.0, 38.0)))
    norms = [np.sqrt(rule.weights @ rule.values**2) for rule in rules]
    scale = float(norms[0] * norms[1]) or 1.0
    rule = RotatedRule(first, second, first_kinks, second_kinks, reach, scale, 1.0, np.inf)
    values = np.array([rule(angle) for angle in TEST_ANGLES])
    for level in range(1, FINEST + 1):
        finer = replace(rule, width=2.0**-level)
        previous, values = values, np.array([finer(angle) for angle in TEST_ANGLES])
        error = float(np.max(np.abs(values - previous))) / scale
        if error <= ACCURACY:
            return replace(rule, error=error)
        rule = replace(finer, error=error)
    return rule


def _panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and Gaussian weights of the panels between successive edges (last axis)."""
    half = 0.5 * np.diff(edges)[..., None]
    centre = 0.5 * (edges[..., 1:] + edges[..., :-1])[..., None]
    nodes = (centre + half * _NODES).reshape(*edges.shape[:-1], -1)
    weights = (half * _WEIGHTS).reshape(*edges.shape[:-1], -1)
    return nodes, weights * normal_density(nodes)
