r"""Every update rule: what is made of a gradient, entry by entry or not.

**Directions** take the place of the gradient in $x\leftarrow x-\delta\,\text{direction}$. A rule is a JAX function of
the gradient, `rule(gradient)` giving the direction, or of the gradient and a memory, `rule(gradient, memory)` giving
the direction and the new memory; the memory starts as zeros of the shape of $x$.

**Moves** are the steps of the algorithms on a fixed sample, `limen.problem.algorithms`: an entry, its gradient and its
memories before the step, the entry and its memories after it. Every move treats entries alone, whatever their shape.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from limen.problem.own_functions import check_traced, first_line
from limen.problem.spec import InputError

Rule = Callable[..., Any]
# Below this a second moment counts as zero.
SMALLEST_SQUARE = 1e-30


def momentum(beta: float) -> Rule:
    r"""Heavy-ball momentum: memory $v\leftarrow\beta v+g$, direction $v$; $0\le\beta<1$.

    As the step goes to zero it acts as plain SGD with step $\delta/(1-\beta)$.
    """
    if not 0.0 <= beta < 1.0:
        raise InputError(f"beta must lie in [0, 1), got {beta}.")

    def rule(gradient: Any, memory: Any) -> tuple[Any, Any]:
        moved = beta * memory + gradient
        return moved, moved

    return rule


def clipping(bound: float) -> Rule:
    r"""The gradient scaled down to norm `bound` where it is longer: $g\min(1,\text{bound}/\|g\|)$."""
    if not bound > 0.0:
        raise InputError(f"bound must be positive, got {bound}.")

    def rule(gradient: Any) -> Any:
        import jax.numpy as jnp

        return gradient * jnp.minimum(1.0, bound / jnp.sqrt(jnp.maximum(jnp.sum(gradient**2), 1e-300)))

    return rule


def sign() -> Rule:
    """Sign SGD: the sign of every entry of the gradient."""

    def rule(gradient: Any) -> Any:
        import jax.numpy as jnp

        return jnp.sign(gradient)

    return rule


def preconditioner(matrix: Any) -> Rule:
    """A fixed preconditioner: a matrix, or the vector of a diagonal one, times the gradient."""
    values = np.asarray(matrix, dtype=float)
    if values.ndim not in (1, 2) or not np.isfinite(values).all() or values.shape[0] != values.shape[-1]:
        raise InputError(
            f"matrix must be a finite square matrix or the vector of a diagonal, got shape {values.shape}."
        )

    def rule(gradient: Any) -> Any:
        return values * gradient if values.ndim == 1 else values @ gradient

    return rule


class Move(NamedTuple):
    r"""One step of an algorithm, entry by entry.

    `apply(numbers, step, shrink, count, entry, gradient, memory)` gives the entry and its memories after the step:
    `step` is $\eta$, `shrink` $1-\eta\lambda$, `count` the steps done before, `numbers` the rule's own constants,
    `memory` of shape (`memories`, *shape of the entry), zero at first. `apply` is the same object for equal rules, so
    that jit caches on it and all numbers are traced. `linear`: whether it is linear in entry, gradient and memory.
    """

    memories: int
    apply: Callable[..., tuple[Any, Any]]
    linear: bool


def plain_step(numbers: Any, step: Any, shrink: Any, count: Any, entry: Any, gradient: Any, memory: Any) -> Any:
    r"""$\Theta\leftarrow(1-\eta\lambda)\Theta-\eta G$."""
    return shrink * entry - step * gradient, memory


def heavy_ball(numbers: Any, step: Any, shrink: Any, count: Any, entry: Any, gradient: Any, memory: Any) -> Any:
    r"""$u\leftarrow\beta u-\eta(G+\lambda\Theta)$, $\Theta\leftarrow\Theta+u$; `numbers` is $(\beta)$."""
    velocity = numbers[0] * memory[0] + (shrink - 1.0) * entry - step * gradient
    return entry + velocity, velocity[None]


def nesterov(numbers: Any, step: Any, shrink: Any, count: Any, entry: Any, gradient: Any, memory: Any) -> Any:
    r"""$u\leftarrow\beta u-\eta(G+\lambda\Theta)$, $\Theta\leftarrow\Theta+\beta u-\eta(G+\lambda\Theta)$."""
    push = (shrink - 1.0) * entry - step * gradient
    velocity = numbers[0] * memory[0] + push
    return entry + numbers[0] * velocity + push, velocity[None]


def adam(numbers: Any, step: Any, shrink: Any, count: Any, entry: Any, gradient: Any, memory: Any) -> Any:
    r"""Adam with bias correction and decoupled decay; `numbers` is $(\beta_1,\beta_2,\epsilon)$."""
    import jax.numpy as jnp

    beta1, beta2, epsilon = numbers[0], numbers[1], numbers[2]
    mean = beta1 * memory[0] + (1.0 - beta1) * gradient
    square = beta2 * memory[1] + (1.0 - beta2) * gradient**2
    # At the first step the root is |G|, which has no derivative at zero.
    root = jnp.sqrt(jnp.maximum(square / (1.0 - beta2 ** (count + 1)), SMALLEST_SQUARE))
    direction = mean / (1.0 - beta1 ** (count + 1)) / (root + epsilon)
    return shrink * entry - step * direction, jnp.stack([mean, square])


def soft_sign(numbers: Any, step: Any, shrink: Any, count: Any, entry: Any, gradient: Any, memory: Any) -> Any:
    r"""$\Theta\leftarrow(1-\eta\lambda)\Theta-\eta\,G/(|G|+\epsilon)$; `numbers` is $(\epsilon)$."""
    import jax.numpy as jnp

    return shrink * entry - step * gradient / (jnp.abs(gradient) + numbers[0]), memory


@lru_cache(maxsize=64)
def own_move(rule: Rule, memories: int) -> Move:
    r"""$\Theta\leftarrow(1-\eta\lambda)\Theta-\eta\,\text{direction}$ with a rule of one's own."""

    def apply(numbers: Any, step: Any, shrink: Any, count: Any, entry: Any, gradient: Any, memory: Any) -> Any:
        if memories == 0:
            return shrink * entry - step * rule(gradient), memory
        direction, kept = rule(gradient, memory[0] if memories == 1 else memory)
        return shrink * entry - step * direction, kept[None] if memories == 1 else kept

    return Move(memories, apply, linear=False)


def check_entrywise(rule: Rule, memories: int) -> None:
    """Refuses a rule that is not a function of gradient and memory, changes shapes, or lets entries see each other."""
    import jax.numpy as jnp

    if not callable(rule):
        raise InputError(f"rule must be a JAX function, got {type(rule).__name__}.")
    generator = np.random.default_rng(0)
    memory = jnp.asarray(generator.uniform(0.1, 1.0, (memories, 6)), jnp.float32)
    gradient = jnp.asarray(generator.standard_normal(6), jnp.float32)
    apply = own_move(rule, memories).apply

    def moved(gradient: Any, memory: Any) -> tuple[Any, Any]:
        return apply((), 1.0, 0.0, 0, jnp.zeros_like(gradient), gradient, memory)

    try:
        together = moved(gradient, memory)
        alone = [moved(gradient[i : i + 1], memory[:, i : i + 1]) for i in range(6)]
    except Exception as error:
        raise InputError(
            f"rule must take the gradient, and its memory if memories > 0 (got {memories}): {first_line(error)}."
        ) from None
    check_traced(moved, (gradient, memory), "rule")
    if together[0].shape != gradient.shape or together[1].shape != memory.shape:
        raise InputError(
            f"rule must keep shapes, got {together[0].shape} from gradients of shape {gradient.shape} and "
            f"{together[1].shape} from memories of shape {memory.shape}."
        )
    for part, parts in enumerate(zip(*alone, strict=True)):
        if not np.allclose(together[part], jnp.concatenate(parts, axis=-1), rtol=1e-4, atol=1e-6, equal_nan=True):
            raise InputError(
                "rule must treat every entry alone, and this one gives other values when entries stand together."
            )
