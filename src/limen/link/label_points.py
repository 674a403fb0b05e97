r"""Latent coordinates and labels at scrambled Sobol points: what is known of a link without a formula for its law."""

from functools import lru_cache, partial
from typing import Any

import numpy as np

from limen.gaussian.sobol import sobol_normals
from limen.link.mean_square import has_finite_square
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.problem.targets import Target, as_target


def checked_target(target: Any) -> Target:
    r"""The target behind a name, a formula or a `Target`; refused unless $E[y^2]$ is finite (`has_finite_square`)."""
    link = as_target(target)
    if not isinstance(link, Target):
        raise InputError(f"target must be a name, a formula or a Target, got {type(target).__name__}.")
    if not _has_finite_square(link):
        raise InputError(f"target must have a finite mean square label, and {link.label!r} has not.")
    return link


def check_labels(target: Target) -> None:
    """Refuses a target whose labels do not exist everywhere (`log(z)`) or have no finite mean square (`1/z`)."""
    if not _is_finite(target):
        raise InputError(f"target {target.label!r} must be finite for every latent coordinate.")
    checked_target(target)


@lru_cache(maxsize=256)
def _is_finite(target: Target) -> bool:
    # Plain normals: Sobol's would import SciPy, a sixth of a second of the first answer.
    points = np.random.default_rng(3).standard_normal((1 << 12, target.latents + target.uses_inner_noise))
    return bool(np.isfinite(_values(target, points)).all())


@in_double
def link_values(target: Target, latents: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """$h(z,e)$ without the additive noise: `latents` (N, k), `inner` (N,)."""
    count = len(inner)
    # Every new length costs a compilation of each operation, so lengths are powers of two.
    padding = (1 << max(count - 1, 0).bit_length()) - count
    padded = np.pad(latents, ((0, padding), (0, 0)), mode="edge"), np.pad(inner, (0, padding), mode="edge")
    return np.asarray(target.function(*padded), dtype=np.float64)[:count]


def label_points(target: Target, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Latents (count, k) and labels (count,), additive noise included, at the points of one Sobol scramble."""
    k, inner = target.latents, int(target.uses_inner_noise)
    points = sobol_normals(count, k + inner + (target.noise > 0), seed)
    labels = link_values(target, points[:, :k], points[:, k] if inner else np.zeros(count))
    if target.noise > 0:
        labels = labels + np.sqrt(target.noise) * points[:, -1]
    if not np.isfinite(labels).all():
        raise InputError(f"target must be finite, and {target.label!r} is not at one of {count} points.")
    return points[:, :k], labels


def normal_scores(labels: np.ndarray) -> np.ndarray:
    r"""$\Phi^{-1}$ of the mid-ranks: an increasing map of the labels that is standard normal for a continuous law.

    Whatever is conditioned on $y$ may be conditioned on its scores; heavy tails and units are gone, and equal
    labels keep equal scores.
    """
    from scipy.special import ndtri

    # As `scipy.stats.rankdata`, whose import takes longer than most first answers.
    _, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1)
    return ndtri((ranks[place] - 0.5) / len(labels))


@lru_cache(maxsize=256)
def _has_finite_square(target: Target) -> bool:
    return has_finite_square(partial(_values, target), target.latents + target.uses_inner_noise)


def _values(target: Target, points: np.ndarray) -> np.ndarray:
    k = target.latents
    with np.errstate(all="ignore"):
        return link_values(target, points[:, :k], points[:, k] if points.shape[1] > k else np.zeros(len(points)))
