"""One plan of sampling: which lifts, which samples, and the moments they give at a value of the statistics."""

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from limen.gaussian.keys import stream_key
from limen.precision import in_double
from limen.problem.families.user_model import UserModel
from limen.problem.spec import InputError
from limen.theory.effective.estimates import spread
from limen.theory.effective.lifting import check_lifted, lifted
from limen.theory.effective.mixtures.rule_memory import remembered_moments
from limen.theory.effective.moments import Moments, group_size, sampled_moments

# Lifts of a test of closability start from points between half and twice the usual size.
SCALES = 2.0
FEWEST_CLOSING_LIFTS = 8
FEWEST_GROUPS = 4
# Groups of samples in one call of compiled code.
PART = 8
# Relative spread of the drift over lifts above which statistics are refused as not closing.
LARGEST_SPREAD = 0.2


@dataclass(frozen=True, eq=False)
class Sampling:
    """A checked model and how much is sampled; the same seed gives the same lifts and samples at every value."""

    model: UserModel
    samples: int
    lifts: int
    seed: int
    memory: int

    @property
    def fewest_samples(self) -> int:
        """Samples without which standard errors could not be estimated."""
        if self.model.remembers:
            return 2 * self.lifts * self.memory * (FEWEST_GROUPS + 2)
        return 2 * self.lifts * FEWEST_GROUPS

    def points(self, value: NDArray[np.float64], scales: NDArray[np.float64], stream: str = "lifts") -> jax.Array:
        """Points (lift, N) with the given statistics, from random starts of the given scales."""
        starts = scales[:, None] * self.model.random_points(self.seed, stream, len(scales))
        values = np.tile(value, (self.lifts, 1))
        points, residuals = [], []
        # As many at once as everywhere, the last filled up, so that nothing is compiled anew.
        for i in range(0, len(scales), self.lifts):
            found = lifted(self.model, values, np.resize(starts[i : i + self.lifts], (self.lifts, starts.shape[1])))
            points.append(np.asarray(found[0]))
            residuals.append(np.asarray(found[1]))
        check_lifted(value, np.concatenate(residuals)[: len(scales)])
        return jnp.asarray(np.concatenate(points)[: len(scales)])

    def moments(self, value: NDArray[np.float64]) -> Moments:
        """Group estimates at a value of the statistics, axes (lift, group, ...); remembered."""
        return _moments(self, tuple(value.tolist()))

    def moments_at(self, points: jax.Array, stream: str = "samples") -> Moments:
        """Group estimates at points (lift, N) from all samples."""
        model, each = self.model, self.samples // self.lifts
        if model.remembers:
            groups = max(FEWEST_GROUPS, each // (2 * self.memory) - 2)
            return self._checked(remembered_moments(model, points, self._key(stream), groups, self.memory))
        # In equal parts, so that more samples, or the few of a step of the flow, need no new compilation.
        groups = -(-each // group_size(model, each, self.lifts))
        count = -(-groups // PART) if groups > PART else 1
        parts = [self._part(points, f"{stream} {i}") for i in range(count)]
        return self._checked(jax.tree.map(lambda *pieces: np.concatenate(pieces, axis=1), *parts))

    def brief_moments_at(self, points: jax.Array, stream: str) -> Moments:
        """Estimates at points (lift, N) from few samples, without the axis of groups."""
        if self.model.remembers:
            found = self.moments_at(points, stream)
        else:
            found = self._checked(self._part(points, stream))
        return Moments(*(part.mean(axis=1) for part in found))

    @property
    def brief_samples(self) -> int:
        """Samples of each lift in `brief_moments_at`."""
        each = self.samples // self.lifts
        if self.model.remembers:
            return each
        size = group_size(self.model, each, self.lifts)
        return size * min(PART, -(-each // size))

    def _part(self, points: jax.Array, stream: str) -> Moments:
        # Keys are made outside jax: splitting them would take longer to compile than the rest.
        each = self.samples // self.lifts
        size = group_size(self.model, each, self.lifts)
        shape = (min(PART, -(-each // size)), points.shape[0], size, 2)
        generator = np.random.default_rng([self.seed, self.model.dimension, *stream.encode()])
        keys = jax.random.wrap_key_data(jnp.asarray(generator.integers(2**32, size=shape, dtype=np.uint32)))
        return sampled_moments(self.model, points, keys)

    def _key(self, stream: str) -> jax.Array:
        return stream_key(self.seed, self.model.dimension, stream)

    def _checked(self, sampled: Moments) -> Moments:
        found = Moments(*(np.asarray(part) for part in sampled))
        if not all(np.isfinite(part).all() for part in found):
            raise InputError("loss must have finite gradients at the lifted points, got some that are not.")
        return found.with_step(self.model.delta)


@lru_cache(maxsize=1024)
@in_double
def _moments(sampling: Sampling, value: tuple[float, ...]) -> Moments:
    return sampling.moments_at(sampling.points(np.array(value), np.ones(sampling.lifts)))


@in_double
def closing(sampling: Sampling, value: NDArray[np.float64]) -> float:
    """Relative spread of the effective drift over diverse lifts; zero where sampling explains it."""
    rounds = -(-FEWEST_CLOSING_LIFTS // sampling.lifts)
    scales = (SCALES ** np.linspace(-1.0, 1.0, rounds * sampling.lifts)).reshape(rounds, sampling.lifts)
    parts, size = [], 1e-300
    # As many lifts at once as everywhere, so that nothing is compiled anew.
    for i, row in enumerate(scales):
        found = sampling.moments_at(sampling.points(value, row, f"closing lifts {i}"), f"closing samples {i}")
        parts.append(found.corrector - found.population_drift)
        # Where the drift is zero, its two parts still say what is large.
        size = max(
            size, *(float(np.abs(part.mean(axis=(0, 1))).max()) for part in (found.corrector, found.population_drift))
        )
    groups = np.concatenate(parts)
    differing = spread(groups)
    return float(np.where(differing.significant, differing.excess, 0.0).max()) / size


def check_closing(sampling: Sampling, value: NDArray[np.float64]) -> float:
    """Refuses statistics whose drift depends on more than their value; gives the relative spread over lifts."""
    amount = closing(sampling, value)
    if amount > LARGEST_SPREAD:
        raise InputError(
            f"the statistics do not close: at u = {np.round(value, 4).tolist()} the drift differs by {amount:.0%} "
            f"between points of equal statistics; add the statistics it depends on."
        )
    return amount
