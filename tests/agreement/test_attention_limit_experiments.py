"""Ripples, mean field and deep residual networks of the gallery at reduced size: agree, and planted errors caught."""

from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.attention.attention_mean_field import AttentionMeanField
from limen.experiments.attention.attention_modes import AttentionModes
from limen.experiments.attention.neural_ode import NeuralODE
from limen.problem import Activation, InputError
from limen.result import Result, load, merge
from limen.simulation.attention.attracting_points import attracting_points
from limen.simulation.attention.growth import even_tokens, measured_growth
from limen.simulation.attention.mean_field_starts import axial_tokens, drawn_angles, stratified
from limen.simulation.attention.residual_network import HARMONICS, DepthWeights, draw_depth_weights, residual_network
from limen.theory.attention.circle.circle_flow import circle_flow
from limen.theory.attention.uniform_stability import cluster_count, growth_rates

pytestmark = pytest.mark.slow

SEEDS = tuple(range(6))


def with_values(result: Result, **changes) -> Result:
    """The result with the values of some variables replaced, at the same places."""
    wrong = {name: result.dataset[name].copy(data=values) for name, values in changes.items()}
    return replace(result, dataset=result.dataset.assign(wrong))


@pytest.fixture(scope="module")
def modes():
    experiment = AttentionModes(tokens=60, settled_time=2.0, largest_beta=12.0, perturbation=0.002)
    return experiment, experiment.theory(), merge([experiment.simulate(seed) for seed in SEEDS])


def test_ripples_grow_at_the_predicted_rates_and_at_no_others(modes):
    experiment, theory, simulation = modes
    comparison = experiment.compare(theory, simulation)
    assert comparison["growth_rate"].verdict == comparison["sphere_growth_rate"].verdict == "agrees", comparison
    # Counts of six systems: what is below a third of their range (1% and twice the band) is not seen.
    assert comparison.judged(tolerance=0.35).verdict == "agrees", comparison
    sharper, sparse = 1.1 * experiment.betas(), 1.1 * theory.dataset.sparse_beta.values
    for name, values in (
        ("growth_rate", growth_rates(2, sharper, experiment.degrees())),
        ("sphere_growth_rate", growth_rates(3, sparse, experiment.degrees())),
        ("growth_rate", growth_rates(2, experiment.betas(), experiment.degrees(), noise=0.02)),
        ("growth_rate", growth_rates(3, experiment.betas(), experiment.degrees())),
        ("first_points", theory.dataset.fastest_degree.values),
        ("first_points", np.array([cluster_count(beta, 4.0) for beta in experiment.betas()])),
    ):
        assert experiment.compare(with_values(theory, **{name: values}), simulation)[name].verdict == "disagrees", name


@pytest.mark.parametrize("d", [2, 3])
def test_one_ripple_alone_grows_at_its_rate(d):
    rates = [measured_growth(d, 7.0, [degree], 1e-4, 1.0, 5)[0] for degree in (1, 3, 6)]
    np.testing.assert_allclose(rates, growth_rates(d, 7.0, [1, 3, 6]), atol=2e-5)


def test_rings_integrate_harmonics():
    tokens, weights = even_tokens(3)
    share = weights / weights.sum()
    axis = np.array([0.48, -0.6, 0.64])
    for degree in range(1, 28):
        harmonic = np.polynomial.legendre.legval(tokens @ axis, np.eye(degree + 1)[degree])
        assert abs(share @ harmonic) < 1e-13


def test_attracting_points_of_clusters_are_the_clusters():
    for count in (1, 3, 5):
        angles = np.repeat(2.0 * np.pi * np.arange(count) / count + 0.1, 7)
        assert attracting_points(angles, np.array([30.0])).tolist() == [count]
    assert attracting_points(np.array([0.0, 0.5]), np.array([1.0, 60.0])).tolist() == [1, 2]


@pytest.fixture(scope="module")
def mean_field():
    experiment = AttentionMeanField(tokens=128, horizon=2.0)
    return experiment, experiment.theory(), merge([experiment.simulate(seed) for seed in range(48)])


def test_stratified_tokens_follow_the_mean_field_and_no_other(mean_field):
    experiment, theory, simulation = mean_field
    comparison = experiment.compare(theory, simulation)
    # Modes of 128 tokens, which vary much: what is below 22% is not asked for. 48 seeds see the twins over both sizes.
    assert comparison.judged(tolerance=0.22).verdict == "agrees", comparison
    assert comparison["mean_height"].verdict == "agrees", comparison
    sharper = experiment.model_copy(update={"beta": 1.1 * experiment.beta}).theory()
    larger = experiment.model_copy(update={"amplitude": 1.1 * experiment.amplitude}).theory()
    for twin in (sharper, larger):
        wrong = with_values(theory, mean_height=twin.dataset.mean_height.values)
        assert experiment.compare(wrong, simulation)["mean_height"].verdict == "disagrees"
    noisy = circle_flow(experiment.circle_density, experiment.beta, experiment.times(), noise=0.1)
    slower = circle_flow(experiment.circle_density, experiment.beta, 0.9 * experiment.times())
    for twin in (larger.dataset.modes.values, *(leading_modes(flow.dataset) for flow in (noisy, slower))):
        assert experiment.compare(with_values(theory, modes=twin), simulation)["modes"].verdict == "disagrees"


def leading_modes(dataset):
    return np.stack([dataset[name].values[:, 1:5] for name in ("modes", "sine_modes")], axis=-1)


def test_noise_of_the_start_falls_as_predicted_and_grows_in_time(mean_field):
    experiment, theory, simulation = mean_field
    numbers = experiment.headline(theory, simulation)
    assert numbers["simulation"]["independent_slope"] == pytest.approx(-0.5, abs=0.3)
    assert numbers["simulation"]["stratified_slope"] == pytest.approx(-1.5, abs=0.3)
    for name in ("modes", "independent_modes"):
        distance = experiment.deviations(theory, simulation, name).mean(axis=0)
        assert (distance[:, -1] > 1.5 * distance[:, 0]).all()


def test_after_the_density_breaks_the_comparison_keeps_to_the_smooth_times():
    experiment = AttentionMeanField(tokens=32, horizon=8.0, beta=2.0)
    theory = experiment.theory()
    assert not theory.ok
    assert "steepens" in theory.status
    simulation = merge([experiment.simulate(seed) for seed in (0, 1)])
    assert np.isfinite(experiment.compare(theory, simulation)["modes"].deviation)


@pytest.mark.parametrize("d", [3, 4, 7])
def test_axial_tokens_have_the_heights_they_should(d):
    generator = np.random.default_rng(d)
    heights = np.concatenate([axial_tokens(lambda u: 1.0 + 0.5 * u, 240, d, generator)[:, -1] for _ in range(200)])
    # Of the density 1 + a u relative to the uniform law the mean height is a / d, the mean square 1 / d.
    assert heights.mean() == pytest.approx(0.5 / d, abs=3e-3)
    assert (heights**2).mean() == pytest.approx(1.0 / d, abs=3e-3)


def test_quantiles_of_a_density_and_their_strata():
    angles = drawn_angles(lambda angle: 1.0 + np.cos(angle), np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(angles, [-np.pi, 0.0, np.pi], atol=1e-9)
    quantiles = stratified(50, np.random.default_rng(0))
    assert (np.floor(50 * quantiles) == np.arange(50)).all()
    with pytest.raises(InputError, match="density must be"):
        drawn_angles(np.cos, np.array([0.5]))


@pytest.fixture(scope="module")
def networks():
    experiment = NeuralODE(depth=256, d=4, hidden=12)
    return experiment, experiment.theory(SEEDS), merge([experiment.simulate(seed) for seed in SEEDS])


def test_the_error_of_a_deep_network_is_the_predicted_one_and_no_other(networks):
    experiment, theory, simulation = networks
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    assert comparison.sizes == (32, 64, 128, 256)
    right = theory.dataset
    spread = float(np.ptp(right.limit.values))
    for wrong in (
        with_values(theory, scaled_error=1.1 * right.scaled_error.values),
        with_values(theory, coefficient=-right.coefficient.values),
        with_values(theory, limit=right.limit.values + 0.01 * spread, output=right.output.values + 0.01 * spread),
    ):
        assert experiment.compare(wrong, simulation).verdict == "disagrees"


def test_networks_that_read_their_weights_mid_layer_disagree(networks):
    experiment, theory, simulation = networks
    outputs = np.array(
        [[mid_layer_output(experiment, seed, depth) for depth in experiment.depths().tolist()] for seed in SEEDS]
    )
    assert experiment.compare(theory, with_values(simulation, output=outputs))["scaled_error"].verdict == "disagrees"


def mid_layer_output(experiment, seed, depth):
    """The same network with weights at (k + 1/2) / L: its Fourier series shifted by half a layer."""
    angles = np.pi * np.arange(1, HARMONICS + 1) / (2.0 * depth)

    def shifted(part):
        cosines, sines = part[1 : HARMONICS + 1], part[HARMONICS + 1 :]
        c, s = (trig(angles).reshape(-1, *[1] * (part.ndim - 1)) for trig in (np.cos, np.sin))
        return np.concatenate([part[:1], c * cosines + s * sines, c * sines - s * cosines])

    weights = DepthWeights(*map(shifted, draw_depth_weights(experiment.d, experiment.hidden, seed)))
    activation = Activation(formula=experiment.activation)
    return residual_network(experiment._input(seed), weights, activation, depth, experiment.duration)[0]


def test_the_measured_order_in_depth_is_one(networks):
    experiment, theory, simulation = networks
    numbers = experiment.headline(theory, simulation)
    assert numbers["simulation"]["slope_in_depth"] == pytest.approx(-1.0, abs=0.02)
    assert numbers["simulation"]["scaled_error"] == pytest.approx(numbers["theory"]["scaled_error"], rel=0.01)


def test_both_sides_survive_the_file(modes, mean_field, networks, tmp_path):
    for _, *results in (modes, mean_field, networks):
        for result in results:
            again = load(result.save(tmp_path / "result.nc"))
            assert (again.ok, again.status, again.seeds) == (result.ok, result.status, result.seeds)
            assert again.dataset.equals(result.dataset)
