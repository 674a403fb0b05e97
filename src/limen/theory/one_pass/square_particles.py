r"""Particles of a wide committee of $z^2$ in closed form: what `limen.theory.one_pass.mean_field` integrates for it.

With the rows $R=(M;P)$ of students and teachers, weights $v=(-a/p,\;a^*/k)$ and the self-term $e_i=q_i$ (0 without it),
the joint covariance is $C=RP^{-1}R^\top+\mathrm{diag}(e,0)$: every sum over pairs and triples of units goes through
the $k\times k$ matrix $G=R^\top\mathrm{diag}(v)R$.
"""

import numpy as np


def square_slopes(
    state: np.ndarray,
    inverse: np.ndarray,
    teacher: np.ndarray,
    second: np.ndarray,
    read_out: np.ndarray,
    numbers: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Time derivative of $(m,q)$, shape (..., p, k + 1), and the excess risk (...); leading axes are batches.

    `inverse` is $P^{-1}$, `numbers` are the rate, the label noise, $1/D$ and whether the self-term is kept. $O(pk^2)$.
    """
    rate, noise, correction, self_term = numbers
    p, k = second.size, read_out.size
    overlap, rest = state[..., :k], state[..., k]
    weights, extra = -second / p, self_term * rest
    dual = overlap @ inverse
    aligned = np.vecdot(dual, overlap)
    length = aligned + rest
    trace = (length @ weights + np.diagonal(teacher) @ read_out / k)[..., None]
    columns = np.swapaxes(overlap, -1, -2)
    gram = (columns * weights) @ overlap + (teacher * read_out / k) @ teacher
    # Sums over one unit b, and over two, of products of covariances with unit i and weights.
    seen, shifted = dual @ gram, weights * extra
    single, alone = seen + shifted[..., None] * overlap, extra * (2.0 * aligned + extra)
    double = np.vecdot(seen, dual) + weights * alone
    own = (columns * (weights * shifted)[..., None, :]) @ overlap
    triple = np.vecdot(single @ inverse, single) + np.vecdot(dual @ own, dual) + weights * shifted * alone
    turned = inverse @ gram
    pair = np.einsum("...rs,...sr->...", turned, turned) + alone @ weights**2
    both = trace**2 + 2.0 * pair[..., None]
    weighted = second * rest
    others = weighted.sum(axis=-1, keepdims=True) - self_term * weighted
    drift = 2.0 * second[:, None] * (trace[..., None] * overlap + 2.0 * single)
    radial = 2.0 * second * (trace * length + 2.0 * double) - 4.0 / p * correction * weighted * others
    spread = 4.0 * ((both + noise) * length + 4.0 * trace * double + 8.0 * triple)
    moved = 2.0 * radial + rate / p * second**2 * spread - 2.0 * np.vecdot(dual, drift)
    risk = 0.5 * both[..., 0] + correction * np.vecdot(weighted, others) / p**2
    return np.concatenate([drift, moved[..., None]], axis=-1), risk
