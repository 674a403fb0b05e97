r"""The velocity of tokens under attention, before and after projection on the tangent spaces."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from limen.simulation.attention.matrices import Head

LARGEST_EXPONENT = 600.0
FeedForward = tuple[np.ndarray, np.ndarray, np.ndarray, Callable[[Any], Any]]


def tangent(tokens: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    r"""$P^\perp_{x_i}v_i=v_i-\langle x_i,v_i\rangle x_i$, row by row."""
    return velocity - np.einsum("...nd,...nd->...n", tokens, velocity)[..., None] * tokens


def attention_velocity(
    tokens: np.ndarray, beta: float, heads: Sequence[Head], normalized: bool, weights: np.ndarray
) -> np.ndarray:
    r"""$\sum_h\sum_jA^{(h)}_{ij}V_hx_j$, shape (n, d), for tokens of positive `weights` (n,).

    Normalised: $A_{ij}=w_je^{\beta x_i^\top Bx_j}/\sum_kw_ke^{\beta x_i^\top Bx_k}$, largest exponent subtracted. Not
    normalised: $A_{ij}=w_je^{\beta x_i^\top Bx_j}/\sum w$, without the token itself where $V=I$, whose pull on itself
    the projection removes; exponents end at 600, a rate at which tokens have met in no time.
    $O(n^2d)$ for identity matrices, plus $O(nd^2)$ for each other one.
    """
    total = np.zeros_like(tokens)
    for query_key, value in heads:
        exponents = (beta * tokens if query_key is None else tokens @ (beta * query_key)) @ tokens.T
        if normalized:
            exponents -= exponents.max(axis=1, keepdims=True)
            attention = np.exp(exponents, out=exponents) * weights
            attention /= attention.sum(axis=1, keepdims=True)
        else:
            attention = np.exp(np.minimum(exponents, LARGEST_EXPONENT)) * (weights / weights.sum())
            if value is None:
                np.fill_diagonal(attention, 0.0)
        mixed = attention @ tokens
        total += mixed if value is None else mixed @ value.T
    return total


def feed_forward_velocity(tokens: np.ndarray, part: FeedForward) -> np.ndarray:
    r"""$w\,\sigma(ax_i+b)$, shape (n, d)."""
    outer, inner, bias, activation = part
    return np.asarray(activation(tokens @ inner.T + bias)) @ outer.T
