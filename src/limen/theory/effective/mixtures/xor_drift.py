r"""Effective drift of a two-layer ReLU network on the XOR mixture.

Statistics: second layer $v_i$, overlaps $m_i^\mu,m_i^\nu$ of the neurons with the means, Gram matrix $R_{ij}$ of their
parts orthogonal to both. With $u_i=m_i^\mu X_\mu+m_i^\nu X_\nu+w_i$, $w\sim N(0,R/\lambda)$, $e=\sigma(h)-y$,
$\chi_i=1_{u_i>0}$, as $N\to\infty$ with $\delta=c/N$,
$$\dot v_i=-\alpha v_i-E[e\,g(u_i)],\qquad\dot m_i^\mu=-\alpha m_i^\mu-v_iE[e\chi_iX_\mu]\quad(\text{same for }\nu),$$
$$\dot R_{ij}=-2\alpha R_{ij}-v_iE[e\chi_iw_j]-v_jE[e\chi_jw_i]+\tfrac c\lambda v_iv_jE[e^2\chi_i\chi_j]$$
(Ben Arous, Gheissari & Jagannath 2022, with the Gram matrix that closes the equations).
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr, ndtri

from limen.gaussian.gram_matrices import gram_matrix, square_root
from limen.problem import InputError, XorMixture
from limen.theory.effective.mixtures.mixture_points import antithetic_points, check_points

POINTS = 1 << 13
SMALLEST = 1e-290


def xor_drift(
    problem: XorMixture, v: ArrayLike, mu: ArrayLike, nu: ArrayLike, R: ArrayLike, points: int = POINTS
) -> dict[str, np.ndarray]:
    r"""Time derivatives of the statistics, in a dict with keys `v`, `mu`, `nu` (K,) and `R` (K, K).

    For each neuron $i$ and each of the four means the normal $t$ along the loading of $u_i$ is drawn conditionally
    on $u_i>0$, whose probability $\Phi(a_i)$ is an error function; the other coordinates are frozen scrambled Sobol
    normals with antithetics. The drift is thus a smooth function of the statistics however small the overlaps, and
    the linear response at $m=0$ comes out right. Error about $2\cdot10^{-4}$ at the default `points`, cost
    $O(4nK^2)$. The clouds of $\pm\nu$ use the points of $\pm\mu$ with the two mean coordinates swapped, those of the
    negative means the points with these coordinates reversed: the symmetries $(v,\mu,\nu)\to(-v,\nu,\mu)$ and
    $(\mu,\nu)\to(-\mu,-\nu)$ are exact.

    `sharpness = inf`: closed form, with Filippov sliding, see `sharp_drift`.
    """
    if not isinstance(problem, XorMixture):
        raise InputError(f"problem must be an XorMixture, got {type(problem).__name__}.")
    width = problem.width
    second, first, other = (_vector(value, width, name) for value, name in ((v, "v"), (mu, "mu"), (nu, "nu")))
    gram = gram_matrix(R, width, "R")
    aligned = np.stack([first, other], axis=1)
    if np.isinf(problem.sharpness):
        derivative = sharp_drift(problem, second, aligned, gram)
    else:
        derivative = smooth_drift(problem, second, aligned, gram, check_points(points))
    return {"v": derivative[0], "mu": derivative[1][:, 0], "nu": derivative[1][:, 1], "R": derivative[2]}


def _vector(value: ArrayLike, width: int, name: str) -> np.ndarray:
    """A finite vector of one number per neuron."""
    vector = np.asarray(value, dtype=float)
    if vector.shape != (width,) or not np.isfinite(vector).all():
        raise InputError(f"{name} must be {width} finite numbers, one per neuron, got shape {vector.shape}.")
    return vector


def smooth_drift(
    problem: XorMixture, v: np.ndarray, aligned: np.ndarray, gram: np.ndarray, points: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""$(\dot v,\dot m,\dot R)$ at finite $\lambda$; `aligned` is $(m^\mu,m^\nu)$, shape (K, 2)."""
    width, scale = problem.width, problem.sharpness**-0.5
    root = square_root(gram)
    loadings = scale * np.concatenate([aligned, root], axis=1)
    lengths = np.linalg.norm(loadings, axis=1)
    moves = lengths > 0.0
    lengths = np.where(moves, lengths, 1.0)
    directions = loadings / lengths[:, None]
    response = directions @ loadings.T
    # Points along the last axis: with a few neurons, operations along that of the neurons would cost twice the time.
    frozen = np.ascontiguousarray(antithetic_points(width + 3, points).T)
    uniform = ndtr(frozen[-1])
    correlation = np.zeros(width)
    pull = np.zeros((width, 2))
    cross = np.zeros((width, width))
    square = np.zeros((width, width))
    for axis, sign, label in ((0, 1.0, 1.0), (0, -1.0, 1.0), (1, 1.0, 0.0), (1, -1.0, 0.0)):
        ahead = frozen[:2] if axis == 0 else frozen[1::-1]
        normals = np.concatenate([sign * ahead, frozen[2:-1]])
        centre = sign * aligned[:, axis]
        chance = np.where(moves, ndtr(centre / lengths), 0.0)
        noise = loadings @ normals
        drawn = noise / lengths[:, None]
        unshifted = centre[:, None] + noise
        errors = np.zeros((width, points))
        along = np.zeros(width)
        mass = 0.25 * chance / points
        for i in np.flatnonzero(chance > 0.0):
            shift = -ndtri(np.maximum(uniform * chance[i], SMALLEST)) - drawn[i]
            fields = np.multiply.outer(response[i], shift)
            fields += unshifted
            active = fields > 0.0
            hidden = np.maximum(fields, 0.0, out=fields)
            error = expit(v @ hidden) - label
            errors[i], along[i] = error, error @ shift
            correlation[i] += mass[i] * (error @ hidden[i])
            square[i] += mass[i] * (active @ error**2)
        moments = scale * mass[:, None] * (errors @ normals.T + along[:, None] * directions)
        pull += moments[:, :2]
        pull[:, axis] += sign * mass * errors.sum(axis=1)
        cross += moments[:, 2:] @ root
    alpha, both = problem.penalty, v[:, None] * cross
    noise_term = 0.5 * (square + square.T) * (problem.step / problem.sharpness) * np.outer(v, v)
    return (
        -alpha * v - correlation,
        -alpha * aligned - v[:, None] * pull,
        -2.0 * alpha * gram - both - both.T + noise_term,
    )


def sharp_drift(
    problem: XorMixture, v: np.ndarray, aligned: np.ndarray, gram: np.ndarray, signs: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""The limit $\lambda\to\infty$ after $N\to\infty$: every cloud is a point, $\dot R=-2\alpha R$, and

    $$\dot m_i^\mu=-\alpha m_i^\mu+\tfrac{v_i}4s\,\sigma(-h_{s\mu}),\quad\dot m_i^\nu=-\alpha m_i^\nu-\tfrac{v_i}4s\,
    \sigma(h_{s\nu}),\qquad s=\mathrm{sign}\,m_i.$$
    The field jumps at $m_i=0$. Where both sides point to zero ($v_i>0$ for $\nu$, $v_i<0$ for $\mu$) the overlap slides
    along $m_i=0$; where both point away, $m_i=0$ is an unstable rest. In either case its derivative there is 0.
    `signs` (K, 2) continues the field of given signs smoothly beyond zero, for an integrator that looks for the
    crossing.
    """
    signs = np.sign(aligned) if signs is None else signs
    second = -problem.penalty * v
    overlaps = -problem.penalty * aligned
    for axis, label in ((0, 1.0), (1, 0.0)):
        for sign in (1.0, -1.0):
            seen = signs[:, axis] == sign
            active = np.where(seen, sign * aligned[:, axis], 0.0)
            pull = 0.25 * (label - expit(float(v @ active)))
            second = second + pull * active
            overlaps[:, axis] += np.where(seen, sign * pull * v, 0.0)
    return second, overlaps, -2.0 * problem.penalty * gram
