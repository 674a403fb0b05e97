r"""Test loss and excess risk of a network on fresh inputs, with the error of the integrals.

Fields of a fresh input are Gaussian, of covariance `gram` $Q$ among themselves and `overlap` $M$ with the latent
coordinates. For square loss
$$E\tfrac12(h-f)^2=\tfrac12E h^2-\frac1m\sum_ja_jE[h\,\sigma_j]+\frac1{2m^2}\sum_{ij}a_ia_jE[\sigma_i\sigma_j],$$
which needs two fields at a time, whatever the width.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.covariance import covariance_dual
from limen.gaussian.functions import as_function
from limen.gaussian.quadrature import gaussian_rule
from limen.gaussian.sobol import sobol_normals
from limen.precision import in_double
from limen.problem import Activation, Target, TwoLayer
from limen.problem.spec import InputError
from limen.theory.fresh_inputs.field_pairs import Fields, PairMean, pair_means
from limen.theory.fresh_inputs.hermite_series import FARTHEST, mean_square, products_with_link
from limen.theory.fresh_inputs.latent_rule import LatentRule, coarse_rule, latent_rule, whitened
from limen.theory.fresh_inputs.smoothed_activation import smoothed_means

# Pairs of neurons times times above which the pairs are not integrated one by one but averaged over frozen points.
MOST_PAIRS = 6000
# Hermite series whose tail is below this part of the sum are taken; where the alternative is frozen points, this part.
SERIES_TAIL, LARGEST_TAIL = 1e-9, 1e-7
# The part of a field's variance that the latent coordinates have, up to which its mean is smooth in them.
SMOOTH_SHARE = 0.7
MOST_KINKS = 24
SETS, LOG2_POINTS = 4, 14
NOISE_REACH, NOISE_STEP = 8.0, 0.4
# Losses bend along curves that no panel follows; where their slope jumps there, a digit more takes ten times as long.
BENT_ACCURACY, KINKED_ACCURACY = 1e-6, 1e-5
SMALLEST = 1e-300


class PopulationLosses(NamedTuple):
    """Test loss (label noise included) and excess risk (additive noise left out) at each time, and their errors."""

    test: np.ndarray
    excess: np.ndarray
    test_error: np.ndarray
    excess_error: np.ndarray


class Shape(NamedTuple):
    """Kinks and jumps of a function of one variable, and how far it must be followed."""

    kinks: tuple[float, ...]
    reach: float


@in_double
def population_losses(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray | None = None
) -> PopulationLosses:
    r"""$E\,\ell(y,f)$ with label noise, and without additive noise: `overlap` (time, m, k), `gram` (time, m, m),
    `second_layer` (time, m), and `bias` (time, m) where it is not that of the network.

    Square loss: $10^{-8}$ of $E h^2+E f^2$ for up to two latent coordinates (noise inside a formula counts as one),
    jumps and kinks included, and some $10^{-5}$ for more, or where many neurons meet many times. Other losses:
    $10^{-6}$ for one neuron and one coordinate, else some $10^{-5}$ to $10^{-4}$. The errors are estimates of what was
    reached. Times that are not finite give NaN.
    """
    known = np.isfinite(gram).all(axis=(1, 2)) & np.isfinite(overlap).all(axis=(1, 2))
    if bias is None:
        bias = np.tile(np.asarray(problem.network.per_neuron("bias"), dtype=float), (len(overlap), 1))
    known &= np.isfinite(second_layer).all(axis=1) & np.isfinite(bias).all(axis=1)
    found = np.full((4, len(overlap)), np.nan)
    if known.any():
        parts = (overlap[known], gram[known], second_layer[known], bias[known])
        route = _square_losses if problem.loss.name == "square" else _other_losses
        found[:, known] = route(problem, *parts)
    return PopulationLosses(*found)


def _square_losses(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    m = problem.network.width
    power, power_error = _label_power(problem.target)
    cross = _label_means(problem, overlap, gram, bias)
    pairs = _pair_power(problem, gram, second_layer, bias)
    excess = 0.5 * power - np.einsum("tj,tj->t", second_layer, cross.value) / m + 0.5 * pairs.value
    error = 0.5 * power_error + np.einsum("tj,tj->t", np.abs(second_layer), cross.error) / m + 0.5 * pairs.error
    excess = np.maximum(excess, 0.0)
    return np.stack([excess + 0.5 * problem.target.noise, excess, error, error])


@lru_cache(maxsize=64)
def shape_of(function: Activation | Target) -> Shape:
    """Kinks by value, announced or found by bisection."""
    rule = gaussian_rule(function)
    return Shape(rule.kinks, float(np.clip(np.ceil(rule.extent) + 1.0, 9.0, 14.0)))


def single_coordinate(target: Target) -> bool:
    """Whether the labels are a function of one coordinate with few enough kinks to be followed one by one."""
    if target.latents > 1 or target.uses_inner_noise:
        return False
    return len(shape_of(target).kinks) <= MOST_KINKS


def _label_power(target: Target) -> tuple[float, float]:
    if target.latents == 1 and not target.uses_inner_noise:
        rule = gaussian_rule(target)
        power = float(rule.weights @ rule.values**2)
        return power, rule.error * power
    rule = latent_rule(target)
    sets = np.sum(rule.weights * rule.labels**2, axis=1)
    return float(sets.mean()), float(_between(sets[:, None])[0] + rule.error * abs(sets.mean()))


def _label_means(problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, bias: np.ndarray) -> PairMean:
    r"""$E[h\,\sigma_j]$, shape (time, m)."""
    target, network = problem.target, problem.network
    times, m, k = overlap.shape
    shifts = bias.ravel()
    variance = np.einsum("tjj->tj", gram).ravel()
    neuron = shape_of(network.activation)
    if single_coordinate(target):
        return _single_means(problem, overlap[:, :, 0], np.sqrt(np.maximum(variance, SMALLEST)).reshape(times, m), bias)
    directions = overlap.reshape(times * m, k)
    known = np.sum(directions**2, axis=1)
    rest = np.sqrt(np.maximum(variance - known, 0.0))

    def means(rule: LatentRule, which: np.ndarray, coarse: bool) -> tuple[np.ndarray, np.ndarray]:
        found = smoothed_means(
            network.activation, neuron.kinks, neuron.reach, rest[which], shifts[which], directions[which],
            rule.points[:, :, :k], rule.weights * rule.labels, coarse,
        )  # fmt: skip
        value = found.mean(axis=1)
        return value, _between(found.T) + rule.error * np.abs(value)

    coarse, found = coarse_rule(target), np.empty((2, times * m))
    smooth = (known <= SMOOTH_SHARE * variance) & (coarse is not None)
    if coarse is not None and smooth.any():
        found[:, smooth] = means(coarse, smooth, True)
    if not smooth.all():
        found[:, ~smooth] = means(latent_rule(target), ~smooth, False)
    return PairMean(*found.reshape(2, times, m))


def _single_means(problem: TwoLayer, overlap: np.ndarray, size: np.ndarray, bias: np.ndarray) -> PairMean:
    r"""$E[h\,\sigma_j]$ of a link of one coordinate; all of shape (time, m).

    By series where the link is smooth and the neuron is, or has one kink at 0 and no bias; elsewhere by panels between
    the kinks.
    """
    target, activation = problem.target, problem.network.activation
    link, neuron = shape_of(target), shape_of(activation)
    value, error, rest = np.empty(size.shape), np.empty(size.shape), np.ones(len(size), dtype=bool)
    bent = neuron.kinks == (0.0,) and not bias.any()
    if _expandable(link) and (_expandable(neuron) or bent):
        functions = as_function(target), as_function(activation)
        found, scale = products_with_link(*functions, size, bias, overlap / size, bent)
        rest = ~(found.error <= SERIES_TAIL * scale).all(axis=1)
        value, error = found.value, found.error
    if rest.any():
        flat = (size[rest].ravel(), bias[rest].ravel(), (overlap[rest] / size[rest]).ravel())
        found = pair_means(
            _product_with_link(target.function, activation.function),
            Fields(np.ones(flat[0].size), np.zeros(flat[0].size), *flat),
            link.kinks,
            neuron.kinks,
            max(link.reach, neuron.reach),
        )
        value[rest], error[rest] = (part.reshape(-1, size.shape[1]) for part in found)
    return PairMean(value, error)


def _expandable(shape: Shape) -> bool:
    """Whether a Hermite series may be taken: no kinks, and no faster growth than its rule follows."""
    return not shape.kinks and shape.reach <= FARTHEST


def _pair_power(problem: TwoLayer, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray) -> PairMean:
    r"""$E f^2=\frac1{m^2}\sum_{ij}a_ia_jE[\sigma_i\sigma_j]$, shape (time,)."""
    network = problem.network
    times, m = second_layer.shape
    function = as_function(network.activation)
    first, second = np.triu_indices(m)
    multiple = np.where(first == second, 1.0, 2.0) / m**2
    # A loss too large for a number is infinite, and its status says so.
    with np.errstate(over="ignore"):
        weights = multiple * second_layer[:, first] * second_layer[:, second]
    variance = np.einsum("tjj->tj", gram)
    closed = function.kind in ("relu", "abs") or function.erf_scale is not None or function.series is not None
    if closed and not bias.any():
        sizes = np.sqrt(variance[:, first] * variance[:, second])
        limited = np.clip(gram[:, first, second], -sizes, sizes)
        means = covariance_dual(network.activation, variance[:, first], variance[:, second], limited)
        return PairMean(np.sum(weights * means, axis=1), np.zeros(times))
    value, error, rest = np.empty(times), np.empty(times), np.ones(times, dtype=bool)
    if _expandable(shape_of(network.activation)):
        value, error = mean_square(function, gram, second_layer, bias)
        rest = ~(error <= (LARGEST_TAIL if first.size * times > MOST_PAIRS else SERIES_TAIL) * value)
    if rest.any():
        route = _sampled_power if first.size * rest.sum() > MOST_PAIRS else _integrated_power
        value[rest], error[rest] = route(problem, gram[rest], second_layer[rest], bias[rest])
    return PairMean(value, error)


def _integrated_power(problem: TwoLayer, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray) -> PairMean:
    """$E f^2$ pair by pair, by panels between the kinks."""
    network, (times, m) = problem.network, second_layer.shape
    first, second = np.triu_indices(m)
    weights = np.where(first == second, 1.0, 2.0) / m**2 * second_layer[:, first] * second_layer[:, second]
    size = np.sqrt(np.maximum(np.einsum("tjj->tj", gram), SMALLEST))
    fields = Fields(
        size[:, first].ravel(),
        bias[:, first].ravel(),
        size[:, second].ravel(),
        bias[:, second].ravel(),
        (gram[:, first, second] / (size[:, first] * size[:, second])).ravel(),
    )
    shape = shape_of(network.activation)
    found = pair_means(_product(network.activation.function), fields, shape.kinks, shape.kinks, shape.reach)
    value, error = (part.reshape(times, -1) for part in found)
    return PairMean(np.sum(weights * value, axis=1), np.sum(np.abs(weights) * error, axis=1))


def _sampled_power(problem: TwoLayer, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray) -> PairMean:
    network = problem.network
    points = jnp.asarray(_frozen(network.width))
    arrays = (jnp.asarray(_roots(gram)), jnp.asarray(second_layer), jnp.asarray(bias))
    sets = np.asarray(_mean_squares(network.activation.function, points, arrays))
    return PairMean(sets.mean(axis=1), _between(sets.T))


def _other_losses(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    target, network = problem.target, problem.network
    functions = (network.activation.function, target.function, problem.loss.function)
    if network.width == 1 and single_coordinate(target):
        link, neuron = shape_of(target), shape_of(network.activation)
        size, times = np.sqrt(np.maximum(gram[:, 0, 0], SMALLEST)), len(overlap)
        fields = Fields(np.ones(times), np.zeros(times), size, bias[:, 0], overlap[:, 0, 0] / size)
        value, error = pair_means(
            _both_losses(*functions, float(target.noise)),
            fields,
            link.kinks,
            neuron.kinks,
            max(link.reach, neuron.reach),
            (second_layer[:, 0],),
            KINKED_ACCURACY if problem.loss.kinked else BENT_ACCURACY,
        )
        return np.concatenate([value.T, error.T])
    noisy, inner = target.noise > 0.0, int(target.uses_inner_noise)
    points = _frozen(network.width + target.latents + inner + int(noisy))
    sets = np.asarray(
        _mean_losses(
            functions,
            bool(inner),
            jnp.asarray(points),
            jnp.asarray(target.noise),
            tuple(jnp.asarray(part) for part in (overlap, _roots(gram, overlap), second_layer, bias)),
        )
    )
    return np.stack([*sets.mean(axis=2).T, *(_between(sets[:, i].T) for i in range(2))])


def _roots(gram: np.ndarray, overlap: np.ndarray | None = None) -> np.ndarray:
    r"""$R$ with $RR^\top=Q-MM^\top$, at each time."""
    rest = gram if overlap is None else gram - overlap @ overlap.transpose(0, 2, 1)
    values, vectors = np.linalg.eigh(rest)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None]


def _between(sets: np.ndarray) -> np.ndarray:
    """Standard error of the mean over the first axis; zero for a single set."""
    return sets.std(axis=0, ddof=1) / len(sets) ** 0.5 if len(sets) > 1 else np.zeros(sets.shape[1:])


@lru_cache(maxsize=8)
def _frozen(dimension: int) -> np.ndarray:
    """Sets of standard normal points, (sets, points, dimension)."""
    if 4 * dimension > 1 << LOG2_POINTS:
        raise InputError(f"width must be at most {(1 << LOG2_POINTS) // 4}, got {dimension}.")
    return np.stack([whitened(sobol_normals(1 << LOG2_POINTS, dimension, 31 + seed)) for seed in range(SETS)])


@lru_cache(maxsize=64)
def _product_with_link(link: Callable[..., Any], activation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda u, v: link(u[..., None], jnp.zeros_like(u)) * activation(v)


@lru_cache(maxsize=64)
def _product(activation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda u, v: activation(u) * activation(v)


@lru_cache(maxsize=64)
def _both_losses(
    activation: Callable[..., Any], link: Callable[..., Any], loss: Callable[..., Any], noise: float
) -> Callable[..., Any]:
    nodes = np.arange(-NOISE_REACH, NOISE_REACH + NOISE_STEP / 2, NOISE_STEP)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()

    def both(u: jax.Array, v: jax.Array, second: jax.Array) -> jax.Array:
        label, output = link(u[..., None], jnp.zeros_like(u)), second * activation(v)
        clean = loss(label, output)
        if noise == 0.0:
            return jnp.stack([clean, clean])

        def add(total: jax.Array, point: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            return total + point[1] * loss(label + noise**0.5 * point[0], output), None

        points = (jnp.asarray(nodes), jnp.asarray(weights))
        return jnp.stack([jax.lax.scan(add, jnp.zeros_like(clean), points)[0], clean])

    return both


@partial(jax.jit, static_argnums=0)
def _mean_squares(activation: Any, points: jax.Array, parts: tuple[jax.Array, ...]) -> jax.Array:
    def at_time(part: tuple[jax.Array, ...]) -> jax.Array:
        root, second, bias = part
        output = activation(points @ root.T + bias) @ second / len(bias)
        return jnp.mean(output**2, axis=-1)

    return jax.lax.map(at_time, parts)


@partial(jax.jit, static_argnums=(0, 1))
def _mean_losses(functions: Any, inner_noise: bool, points: jax.Array, noise: jax.Array, parts: Any) -> jax.Array:
    activation, link, loss = functions
    m, k = parts[0].shape[1:]
    latent, own = points[..., :k], points[..., k : k + m]
    inner = points[..., k + m] if inner_noise else jnp.zeros(points.shape[:-1])
    clean = link(latent, inner)
    noisy = clean + jnp.sqrt(noise) * points[..., -1]

    def at_time(part: tuple[jax.Array, ...]) -> jax.Array:
        overlap, root, second, bias = part
        output = activation(latent @ overlap.T + own @ root.T + bias) @ second / m
        return jnp.stack([jnp.mean(loss(label, output), axis=-1) for label in (noisy, clean)])

    return jax.lax.map(at_time, parts)
