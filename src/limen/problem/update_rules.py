r"""Update rules of SGD: what takes the place of the gradient in $x\leftarrow x-\delta\,\text{direction}$.

A rule is a JAX function of the gradient, `update(gradient)` giving the direction, or of the gradient and a memory,
`update(gradient, memory)` giving the direction and the new memory; the memory starts as zeros of the shape of $x$.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from limen.problem.spec import InputError

Rule = Callable[..., Any]


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
