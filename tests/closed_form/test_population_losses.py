"""Losses on fresh inputs: theory's quadrature, simulation's quadrature, and plain NumPy or closed forms as a third."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

import limen
from limen.gaussian.functions import as_function
from limen.gaussian.panels import Refined, normal_density
from limen.precision import in_double
from limen.simulation.population_loss import population_losses as of_simulation
from limen.theory.fresh_inputs import field_pairs, hermite_series, latent_rule
from limen.theory.fresh_inputs import population_losses as module
from limen.theory.fresh_inputs.population_losses import population_losses as of_theory


def problem(target, activation, width=1, loss="square", noise=0.0, bias=0.0):
    network = limen.network(width, activation, bias=bias)
    return limen.TwoLayer(limen.target(target, noise=noise), network, limen.OnePassSGD(0.1), None, loss)


def overlaps(width, latents, rest, seed=0):
    """Overlaps, Gram matrix and second layer of random networks; `rest` is what is not along the target."""
    rng = np.random.default_rng(seed)
    weights = 0.5 * rng.standard_normal((width, latents + 4))
    weights[:, 0] += 0.4
    weights[:, latents:] *= rest
    return weights[None, :, :latents], (weights @ weights.T)[None], rng.uniform(0.5, 1.5, (1, width))


NUMPY = {
    "tanh": np.tanh,
    "tanh(z)": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
    "gelu": lambda z: z * special.ndtr(z),
    "z/(1+abs(z))": lambda z: z / (1 + np.abs(z)),
    "heaviside(z)": lambda z: 1.0 * (z > 0),
    "z>0.51": lambda z: 1.0 * (z > 0.51),
    "sqrt(z**2)": np.abs,
    "z**3-z": lambda z: z**3 - z,
}


def by_scipy(link, activation, M, q, a, cuts, kinks):
    """Half the mean square of h(z) - a sigma(v) by nested adaptive quadrature, one neuron."""
    rest = np.sqrt(q - M**2)

    def outer(z):
        def inner(y):
            return 0.5 * (link(z) - a * activation(M * z + rest * y)) ** 2 * np.exp(-0.5 * y * y)

        points = [(kink - M * z) / rest for kink in kinks]
        return integrate.quad(inner, -9, 9, points=points or None, epsabs=1e-10, limit=200)[0] * np.exp(-0.5 * z * z)

    return integrate.quad(outer, -9, 9, points=cuts or None, epsabs=1e-9, limit=200)[0] / (2 * np.pi)


@pytest.mark.parametrize(
    ("target", "activation", "cuts", "kinks"),
    [
        ("heaviside(z)", "tanh", [0.0], []),
        ("z>0.51", "relu", [0.51], [0.0]),
        ("sqrt(z**2)", "z/(1+abs(z))", [0], [0]),
        # A smooth link and a kink at 0: by series.
        ("tanh(z)", "relu", [], [0.0]),
        ("z**3-z", "relu", [], [0.0]),
    ],
)
def test_jumps_and_kinks_against_nested_adaptive_quadrature(target, activation, cuts, kinks):
    M, q, a = 0.5, 1.0, 1.0
    expected = by_scipy(NUMPY[target], NUMPY[activation], M, q, a, cuts, kinks)
    parts = (np.full((1, 1, 1), M), np.full((1, 1, 1), q), np.full((1, 1), a))
    theory = of_theory(problem(target, activation), *parts)
    assert theory.excess[0] == pytest.approx(expected, rel=1e-7)
    assert of_simulation(problem(target, activation), *parts).excess[0] == pytest.approx(expected, rel=1e-5)


CASES = [
    ("heaviside(z-0.5)", "relu", 2, "square", (0.3, -0.2)),
    ("z>0.51", "gelu", 2, "square", 0.0),
    ("z**3-z", "tanh", 2, "square", 0.0),
    ("halfspaces:1", "tanh", 1, "huber:1", 0.0),
    ("relu(z1)-0.5*relu(z2)", "z**2", 2, "square", 0.0),
    ("sign(z+0.3*e)", "tanh", 2, "square", 0.1),
    ("abs(z)+0.2*e*z", "gelu", 1, "square", 0.0),
]


@pytest.mark.parametrize(("target", "activation", "width", "loss", "bias"), CASES)
def test_theory_and_simulation_integrate_alike(target, activation, width, loss, bias):
    ours = problem(target, activation, width, loss, 0.1, bias)
    several = [overlaps(width, ours.target.latents, rest) for rest in (1.0, 0.1, 1e-3)]
    parts = [np.concatenate(part) for part in zip(*several, strict=True)]
    theory, simulation = of_theory(ours, *parts), of_simulation(ours, *parts)
    assert simulation.test == pytest.approx(theory.test, rel=2e-5)
    assert (theory.test_error < 1e-5 * theory.test).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "activation", "width", "loss"),
    [
        ("z1*z2*z3", "gelu", 3, "square"),
        ("parity:3", "tanh", 2, "square"),
        ("sign(z1+z2)", "relu", 2, "square"),
        ("committee:4", "gelu", 2, "square"),
        ("z1*z2", "relu", 3, "huber:0.5"),
        ("sign(z)", "erf", 2, "logistic"),
    ],
)
def test_many_coordinates_within_the_errors_they_state(target, activation, width, loss):
    ours = problem(target, activation, width, loss, 0.0)
    for rest in (1.0, 0.1):
        parts = overlaps(width, ours.target.latents, rest)
        theory, simulation = of_theory(ours, *parts), of_simulation(ours, *parts)
        allowed = 5 * (theory.test_error[0] + simulation.error) + 1e-5 * theory.test[0]
        assert abs(theory.test[0] - simulation.test[0]) < allowed < 2e-3 * theory.test[0]


def test_against_plain_monte_carlo():
    rng, M, Q, a = np.random.default_rng(1), *overlaps(2, 1, 1.0, 3)
    count = 400_000
    z = rng.standard_normal(count)
    own = rng.standard_normal((count, 2)) @ np.linalg.cholesky(Q[0] - M[0] @ M[0].T).T
    loss = 0.5 * ((z > 0.51) - np.tanh(z[:, None] * M[0, :, 0] + own) @ a[0] / 2) ** 2
    error = loss.std() / count**0.5
    for found in (of_theory, of_simulation):
        value = found(problem("z>0.51", "tanh", 2), M, Q, a).excess[0]
        assert abs(value - loss.mean()) < 4 * error
        # A jump in the wrong place (0.45) is seen.
        assert abs(found(problem("z>0.45", "tanh", 2), M, Q, a).excess[0] - loss.mean()) > 4 * error


def test_a_network_that_is_the_target_has_no_risk():
    for target, activation, latents in (("tanh(z)", "tanh", 1), ("relu(z)", "relu", 1)):
        M, one = np.ones((1, 1, latents)), np.ones((1, 1, 1))
        for found in (of_theory, of_simulation):
            assert found(problem(target, activation), M, one, one[0]).excess[0] < 2e-7


def test_times_that_diverged_are_not_numbers():
    parts = (np.array([[[0.5]], [[np.inf]]]), np.array([[[1.0]], [[np.inf]]]), np.ones((2, 1)))
    for found in (of_theory, of_simulation):
        test = found(problem("z", "tanh"), *parts).test
        assert np.isfinite(test[0]) and np.isnan(test[1])


@pytest.mark.parametrize(("target", "activation"), [("relu(z1) - z1*z2", "relu"), ("tanh(z1 + z2)", "tanh")])
@in_double
def test_fast_routes_of_wide_networks_are_the_slow_ones(target, activation, monkeypatch):
    """Neurons that the target explains little and much, by a product of Gauss rules and a Hermite series, and without
    them; a product of six points and a series of twelve terms are seen."""
    asked = problem(target, activation, 3)
    M, Q, a = (np.concatenate(parts) for parts in zip(*(overlaps(3, 2, rest, 5) for rest in (0.2, 1.0)), strict=True))
    known = (M**2).sum(axis=2) / np.einsum("tjj->tj", Q)
    assert known.min() < module.SMOOTH_SHARE < known.max()
    bias = np.tile([0.2, 0.0, -0.4], (2, 1))
    means = module._label_means(asked, M, Q, bias).value
    axes = asked.target.axis_breakpoints
    assert axes is not None
    poor = latent_rule._product(asked.target, axes, [6, 6])
    monkeypatch.setattr(module, "coarse_rule", lambda target: poor)
    twin = module._label_means(asked, M, Q, bias).value
    monkeypatch.setattr(module, "coarse_rule", lambda target: None)
    slow = module._label_means(asked, M, Q, bias).value
    np.testing.assert_allclose(means, slow, rtol=1e-6, atol=1e-7)
    assert np.abs(twin - slow).max() > 1e-5
    if activation == "tanh":
        function = as_function(asked.network.activation)
        pairs = module._integrated_power(asked, Q, a, bias).value
        np.testing.assert_allclose(hermite_series.mean_square(function, Q, a, bias)[0], pairs, rtol=1e-8)
        np.testing.assert_allclose(module._pair_power(asked, Q, a, bias).value, pairs, rtol=1e-8)
        nodes, transform = hermite_series.hermite_rule()
        monkeypatch.setattr(hermite_series, "hermite_rule", lambda: (nodes, transform[:, :12]))
        value, tail = hermite_series.mean_square(function, Q, a, bias)
        assert (tail > module.LARGEST_TAIL * value).all()


@in_double
def test_means_with_a_link_by_series_are_those_by_panels(monkeypatch):
    """Smooth links and activations of one coordinate; a series of twelve terms is seen and not taken."""
    for target, activation in (("z**2/3 + z**3", "tanh"), ("tanh(z)", "gelu"), ("z**4", "softplus")):
        asked = problem(target, activation, 3)
        M, Q, _ = overlaps(3, 1, 0.5, 5)
        size, bias = np.sqrt(np.einsum("tjj->tj", Q)), np.tile([0.2, 0.0, -0.4], (len(Q), 1))
        parts = (asked, M[:, :, 0], size, bias)
        found = module._single_means(*parts)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_expandable", lambda shape: False)
            panels = module._single_means(*parts)
        np.testing.assert_allclose(found.value, panels.value, rtol=1e-8, atol=1e-10)
        nodes, transform = hermite_series.hermite_rule()
        few = (nodes, transform[:, :3])
        with monkeypatch.context() as patch:
            patch.setattr(hermite_series, "hermite_rule", lambda few=few: few)
            link, activation = as_function(asked.target), as_function(asked.network.activation)
            short = hermite_series.products_with_link(link, activation, size, bias, M[:, :, 0] / size)[0]
            assert np.abs(short.value - panels.value).max() > 1e-8
            np.testing.assert_allclose(module._single_means(*parts).value, panels.value, rtol=1e-8, atol=1e-10)


def test_noise_inside_and_beside_the_labels_are_two():
    """Two linear neurons, labels z + e/2 and noise of variance 1/4; Huber's loss from 100 on is the square loss."""
    M, Q, a = overlaps(2, 1, 1.0, 3)
    asked = problem("z+0.5*e", "linear", 2, "huber:100", 0.25)
    found, mean = of_theory(asked, M, Q, a), a[0] / 2
    excess = 0.5 * (1 - 2 * mean @ M[0, :, 0] + mean @ Q[0] @ mean + 0.25)
    assert found.excess[0] == pytest.approx(excess, rel=1e-9)
    assert found.test[0] == pytest.approx(excess + 0.125, rel=1e-9)


@in_double
def test_frozen_points_give_the_power_of_linear_neurons_with_biases():
    _, Q, a = overlaps(3, 1, 1.0, 4)
    bias = np.array([[0.3, -0.5, 1.0]])
    found = module._sampled_power(problem("z", "linear", 3), Q, a, bias)
    mean = a[0] / 3
    assert found.value[0] == pytest.approx((mean @ bias[0]) ** 2 + mean @ Q[0] @ mean, rel=1e-9)


def test_the_error_of_a_mean_over_sets_is_the_standard_one():
    found = module._between(np.array([[1.0, 0.0], [2.0, 0.0], [4.0, 0.0], [5.0, 0.0]]))
    np.testing.assert_allclose(found, [np.sqrt(10 / 3 / 4), 0.0], rtol=1e-12)


@pytest.mark.parametrize("rho", [0.9, 0.3, -0.6])
@in_double
def test_panels_meet_where_two_jumps_cross(rho):
    """The probability of a corner, by panels of width one alone, against an adaptive integral over one field."""
    first, second = 0.4, -0.7

    def inner(x):
        return special.ndtr((rho * x - second) / np.sqrt(1 - rho**2)) * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)

    expected = integrate.quad(inner, first, 12, epsabs=1e-13, epsrel=1e-12)[0]
    # u = 2 G_1 + 1, v = G_2 - 0.5: kinks where the standard normals are at `first` and `second`.
    parts = (2.0, 1.0, np.sign(rho) * 1.0, -0.5, abs(rho))
    kinks = (jnp.asarray([2 * first + 1]), jnp.asarray([second - 0.5]))

    def corner(u, v):
        return 1.0 * ((u > 2 * first + 1) & (v > second - 0.5))

    found, _ = field_pairs._means(corner, 9.0, 1.0, kinks, tuple(jnp.asarray([x]) for x in parts))
    assert float(found[0]) == pytest.approx(expected, abs=1e-10)


def test_narrow_panels_are_exact_for_cubics():
    edges = np.array([0.1, 0.12, 0.13, 0.5])
    panels = Refined(edges[:-1], edges[1:], np.zeros(3, dtype=int), np.zeros(1), 0.0)
    nodes, weights, _ = latent_rule._nodes(panels)
    assert len(nodes) == 2 + 2 + 16
    for power in range(4):
        moment = (0.5 ** (power + 1) - 0.1 ** (power + 1)) / (power + 1)
        assert (weights / normal_density(nodes)) @ nodes**power == pytest.approx(moment, rel=1e-12)


@pytest.mark.parametrize("power", [0.3, 0.6])
def test_cusps_are_within_the_error_that_is_stated(power):
    r"""$E(z^2-1)|G|^a=\rho^2(E|G|^{a+2}-E|G|^a)$ and $E|G|^{2a}$ by the gamma function."""
    problem = limen.TwoLayer("z**2-1", limen.network(1, f"abs(z)**{power}"), limen.OnePassSGD(0.3))
    overlap = 0.9

    def moment(a):
        return 2 ** (a / 2) * special.gamma((a + 1) / 2) / np.sqrt(np.pi)

    exact = 0.5 * (2.0 - 2 * overlap**2 * (moment(power + 2) - moment(power)) + moment(2 * power))
    found = of_theory(problem, np.array([[[overlap]]]), np.array([[[1.0]]]), np.array([[1.0]]))
    assert abs(found.excess[0] - exact) < 2.0 * found.excess_error[0] < 5e-5
