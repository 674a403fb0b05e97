r"""Discrete layers: $x_i\leftarrow N\big(x_i+\eta\sum_jA_{ij}Vx_j\big)$, what a post-norm transformer does."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from limen.problem import InputError
from limen.simulation.attention.field import attention_velocity, tangent
from limen.simulation.attention.matrices import at_depth, checked_head
from limen.simulation.attention.particles import checked_tokens


def layer_path(
    X0: Any,
    beta: float,
    layers: int,
    eta: float = 1.0,
    projected: bool = False,
    heads: Sequence[tuple[Any, Any]] = ((None, None),),
) -> np.ndarray:
    r"""Tokens after 0..`layers` layers, shape (layers + 1, n, d).

    $\eta=1$ is the usual residual connection; as $\eta\to0$ with $t=\eta\cdot$layer the path is the flow, first order
    in $\eta$. `projected` takes the tangent part of the update before normalising. Matrices with a leading axis vary
    with depth.
    """
    if int(layers) != layers or layers < 0:
        raise InputError(f"layers must be a whole number, not negative, got {layers!r}.")
    if not eta > 0.0:
        raise InputError(f"eta must be positive, got {eta}.")
    tokens = checked_tokens(X0)
    checked = [checked_head(*pair, tokens.shape[1]) for pair in heads]
    weights, path = np.ones(len(tokens)), [tokens]
    for layer in range(int(layers)):
        update = attention_velocity(tokens, beta, at_depth(checked, layer / layers), True, weights)
        tokens = tokens + eta * (tangent(tokens, update) if projected else update)
        tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
        path.append(tokens)
    return np.stack(path)
