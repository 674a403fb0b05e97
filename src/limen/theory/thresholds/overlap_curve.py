r"""What a label tells about a coordinate already known in part: the two functions behind Bayes-optimal overlaps.

With $z=\sqrt q\,\xi+\sqrt{1-q}\,w$, standard normal $\xi$ known and $w$ not,
$$I(q)=E\log\frac{p(y\mid\xi)}{p(y)},\qquad
S(q)=2I'(q)=E\Big[\Big(\frac{E[z\mid y,\xi]-\sqrt q\,\xi}{1-q}\Big)^2\Big].$$
Overlaps of single-index models with a Gaussian prior are stationary points of $\delta I(q)+\frac12(q+\log(1-q))$, that
is, solutions of $\delta=D(q):=\frac q{(1-q)S(q)}$, and message passing climbs where $\delta>D(q)$.

Source: Barbier, Krzakala, Macris, Miolane & Zdeborová 2019, "Optimal errors and phase transitions in high-dimensional
generalized linear models".
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import PchipInterpolator

from limen.link.label_points import link_values
from limen.problem.spec import InputError
from limen.problem.targets import Target
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.label_channel import LabelChannel, continuous_share, target_channel

KNOWN_NODES = 121
KNOWN_REACH = 6.5
LOGITS = np.linspace(-6.0, 8.0, 43)
FINE_FROM = 0.9
SMALLEST_MASS = 1e-300


@dataclass(frozen=True, eq=False)
class OverlapCurve:
    r"""$D(q)$ and $I(q)$ on a dense grid of $q$ from 0 to $1-3\cdot10^{-4}$.

    `overlaps`, `samples_per_dim` ($D$) and `information` ($I$) have equal shapes; `algorithmic` is $D(0)$, and `exact`
    the $\delta$ above which noiseless labels determine the direction (infinite with noise or discrete labels).
    """

    overlaps: np.ndarray
    samples_per_dim: np.ndarray
    information: np.ndarray
    algorithmic: float
    exact: float

    def entropy(self) -> np.ndarray:
        r"""$-\frac12(q+\log(1-q))$ on the grid."""
        return -0.5 * (self.overlaps + np.log1p(-self.overlaps))


def single_index(target: Target) -> Target:
    """The target itself if it has one latent direction; refused otherwise."""
    if target.latents != 1:
        raise InputError(f"target must have one latent direction here, and {target.label!r} has {target.latents}.")
    return target


def information_and_slope(channel: LabelChannel, q: float) -> tuple[float, float]:
    """$I(q)$ and $S(q)=2I'(q)$ of a channel, $0\\le q<1$, by quadrature over the known part."""
    known = np.linspace(-KNOWN_REACH, KNOWN_REACH, KNOWN_NODES)
    chances = np.exp(-0.5 * known**2)
    chances /= chances.sum()
    rest = 1.0 - q
    unknown = channel.latents[:, None] - np.sqrt(q) * known
    kernel = np.exp(unknown**2 * (-0.5 / rest))
    kernel /= kernel.sum(0)
    both = channel.by_cell @ np.hstack([kernel, kernel * unknown])
    likelihood = np.maximum(both[:, :KNOWN_NODES], SMALLEST_MASS).T
    slope = chances @ (both[:, KNOWN_NODES:].T ** 2 / likelihood).sum(1) / rest**2
    average = np.maximum(chances @ likelihood, SMALLEST_MASS)
    information = chances @ (likelihood * np.log(likelihood / average)).sum(1)
    return float(information), float(slope)


@lru_cache(maxsize=32)
def overlap_curve(target: Target) -> OverlapCurve:
    """The curve of a single-index target; 2 to 4 s, kept for the last 32 targets."""
    noiseless = target.noise == 0 and not target.uses_inner_noise
    coarse = target_channel(target, 1 << 11, 512 if noiseless else 256)
    fine = target_channel(target, 1 << 13, 2048) if noiseless else coarse
    q = 1.0 / (1.0 + np.exp(-LOGITS))
    table = np.array([information_and_slope(fine if value > FINE_FROM else coarse, value) for value in q])
    start = algorithmic(target)
    if start > 0:
        # A hard link has S(0) = 0; what the cells show instead is their unevenness, which would pass for information.
        uneven = information_and_slope(coarse, 1e-9)[1]
        table -= uneven * np.column_stack([0.5 * (q - 0.5 * q**2), 1.0 - q])
    levels = q / ((1.0 - q) * np.maximum(table[:, 1], SMALLEST_MASS))
    dense = np.linspace(LOGITS[0], LOGITS[-1], 4001)
    overlaps = 1.0 / (1.0 + np.exp(-dense))
    curve = np.exp(PchipInterpolator(LOGITS, np.log(levels))(dense))
    information = np.exp(PchipInterpolator(LOGITS, np.log(np.maximum(table[:, 0], SMALLEST_MASS)))(dense))
    share = continuous_share(lambda z, e: link_values(target, z[:, None], e)) if noiseless else 0.0
    return OverlapCurve(overlaps, curve, information, start, 1.0 / share if share > 0 else np.inf)
