r"""Eigenvalues that leave the bulk of $\frac1n\sum_ig_iY_iY_i^\top$ when the weights depend on a few coordinates."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from limen.checks import positive
from limen.problem.spec import InputError
from limen.theory.spectra.discrete_law import Numbers, discrete_law, finite_array
from limen.theory.spectra.gaussian_cells import gaussian_nodes
from limen.theory.spectra.subordination import Subordination

SAMPLE_BINS = 200
SAME_ROOT = 1e-9


class Outlier(NamedTuple):
    """An eigenvalue outside the bulk, and the squared overlap of its eigenvector with the planted direction."""

    location: float
    overlap_squared: float


class SubspaceOutlier(NamedTuple):
    """An eigenvalue outside the bulk; its eigenvector's projection on the subspace: squared norm, unit direction."""

    location: float
    overlap_squared: float
    direction: np.ndarray


def directional_outliers(
    weight: Callable[[np.ndarray], np.ndarray] | tuple[Numbers, Numbers], ratio: float
) -> list[Outlier]:
    r"""Outliers of $\frac1n\sum_ig(s_i)x_ix_i^\top$, $x_i\sim N(0,I_d)$, $s_i=\langle x_i,v\rangle$, $|v|=1$.

    As $n,d\to\infty$ with $\gamma=d/n$ = `ratio` fixed. With $w=-1/S(z)$ outside the bulk, on the left, on the right
    and in every gap,
    $$1=E\Big[\frac{g\,(s^2-1)}{w-\gamma g}\Big],\quad z=w+E\frac{gw}{w-\gamma g},\quad
    |\langle v,\hat v\rangle|^2=\frac{z'(w)}{1+\gamma E\big[\frac{g^2(s^2-1)}{(w-\gamma g)^2}\big]},$$
    $z'(w)=1-\gamma E\frac{g^2}{(w-\gamma g)^2}>0$ (for spectral initialisation: Lu & Li 2020; Mondelli & Montanari
    2019).

    `weight` is either a function $g$ of a NumPy array, which may jump, or a pair of arrays of samples $(g_i,s_i)$; the
    second also serves weights with further randomness. Weights must be bounded on their law: with an unbounded
    one the bulk has no end, and what is found depends on where the nodes or samples stop. Ascending in location.
    """
    if callable(weight):
        nodes = gaussian_nodes(weight, "weight")
        values, places, probabilities, resolution = nodes
    else:
        values, places = (finite_array(part, "weight") for part in weight)
        if values.shape != places.shape:
            raise InputError(f"weight must hold as many g as s, got {values.size} and {places.size}.")
        probabilities, resolution = np.full(values.size, 1.0 / values.size), float(np.ptp(values)) / SAMPLE_BINS
    found = _search(values, places[:, None], probabilities, positive("ratio", ratio), 1.0, resolution)
    return [Outlier(location, overlap) for location, overlap, _ in found]


def subspace_outliers(
    weights: Numbers,
    coordinates: np.ndarray,
    ratio: float,
    bulk_variance: float = 1.0,
    probabilities: Numbers | None = None,
) -> list[SubspaceOutlier]:
    r"""All outliers of $\frac1n\sum_ig_iY_iY_i^\top$, where $Y_i=(U_i,\sqrt{v}\,\xi_i)$ and $g_i$ depends on $U_i$.

    $\xi_i\sim N(0,I_{d-r})$ is independent of $(g_i,U_i)$. As $n,d\to\infty$ with $\gamma=d/n$ = `ratio` and $r$
    fixed; $v$ = `bulk_variance`. $U_i\in\mathbb R^r$ are the coordinates of $Y_i$ in the subspace on which the
    weights depend, with whatever mean and second moments they have. With $w=-1/S(z)$ and $\tau=gv$, outliers are the
    roots, outside the bulk, of
    $$\det\Big(E\Big[\frac{g\,UU^\top}{1+\gamma\tau S}\Big]-z\Big)=0,
    \qquad\frac1{1+\gamma\tau S}=\frac w{w-\gamma\tau}.$$
    The matrix decreases in $z$ between two bands, so its $j$-th eigenvalue crosses zero at most once there, and
    bisection finds every root. The unit null vector $e$ is the `direction` of the eigenvector inside the subspace, and
    $|P_U\hat u|^2=z'(w)\big/\big(z'(w)+\gamma E\frac{g\tau(e\cdot U)^2}{(w-\gamma\tau)^2}\big)$.

    Two uses. Hessians of a multi-index loss: $U\sim N(0,I_r)$ are the hard coordinates of isotropic inputs, $v=1$.
    Blocks of Gaussian mixtures with noise $1/\lambda$ per coordinate: $U$ includes the means, $v=1/\lambda$ (Ben
    Arous, Gheissari, Huang & Jagannath 2024).

    Shapes: `weights` `(N,)`, `coordinates` `(N, r)` (or `(N,)` for $r=1$), `probabilities` `(N,)`, equal if not
    given. In an interval of $w$ that contains 0, which exists when $P(g\ne0)<\gamma$, nothing but the null space
    solves the equation. Cost $O(Nr^2)$ per evaluation. Ascending in location. The bulk seen by samples ends at its
    last sample: roots beyond a soft edge are as uncertain as that sample.
    """
    values = finite_array(weights, "weights")
    places = np.asarray(coordinates, dtype=float)
    places = places[:, None] if places.ndim == 1 else places
    if places.ndim != 2 or len(places) != values.size or not np.isfinite(places).all():
        raise InputError(f"coordinates must be finite with shape ({values.size}, r), got shape {places.shape}.")
    if probabilities is None:
        masses = np.full(values.size, 1.0 / values.size)
    else:
        masses = finite_array(probabilities, "probabilities")
        discrete_law(values, masses, "weights", "probabilities")
    resolution = float(np.ptp(values)) / SAMPLE_BINS if values.size > SAMPLE_BINS else 0.0
    return _search(
        values, places, masses, positive("ratio", ratio), positive("bulk_variance", bulk_variance), resolution
    )


def _search(
    values: np.ndarray,
    coordinates: np.ndarray,
    probabilities: np.ndarray,
    ratio: float,
    bulk_variance: float,
    resolution: float,
) -> list[SubspaceOutlier]:
    poles = ratio * bulk_variance * values
    law = Subordination.from_law(
        *discrete_law(poles, probabilities, "weights", "probabilities"),
        1.0 / ratio,
        ratio * bulk_variance * resolution,
    )
    if law.atoms.size == 0:
        return []
    products = coordinates[:, :, None] * coordinates[:, None, :]
    moments = (probabilities * values)[:, None] * products.reshape(values.size, -1)
    size = coordinates.shape[1]

    def deviation(w: float) -> np.ndarray:
        block = ((w / (w - poles)) @ moments).reshape(size, size)
        return 0.5 * (block + block.T) - float(law.map(np.array([w]))[0]) * np.eye(size)

    found = []
    for low, high in _intervals(law, deviation):
        roots: list[float] = []
        above, below = np.linalg.eigvalsh(deviation(low)), np.linalg.eigvalsh(deviation(high))
        for index in np.flatnonzero((above > 0.0) & (below < 0.0)):
            root = _bracketed_root(lambda w, i=index: float(np.linalg.eigvalsh(deviation(w))[i]), low, high)
            # A repeated root must use one eigenbasis, or its directions need not be orthogonal.
            if roots and abs(root - roots[-1]) <= SAME_ROOT * (abs(root) + law.spread):
                root = roots[-1]
            roots.append(root)
            direction = np.linalg.eigh(deviation(root))[1][:, index]
            found.append(_outlier(law, root, direction, values, coordinates, probabilities, poles))
    return sorted(found, key=lambda outlier: outlier.location)


def _intervals(law: Subordination, deviation: Callable[[float], np.ndarray]) -> list[tuple[float, float]]:
    left, right = float(law.bands[0, 0]), float(law.bands[-1, 1])
    reach = law.spread
    while np.linalg.eigvalsh(deviation(left - reach))[0] <= 0.0:
        reach *= 2.0
    far_left, reach = left - reach, law.spread
    while np.linalg.eigvalsh(deviation(right + reach))[-1] >= 0.0:
        reach *= 2.0
    everything = [(far_left, left), *((float(a), float(b)) for a, b in law.gaps), (right, right + reach)]
    # Where zero is outside the bulk the whole matrix vanishes at w = 0, and decreases: it has no other root there.
    return [(low, high) for low, high in everything if not low < 0.0 < high]


def _bracketed_root(function: Callable[[float], float], low: float, high: float) -> float:
    root = brentq(function, low, high, xtol=1e-15 * max(abs(low), abs(high)))
    return float(root)  # pyright: ignore[reportArgumentType]


def _outlier(
    law: Subordination,
    w: float,
    direction: np.ndarray,
    values: np.ndarray,
    coordinates: np.ndarray,
    probabilities: np.ndarray,
    poles: np.ndarray,
) -> SubspaceOutlier:
    slope = float(law.slope(np.array([w]))[0])
    # poles = ratio * tau, so this is ratio * E[g tau (e . U)^2 / (w - ratio tau)^2].
    leak = float(probabilities @ (values * poles * (coordinates @ direction) ** 2 / (w - poles) ** 2))
    overlap = slope / (slope + leak)
    return SubspaceOutlier(float(law.map(np.array([w]))[0]), float(np.clip(overlap, 0.0, 1.0)), direction)
