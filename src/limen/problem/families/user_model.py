r"""A training problem given as the user's own JAX functions, checked before anything is computed."""

import inspect
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from limen.problem.spec import InputError


@dataclass(frozen=True)
class UserModel:
    r"""Online SGD $x\leftarrow x-\delta\,\text{update}(\nabla_xL(x,y))$ of a loss in dimension `dimension`.

    Made by `user_model`; every function takes and gives JAX arrays, `x` a flat vector. The step does not enter
    equality: compiled code takes it as an argument and serves all steps.
    """

    loss: Callable[[Any, Any], Any]
    sampler: Callable[..., Any]
    statistics: Callable[[Any], Any]
    step: float | Callable[[int], float] = field(compare=False)
    dimension: int
    update: Callable[..., Any] | None
    start: Callable[..., Any] | None

    @property
    def delta(self) -> float:
        """The step at this dimension."""
        return float(self.step(self.dimension)) if callable(self.step) else float(self.step)

    @property
    def remembers(self) -> bool:
        """Whether the update rule carries a memory."""
        return self.update is not None and _arguments(self.update) == 2

    def sample(self, key: Any) -> Any:
        """One data point; the sampler may also ask for the dimension."""
        return self.sampler(key, self.dimension) if _arguments(self.sampler) == 2 else self.sampler(key)

    def measure(self, x: Any) -> Any:
        """The statistics as a flat vector."""
        import jax.numpy as jnp

        return jnp.atleast_1d(jnp.asarray(self.statistics(x), dtype=float))

    def gradient(self, x: Any, key: Any) -> Any:
        """Gradient of the loss at one fresh data point."""
        import jax

        return jax.grad(self.loss)(x, self.sample(key))

    def direction(self, gradient: Any) -> Any:
        """What a rule without memory makes of a gradient."""
        return gradient if self.update is None else self.update(gradient)

    def remembered_direction(self, gradient: Any, memory: Any) -> tuple[Any, Any]:
        """Direction and new memory; a rule without memory leaves it as it is."""
        if self.update is not None and self.remembers:
            return self.update(gradient, memory)
        return self.direction(gradient), memory

    def random_points(self, seed: int, stream: str, count: int) -> np.ndarray:
        """Starting points (count, N) of a seed and a named stream, outside compiled code."""
        import jax

        generator = np.random.default_rng([seed, self.dimension, *stream.encode()])
        if self.start is None:
            return generator.standard_normal((count, self.dimension)) / np.sqrt(self.dimension)
        keys = jax.random.wrap_key_data(jax.numpy.asarray(generator.integers(2**32, size=(count, 2), dtype=np.uint32)))
        return np.asarray(jax.vmap(self.random_point)(keys))

    def random_point(self, key: Any) -> Any:
        r"""A starting point: the user's, or $N(0,I/N)$."""
        import jax
        import jax.numpy as jnp

        if self.start is None:
            return jax.random.normal(key, (self.dimension,)) / jnp.sqrt(1.0 * self.dimension)
        point = self.start(key, self.dimension) if _arguments(self.start) == 2 else self.start(key)
        return jnp.asarray(point, dtype=float)


def user_model(
    loss: Callable[[Any, Any], Any],
    sampler: Callable[..., Any],
    statistics: Callable[[Any], Any],
    step: float | Callable[[int], float],
    dimension: int,
    update: Callable[..., Any] | None = None,
    start: Callable[..., Any] | None = None,
) -> UserModel:
    """Checks types, shapes and signs, one sentence each; call it in double precision."""
    functions = {"loss": loss, "sampler": sampler, "statistics": statistics, "update": update, "start": start}
    for name, function in functions.items():
        if function is None and name in ("update", "start"):
            continue
        if not callable(function):
            raise InputError(f"{name} must be a JAX function, got {type(function).__name__}.")
    for name, allowed in (("loss", (2,)), ("sampler", (1, 2)), ("statistics", (1,)), ("update", (1, 2))):
        function = functions[name]
        if function is not None and _arguments(function) not in allowed:
            wanted = " or ".join(str(count) for count in allowed)
            raise InputError(f"{name} must take {wanted} arguments, got a function of {_arguments(function)}.")
    if isinstance(dimension, bool) or not isinstance(dimension, numbers.Integral) or dimension < 2:
        raise InputError(f"dimension must be a whole number of at least 2, got {dimension!r}.")
    loss, sampler, statistics = (_hashable(function) for function in (loss, sampler, statistics))
    update, start = (None if function is None else _hashable(function) for function in (update, start))
    model = UserModel(loss, sampler, statistics, step, int(dimension), update, start)
    try:
        delta = model.delta
    except (TypeError, ValueError):
        raise InputError(f"step must be a positive number or a function of the dimension, got {step!r}.") from None
    if not (np.isfinite(delta) and delta > 0.0):
        raise InputError(f"step must be positive, got {delta} at dimension {dimension}.")
    _check_shapes(model)
    return model


def _check_shapes(model: UserModel) -> None:
    import jax
    import jax.numpy as jnp

    size = model.dimension
    x, key = jax.ShapeDtypeStruct((size,), jnp.zeros(()).dtype), jax.eval_shape(lambda: jax.random.key(0))
    sample = _traced("sampler", "a random key", lambda: jax.eval_shape(model.sample, key))
    shapes = ", ".join(str(tuple(leaf.shape)) for leaf in jax.tree.leaves(sample)) or "none"
    where = f"x of shape ({size},) and a sample of shape {shapes}"
    value = _traced("loss", where, lambda: jax.eval_shape(model.loss, x, sample))
    if getattr(value, "shape", None) != ():
        shape = getattr(value, "shape", None)
        raise InputError(f"loss must be one number, got shape {shape} for {where}: sampler must give one sample.")
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise InputError(f"loss must be a real number, got {value.dtype}.")
    found = _traced("statistics", f"x of shape ({size},)", lambda: jax.eval_shape(model.measure, x))
    if found.ndim != 1 or not 1 <= found.shape[0] <= size:
        raise InputError(f"statistics must be a vector of 1 to {size} numbers, got shape {tuple(found.shape)}.")
    point = _traced("start", "a random key", lambda: jax.eval_shape(model.random_point, key))
    if point.shape != (size,):
        raise InputError(f"start must give a vector of {size} numbers, got shape {tuple(point.shape)}.")
    moved = _traced("update", f"a gradient of shape ({size},)", lambda: _direction_shape(model, x))
    if moved.shape != (size,):
        raise InputError(f"update must give a direction of {size} numbers, got shape {tuple(moved.shape)}.")


def _direction_shape(model: UserModel, x: Any) -> Any:
    import jax

    return jax.eval_shape(model.remembered_direction, x, x)[0]


def _traced(name: str, on: str, trace: Callable[[], Any]) -> Any:
    import jax

    try:
        return trace()
    except (TypeError, ValueError, IndexError, AttributeError, jax.errors.JAXTypeError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        raise InputError(f"{name} must be a JAX function that accepts {on}: {reason}.") from None


def _hashable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Callable objects that hold arrays often have no hash; what wraps them has."""
    try:
        hash(function)
    except TypeError:
        return partial(function)
    return function


def _arguments(function: Callable[..., Any]) -> int:
    """Positional arguments without default; functions that hide their signature count as one."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(1 for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty)
