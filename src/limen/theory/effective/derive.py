r"""Effective dynamics of any statistics of any online SGD, from the user's own functions.

Online SGD $x_{\ell+1}=x_\ell-\delta\nabla L(x_\ell,y_{\ell+1})$ draws a fresh sample each step; $\Phi=E L$, and $V$ is
the covariance of $\nabla L$. As the dimension grows, statistics $u(x)\in\mathbb R^k$ with Jacobian $J$ follow, in time
$t=\ell\delta$,
$$du=(-f+g)\,dt+\sqrt\Sigma\,dB,\qquad f=J\nabla\Phi,\quad g_i=\tfrac\delta2\langle V,\nabla^2u_i\rangle,\quad
\Sigma=\delta JVJ^\top,$$
whenever $f,g,\Sigma$ become functions of $u$ (Ben Arous, Gheissari & Jagannath 2022, Theorem 2.2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.gaussian.keys import stream_key
from limen.precision import in_double
from limen.problem.families.user_model import UserModel, user_model
from limen.problem.spec import InputError
from limen.result import Result
from limen.theory.effective.diffusion import integrate_diffusion
from limen.theory.effective.equilibria import FixedPoint, find_fixed_points
from limen.theory.effective.estimates import Estimate, pooled
from limen.theory.effective.lifting import normalized_singular_values
from limen.theory.effective.mixtures.rule_memory import check_forgotten
from limen.theory.effective.moments import Moments
from limen.theory.effective.portrait import portrait
from limen.theory.effective.sampled_flow import integrate_flow
from limen.theory.effective.sampling import Sampling, closing
from limen.theory.effective.scaling import Scaling, fit_scaling
from limen.theory.effective.smoothness import check_smooth


@in_double
def derive(
    loss: Callable[[Any, Any], Any],
    sampler: Callable[..., Any],
    statistics: Callable[[Any], Any],
    step: float | Callable[[int], float],
    dimension: int,
    update: Callable[..., Any] | None = None,
    *,
    samples: int = 4096,
    lifts: int = 4,
    seed: int = 0,
    memory: int = 64,
    start: Callable[..., Any] | None = None,
) -> "EffectiveDynamics":
    r"""The effective dynamics of `statistics` under online SGD of `loss`, as an object to ask.

    Args:
        loss: `loss(x, y)`, one number, differentiable in the flat vector `x` almost everywhere (ReLU is fine).
        sampler: `sampler(key)` or `sampler(key, dimension)`, one fresh sample `y`: an array or any tree of arrays. The
            second form is needed by `scaling`.
        statistics: `statistics(x)`, a number or a vector of $k$ numbers, twice differentiable. For a diffusive phase
            rescale here, for instance $\sqrt Nm$.
        step: $\delta$ at this dimension, or a function of the dimension.
        dimension: length $N$ of `x`.
        update: rule in place of plain SGD, $x\leftarrow x-\delta\,$direction: `update(gradient)` gives the direction,
            `update(gradient, memory)` the direction and the new memory (zeros at first). `momentum`, `clipping`, `sign`
            and `preconditioner` make some.
        samples: gradients drawn for one value of the statistics, over all lifts.
        lifts: independent random points with that value.
        seed: the same seed gives the same numbers; samples are common to all values, so that estimates are as smooth
            in $u$ as the loss allows.
        memory: steps after which an update rule with memory has forgotten; not used by others.
        start: `start(key)` or `start(key, dimension)`, random points from which lifts begin, by default $N(0,I/N)$.

    All functions are JAX functions. A statistic that is not smooth, functions whose shapes do not fit, statistics that
    depend on one another: refused, a sentence each.
    """
    model = user_model(loss, sampler, statistics, step, dimension, update, start)
    for name, value, least in (("lifts", lifts, 1), ("memory", memory, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    sampling = Sampling(model, samples, lifts, seed, memory)
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < sampling.fewest_samples:
        raise InputError(f"samples must be at least {sampling.fewest_samples} for {lifts} lifts, got {samples!r}.")
    check_smooth(model, seed)
    singular = normalized_singular_values(model, model.random_points(seed, "rank", 1)[0])
    if not singular.min() > 1e-9 * singular.max():
        rank = int(np.sum(singular > 1e-9 * singular.max()))
        raise InputError(
            f"statistics must be independent of one another: their Jacobian has rank {rank}, not {len(singular)}, at a "
            f"random point."
        )
    if model.remembers:
        check_forgotten(model, memory, stream_key(seed, dimension, "memory"))
    return EffectiveDynamics(sampling, len(singular))


@dataclass(frozen=True, eq=False)
class EffectiveDynamics:
    """What `derive` found: drift, corrector, volatility, closability, scaling, flow and fixed points on demand.

    A value `u` of the statistics is a sequence of $k$ numbers; estimates unpack as `value, error`.
    """

    sampling: Sampling
    size: int

    @property
    def model(self) -> UserModel:
        """The functions this was derived from."""
        return self.sampling.model

    def population_drift(self, u: ArrayLike) -> Estimate:
        r"""$f=J\nabla\Phi$ (k,); statistics move by $-f$."""
        return pooled(self.moments(u).population_drift)

    def corrector(self, u: ArrayLike) -> Estimate:
        r"""$g_i=\frac\delta2\langle V,\nabla^2u_i\rangle$ (k,): what the noise of the samples adds to the drift."""
        return pooled(self.moments(u).corrector)

    def effective_drift(self, u: ArrayLike) -> Estimate:
        r"""$-f+g$ (k,)."""
        found = self.moments(u)
        return pooled(found.corrector - found.population_drift)

    def volatility(self, u: ArrayLike) -> Estimate:
        r"""$\Sigma=\delta JVJ^\top$ (k, k), not its root."""
        return pooled(self.moments(u).volatility)

    def closability(self, u: ArrayLike) -> float:
        r"""How much the effective drift at `u` depends on the point lifted: zero for statistics that close.

        Standard deviation over at least eight lifts, started from points of half to twice the usual size, beyond what
        sampling explains (zero if it explains all); relative to the largest entry of $f$ and $g$. Hidden directions
        that random points do not have cannot be seen.
        """
        return closing(self.sampling, self.check(u))

    def scaling(self, dimensions: Sequence[int], u: ArrayLike | None = None) -> Scaling:
        r"""Exponents in $N$ of $f$, $g/\delta$, $\Sigma/\delta$ and of the moments of localizability, and the verdict.

        All at one value `u` of the statistics, by default that of a random point at the smallest dimension."""
        return fit_scaling(self.model, dimensions, u, self.at_dimension)

    def flow(self, u0: ArrayLike, times: Any) -> Result:
        r"""The limit $\dot u=-f+g$ from `u0` at `times`, drift and corrector estimated on the way from fresh samples.

        `statistics` (time, statistic), `error` (time, statistic) its standard error over independent integrations, and
        `fluctuation` (time, statistic) the standard deviation that the volatility at this dimension gives single runs,
        from eight noisy integrations and so to a quarter of its size. The status says whether volatility matters (then
        see `diffusion`) and by how much the drift differs between lifts; statistics that do not close are refused.
        """
        return integrate_flow(self.sampling, self.check(u0, "u0"), times)

    def diffusion(self, u0: ArrayLike, times: Any, paths: int = 256) -> Result:
        r"""Paths of $du=(-f+g)dt+\sqrt\Sigma dB$ from `u0`: `statistics` (path, time, statistic).

        Drift and volatility are polynomials in $u$ fitted to estimates where the paths go; for up to four statistics.
        """
        return integrate_diffusion(self.sampling, self.check(u0, "u0"), times, paths)

    def fixed_points(self, guesses: ArrayLike) -> list[FixedPoint]:
        """Zeros of the effective drift near `guesses` (guess, k), each once, with the eigenvalues of its slope."""
        rows = np.asarray(guesses, dtype=float)
        rows = rows[None] if rows.ndim == 1 and self.size > 1 else rows.reshape(-1, 1) if rows.ndim < 2 else rows
        return find_fixed_points(self.effective_drift, [self.check(row, "guesses") for row in rows])

    def portrait(self, first: ArrayLike, second: ArrayLike) -> Result:
        """The effective drift of two statistics on the grid `first` by `second`; not a number where no point has
        these values."""
        if self.size != 2:
            raise InputError(f"a portrait takes two statistics, got {self.size}.")
        return portrait(self, first, second)

    @in_double
    def lift(self, u: ArrayLike, count: int = 8) -> NDArray[np.float64]:
        """Independent random points (count, N) whose statistics are `u`, for instance to start direct SGD from."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"count must be a whole number of at least 1, got {count!r}.")
        return np.asarray(self.sampling.points(self.check(u), np.ones(count)))

    def moments(self, u: ArrayLike) -> Moments:
        """All group estimates at `u`, axes (lift, group, ...); remembered, so that asking twice costs nothing."""
        return self.sampling.moments(self.check(u))

    @in_double
    def at_dimension(self, dimension: int) -> "EffectiveDynamics":
        """The same problem in another dimension; the functions must fit it."""
        model, plan = self.model, self.sampling
        moved = user_model(
            model.loss, model.sampler, model.statistics, model.step, dimension, model.update, model.start
        )
        return EffectiveDynamics(replace(plan, model=moved), self.size)

    def check(self, u: ArrayLike, name: str = "u") -> NDArray[np.float64]:
        """`u` as a vector of k finite numbers."""
        try:
            value = np.atleast_1d(np.asarray(u, dtype=float))
        except (TypeError, ValueError):
            raise InputError(f"{name} must be {self.size} numbers, got {u!r}.") from None
        if value.shape != (self.size,) or not np.isfinite(value).all():
            raise InputError(f"{name} must be {self.size} finite numbers, one per statistic, got {u!r}.")
        return value
