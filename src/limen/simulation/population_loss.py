r"""Test loss of a network from its overlaps: exact in law for Gaussian inputs, at a cost independent of d.

The fields $(\lambda_1..\lambda_m,z_1..z_k)$ of a fresh input are Gaussian with covariance
$\begin{pmatrix}Q&M\\M^\top&I\end{pmatrix}$. For square loss only $E h^2$, $E[h\,\sigma(\lambda_j)]$ and
$E[\sigma(\lambda_i)\sigma(\lambda_j)]$ are needed.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from limen.gaussian.sobol import scrambled_points
from limen.precision import in_double
from limen.problem import Target, TwoLayer
from limen.simulation.conditional_means import joint_means, pieces, trapezoid
from limen.simulation.label_means import label_means
from limen.simulation.mehler_means import Series, hermite_series, products

LOG2_POINTS, SETS = 14, 4
# Pairs of neurons times times above which all neurons are averaged over the same points together.
MOST_PAIRS = 6000
# Part of a mean square up to which the end of Mehler's series may be left out.
SERIES_REST = 1e-8
LATENT_STEPS = {2: 0.25, 3: 0.45}
NOISE_VALUES = 1 << 17


class Losses(NamedTuple):
    """Test loss and excess risk at each time, and the largest estimated error of a loss where points were drawn."""

    test: np.ndarray
    excess: np.ndarray
    error: float


class LatentPoints(NamedTuple):
    """Sets of latent coordinates (sets, N, k), their weights (sets, N), the mean label there (sets, N), and the mean
    square label of each set."""

    points: np.ndarray
    weights: np.ndarray
    labels: np.ndarray
    power: np.ndarray


@in_double
def population_losses(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray | None = None
) -> Losses:
    r"""Test loss $E\,\ell(y,f)$ with label noise and excess risk without the additive noise, on fresh Gaussian inputs.

    Shapes: `overlap` (time, m, k), `gram` (time, m, m), `second_layer` (time, m), and `bias` (time, m) where it was
    trained. Square loss: $10^{-7}$ of
    $E h^2+E f^2$ for one latent coordinate, and for two where the link is smooth or bends along the axes; some
    $10^{-5}$ otherwise, by sets of scrambled Sobol points. Times at which training has diverged give infinities or NaN.
    """
    finite = np.isfinite(gram).all(axis=(1, 2)) & np.isfinite(overlap).all(axis=(1, 2))
    if bias is None:
        bias = np.repeat([problem.network.per_neuron("bias")], len(gram), axis=0)
    finite &= np.isfinite(second_layer).all(axis=1) & np.isfinite(bias).all(axis=1)
    test, excess, error = np.full(len(gram), np.nan), np.full(len(gram), np.nan), 0.0
    if finite.any():
        route = _square if problem.loss.name == "square" else _general
        parts = (part[finite] for part in (overlap, gram, second_layer, bias))
        test[finite], excess[finite], error = route(problem, *parts)
    return Losses(test, excess, error)


def run_losses(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray | None = None
) -> Losses:
    """`population_losses` of many runs, (seed, time, ...): as many together as one run may have pairs."""
    seeds, times, m = second_layer.shape
    together = max(1, MOST_PAIRS // (times * m * (m + 1) // 2))
    found = []
    for begin in range(0, seeds, together):
        group = slice(begin, begin + together)
        first, second, third = (np.concatenate(part[group]) for part in (overlap, gram, second_layer))
        biases = None if bias is None else np.concatenate(bias[group])
        found.append(population_losses(problem, first, second, third, biases))
    test, excess = (np.concatenate([getattr(one, name) for one in found]) for name in ("test", "excess"))
    return Losses(test.reshape(seeds, times), excess.reshape(seeds, times), max(one.error for one in found))


def _square(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray
) -> Losses:
    target, network = problem.target, problem.network
    (times, m), activation = second_layer.shape, network.activation
    size = np.sqrt(np.einsum("tjj->tj", gram))
    power, cross, latent_error = _with_labels(problem, overlap, size, bias)
    first, second = np.triu_indices(m)
    weights = np.where(first == second, 1.0, 2.0) * second_layer[:, first] * second_layer[:, second] / m**2
    if times * first.size <= MOST_PAIRS:
        kinks = activation.breakpoints
        series = hermite_series(activation.function, kinks, size.ravel(), bias.ravel())
        correlation = gram[:, first, second] / np.maximum(size[:, first] * size[:, second], 1e-300)
        neurons = np.arange(times * m).reshape(times, m)
        fields = Pairs(neurons[:, first].ravel(), neurons[:, second].ravel(), np.clip(correlation, -1.0, 1.0).ravel())
        pairs = _paired(_both(activation.function), (kinks, kinks), (series, series), fields, (size, bias) * 2)
        pairs = np.where(first == second, series.power[neurons[:, first]], pairs.reshape(times, -1))
        squares, error = np.sum(weights * pairs, axis=1), latent_error
    else:
        parts = (jnp.asarray(_root(gram)), jnp.asarray(second_layer), jnp.asarray(bias))
        sets = np.asarray(_output_squares(activation.function, jnp.asarray(_sets(m)), parts))
        squares, error = sets.mean(axis=1), latent_error + _error(sets.T)
    excess = 0.5 * power - np.einsum("tj,tj->t", second_layer, cross) / m + 0.5 * squares
    excess = np.maximum(excess, 0.0)
    return Losses(excess + 0.5 * target.noise, excess, error)


class Pairs(NamedTuple):
    """Pairs of fields: the item of the first, of the second, and their correlation, each (pairs,)."""

    first: np.ndarray
    second: np.ndarray
    correlation: np.ndarray


def _paired(
    function: Callable[..., Any],
    kinks: tuple[Any, Any],
    series: tuple[Series, Series],
    pairs: Pairs,
    fields: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Averages of products by Mehler's series, and in the plane of the two fields where it converges too slowly.

    `fields`: scale and shift of the items of the first, and of the second.
    """
    found, rest = products(*series, (pairs.first, pairs.second), pairs.correlation)
    # A field's own square is its mean square; both sides know it.
    slow = (rest > SERIES_REST) & ((pairs.first != pairs.second) | (series[0] is not series[1]))
    if slow.any():
        first, second, correlation = (part[slow] for part in pairs)
        scale1, shift1, scale2, shift2 = (part.ravel() for part in fields)
        items = (scale1[first], shift1[first], scale2[second], shift2[second], correlation)
        found[slow] = joint_means(function, kinks, items)
    return found


def _with_labels(
    problem: TwoLayer, overlap: np.ndarray, size: np.ndarray, bias: np.ndarray
) -> tuple[float, np.ndarray, float]:
    r"""$E h^2$, $E[h\,\sigma(\lambda_j)]$ (time, m), and the error of both together."""
    target, activation = problem.target, problem.network.activation
    times, m, k = overlap.shape
    if k == 1 and not target.uses_inner_noise:
        correlation = np.clip(overlap[:, :, 0] / np.maximum(size, 1e-300), -1.0, 1.0).ravel()
        kinks = (target.breakpoints, activation.breakpoints)
        one, none = np.ones(1), np.zeros(1)
        link = _link_series(target)
        series = hermite_series(activation.function, kinks[1], size.ravel(), bias.ravel())
        fields = Pairs(np.zeros(times * m, dtype=int), np.arange(times * m), correlation)
        function = _labelled(target.function, activation.function)
        cross = _paired(function, kinks, (link, series), fields, (one, none, size, bias)).reshape(times, m)
        nodes, weights = _line(target.breakpoints)
        labels = np.asarray(target.function(nodes[:, None], np.zeros(len(nodes))), dtype=float)
        return float(weights @ labels**2), cross, 0.0
    latent = latent_points(target)
    power = latent.power
    rest = np.sqrt(np.maximum(size**2 - np.sum(overlap**2, axis=2), 0.0))
    items = (overlap.reshape(-1, k), bias.ravel(), rest.ravel())
    weighted = latent.weights * latent.labels
    cross = label_means(activation.function, activation.breakpoints, latent.points[:, :, :k], weighted, items)
    cross = cross.reshape(times, m, -1)
    error = 0.5 * _error(power[:, None]) + _error(np.moveaxis(cross, 2, 0))
    return float(power.mean()), cross.mean(axis=2), error


@lru_cache(maxsize=16)
def latent_points(target: Target) -> LatentPoints:
    """Points for two and more latent coordinates; the noise inside a formula is one of them."""
    size = target.latents + int(target.uses_inner_noise)
    bends = target.axis_breakpoints
    if target.latents == 1:
        # A bend that depends on the noise is smoothed by it.
        return _averaged_over_noise(target, () if bends is None else bends[0])
    if size in LATENT_STEPS and bends is not None and not any(bends):
        nodes, weights = trapezoid(LATENT_STEPS[size], 8.1)
        axes = [(nodes, weights)] * size
    elif size == 2 and bends is not None:
        axes = [_line(points) for points in bends]
    else:
        points = _sets(size)
        labels = _labels(target, points)
        return LatentPoints(
            points, np.full(points.shape[:2], 1.0 / points.shape[1]), labels, np.mean(labels**2, axis=1)
        )
    grid = np.stack([part.ravel() for part in np.meshgrid(*(axis[0] for axis in axes), indexing="ij")], axis=-1)
    product = np.prod(np.meshgrid(*(axis[1] for axis in axes), indexing="ij"), axis=0).ravel()
    kept = product > 1e-14
    grid, product = grid[kept][None], product[kept][None]
    labels = _labels(target, grid)
    return LatentPoints(grid, product, labels, np.sum(product * labels**2, axis=1))


def _averaged_over_noise(target: Target, bends: tuple[float, ...]) -> LatentPoints:
    """One latent coordinate and noise inside the formula: labels averaged over the noise at equally likely values."""
    nodes, weights = _line(bends)
    noise = scipy.special.ndtri((np.arange(NOISE_VALUES) + 0.5) / NOISE_VALUES)
    mean, square = np.zeros(nodes.size), np.zeros(nodes.size)
    for i, node in enumerate(nodes):
        labels = _labels(target, np.stack([np.full(NOISE_VALUES, node), noise], axis=-1))
        mean[i], square[i] = labels.mean(), np.mean(labels**2)
    return LatentPoints(nodes[None, :, None], weights[None], mean[None], np.array([weights @ square]))


def _line(bends: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """A rule for one coordinate: pieces between the bends, or the trapezoid rule where there are none."""
    rule = pieces(jnp.asarray(bends, dtype=float)) if bends else trapezoid(0.08)
    return np.asarray(rule[0]), np.asarray(rule[1])


def _labels(target: Target, points: np.ndarray) -> np.ndarray:
    k = target.latents
    inner = points[..., k] if points.shape[-1] > k else np.zeros(points.shape[:-1])
    return np.asarray(target.function(points[..., :k], inner), dtype=float)


def _general(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray
) -> Losses:
    target, network = problem.target, problem.network
    functions = (network.activation.function, target.function, problem.loss.function)
    if network.width == target.latents == 1 and not target.uses_inner_noise:
        size, ones = np.sqrt(gram[:, 0, 0]), np.ones(len(gram))
        correlation = np.clip(overlap[:, 0, 0] / np.maximum(size, 1e-300), -1.0, 1.0)
        # The field is the outer variable: activations cost more than links and are then needed along a line only.
        items = (size, bias[:, 0], ones, 0.0 * ones, correlation, second_layer[:, 0])
        kinks = (network.activation.breakpoints, target.breakpoints)
        found = joint_means(_losses_of(functions, float(target.noise)), kinks, items)
        return Losses(found[:, 0], found[:, -1], 0.0)
    noisy = target.noise > 0.0
    points = _sets(network.width + target.latents + int(target.uses_inner_noise) + int(noisy))
    parts = tuple(
        jnp.asarray(part) for part in (overlap, _root(gram - overlap @ np.swapaxes(overlap, 1, 2)), second_layer, bias)
    )
    sets = np.asarray(
        _sampled_losses(functions, target.uses_inner_noise, jnp.asarray(points), jnp.asarray(target.noise), parts)
    )
    test, excess = sets.mean(axis=2).T
    return Losses(test, excess, _error(sets.transpose(2, 0, 1)))


def _root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None]


def _error(sets: np.ndarray) -> float:
    """Largest standard error of a mean over the first axis."""
    return float(np.max(sets.std(axis=0, ddof=1))) / len(sets) ** 0.5 if len(sets) > 1 else 0.0


@lru_cache(maxsize=8)
def _sets(dimension: int) -> np.ndarray:
    """Sets of Sobol normals with all signs flipped together and exact second moments, (sets, points, dimension)."""
    found = []
    for number in range(SETS):
        uniform = scrambled_points(1 << LOG2_POINTS, dimension, np.random.default_rng(20_240_521 + number))
        half = scipy.special.ndtri(np.clip(uniform, 2.0**-33, 1.0 - 2.0**-33))
        points = np.concatenate([half, -half])
        found.append(points @ np.linalg.inv(np.linalg.cholesky(points.T @ points / len(points))).T)
    return np.stack(found)


@lru_cache(maxsize=64)
def _both(activation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda u, v: activation(u) * activation(v)


@lru_cache(maxsize=64)
def _link_series(target: Target) -> Series:
    function = target.function
    return hermite_series(
        lambda z: function(z[..., None], jnp.zeros_like(z)), target.breakpoints, np.ones(1), np.zeros(1)
    )


@lru_cache(maxsize=64)
def _labelled(link: Callable[..., Any], activation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda z, v: link(z[..., None], jnp.zeros_like(z)) * activation(v)


@lru_cache(maxsize=64)
def _losses_of(functions: tuple[Callable[..., Any], ...], noise: float) -> Callable[..., Any]:
    activation, link, loss = functions
    nodes, weights = trapezoid(0.45, 8.1)

    def both(v: jax.Array, z: jax.Array, second: jax.Array) -> jax.Array:
        clean, output = link(z[..., None], jnp.zeros_like(z)), second * activation(v)
        if noise == 0.0:
            return loss(clean, output)[None]
        shifts = zip((noise**0.5 * nodes).tolist(), weights.tolist(), strict=True)
        return jnp.stack([sum(weight * loss(clean + shift, output) for shift, weight in shifts), loss(clean, output)])

    return both


@partial(jax.jit, static_argnums=0)
def _output_squares(activation: Any, points: jax.Array, parts: tuple[jax.Array, ...]) -> jax.Array:
    def at_time(part: tuple[jax.Array, ...]) -> jax.Array:
        root, second, bias = part
        return jnp.mean((activation(points @ root.T + bias) @ second / len(bias)) ** 2, axis=-1)

    return jax.lax.map(at_time, parts)


@partial(jax.jit, static_argnums=(0, 1))
def _sampled_losses(functions: Any, inner_noise: bool, points: jax.Array, noise: jax.Array, parts: Any) -> jax.Array:
    activation, link, loss = functions
    m, k = parts[0].shape[1:]
    z, own = points[..., :k], points[..., k : k + m]
    clean = link(z, points[..., k + m] if inner_noise else jnp.zeros(points.shape[:-1]))
    noisy = clean + jnp.sqrt(noise) * points[..., -1]

    def at_time(part: tuple[jax.Array, ...]) -> jax.Array:
        overlap, root, second, bias = part
        output = activation(z @ overlap.T + own @ root.T + bias) @ second / m
        return jnp.stack([jnp.mean(loss(noisy, output), axis=-1), jnp.mean(loss(clean, output), axis=-1)])

    return jax.lax.map(at_time, parts)
