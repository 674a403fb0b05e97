r"""Averages of products of smooth functions of two correlated fields, by Hermite series.

With $g_i(s_i\xi+b_i)=\sum_nc_n(i)\,he_n(\xi)$ and correlation $\rho_{ij}$ of the two normals,
$$E[g_ig_j]=\sum_{n\le N}c_n(i)c_n(j)\rho_{ij}^n+R,\qquad|R|\le|\rho_{ij}|^{N+1}r_i^{1/2}r_j^{1/2},\qquad
r_i=E g_i^2-\sum_{n\le N}c_n(i)^2 .$$
A function analytic in a wide strip has $r$ below rounding at $N=100$: two sums instead of a double integral. What
grows beyond all numbers gives errors that are not finite.
"""

import numpy as np

from limen.gaussian.functions import ScalarFunction
from limen.theory.fresh_inputs.field_pairs import PairMean
from limen.theory.fresh_inputs.hermite_rule import PANELS, REACH, halves_rule, hermite_rule

# Numbers held at once.
MOST_ENTRIES = 1 << 22
SMALLEST = 1e-300
# Functions that must be followed farther than the rule reaches are not expanded.
FARTHEST = REACH - 0.4


@np.errstate(over="ignore", invalid="ignore")
def mean_square(
    function: ScalarFunction, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""$E f^2=\frac1{m^2}\sum_{ij}a_ia_jE[\sigma_i\sigma_j]$ at each time, and a bound of what the series leaves out,
    $\big(\frac1m\sum_i|a_i|r_i^{1/2}\big)^2$.

    Shapes (time,); `gram` (time, m, m), `second_layer` and `bias` (time, m).
    """
    times, m = second_layer.shape
    value, tail = np.zeros(times), np.zeros(times)
    together = max(1, MOST_ENTRIES // (m * max(m, len(hermite_rule()[0]))))
    for part in (slice(begin, begin + together) for begin in range(0, times, together)):
        size = np.sqrt(np.maximum(np.einsum("tjj->tj", gram[part]), SMALLEST))
        correlation = np.clip(gram[part] / (size[:, :, None] * size[:, None]), -1.0, 1.0)
        weights = second_layer[part] / m
        coefficients, _, left = _expanded(function, size, bias[part])
        tail[part] = np.sum(np.abs(weights) * np.sqrt(left), axis=1) ** 2
        means = np.zeros_like(correlation)
        for column in np.moveaxis(coefficients, 2, 0)[::-1]:
            means = means * correlation + column[:, :, None] * column[:, None]
        value[part] = np.einsum("ti,tij,tj->t", weights, means, weights)
    return value, tail


@np.errstate(over="ignore", invalid="ignore")
def products_with_link(
    link: ScalarFunction,
    function: ScalarFunction,
    size: np.ndarray,
    bias: np.ndarray,
    correlation: np.ndarray,
    bent: bool = False,
) -> tuple[PairMean, np.ndarray]:
    r"""$E[h(z)\,\sigma(s\,G+b)]$, $E\,zG=\rho$, with the bound of its error, and $(E h^2\,E\sigma^2)^{1/2}$ beside it.

    `bent`: the function has a kink at 0 and no bias. Its own series is long, but that of a smooth link ends the sum; it
    may be steep beside the kink, and what half as many panels change is added to the error.

    All of the shape (time, m) of `size` $s$, `bias` $b$ and `correlation` $\rho$.
    """
    rule, one = halves_rule() if bent else hermite_rule(), np.ones((1, 1))
    labels, label_power, label_left = (part[0, 0] for part in _expanded(link, one, 0.0 * one))
    value, error, scale = (np.zeros(size.shape) for _ in range(3))
    together = max(1, MOST_ENTRIES // (size.shape[1] * len(rule[0])))
    for part in (slice(begin, begin + together) for begin in range(0, len(size), together)):
        rho = np.clip(correlation[part], -1.0, 1.0)
        coefficients, power, left = _expanded(function, size[part], bias[part], rule)
        value[part] = _summed(coefficients * labels, rho)
        error[part] = np.abs(rho) ** labels.size * np.sqrt(label_left * left)
        if bent:
            fewer = _expanded(function, size[part], bias[part], halves_rule(PANELS // 2))[0]
            error[part] += np.abs(_summed(fewer * labels, rho) - value[part])
        scale[part] = np.sqrt(label_power * power)
    return PairMean(value, error), scale


def _summed(coefficients: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """The series (time, m, N + 1) at these correlations."""
    return np.polynomial.polynomial.polyval(correlation, np.moveaxis(coefficients, 2, 0), tensor=False)


def _expanded(
    function: ScalarFunction,
    size: np.ndarray,
    bias: np.ndarray,
    rule: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hermite coefficients (time, m, N + 1) of fields of this size and shift, mean square and its part left out."""
    nodes, transform = rule or hermite_rule()
    answers = function.values(size[..., None] * nodes + bias[..., None])
    coefficients = answers @ transform
    power = answers**2 @ transform[:, 0]
    return coefficients, power, np.maximum(power - np.sum(coefficients**2, axis=-1), 0.0)
