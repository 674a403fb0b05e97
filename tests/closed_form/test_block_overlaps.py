"""One-pass SGD on inputs of several variances: limits, closed forms, stored numbers, mistakes."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import limen
from limen import InputError
from limen.gaussian.starts.block_starts import block_start, limiting_start
from limen.precision import in_double
from limen.problem.activations import as_activation
from limen.theory.one_pass import fluctuations as fluctuations_module
from limen.theory.one_pass.blocks import block_fluctuations as block_fluctuations_module
from limen.theory.one_pass.blocks import block_ode
from limen.theory.one_pass.blocks.block_fluctuations import (
    block_fluctuations,
    block_increment_covariance,
    start_covariance,
)
from limen.theory.one_pass.blocks.block_overlaps import BlockOverlaps, Spectrum, block_slope
from limen.theory.one_pass.committee import committee_population
from limen.theory.one_pass.fluctuations import Spline
from limen.theory.one_pass.increments import committee_increments
from limen.theory.one_pass.overlap_equations.integration import Motion, Schedule
from limen.theory.one_pass.overlaps import Overlaps

TWO = {"variances": (0.4, 1.6), "fractions": (0.5, 0.5)}


def neuron(link="tanh(2*z)+0.3*z", activation="tanh", overlap=0.0, algorithm=None, noise=0.05, **inputs):
    return limen.TwoLayer(
        limen.target(link, noise=noise),
        limen.network(1, activation),
        algorithm or limen.OnePassSGD(0.5),
        start=limen.OverlapStart(overlap),
        inputs=limen.Inputs(**inputs),
    )


def test_numbers_of_a_neuron_on_two_variances():
    """Computed independently from the equations of the eigenspaces; isotropic inputs beside them."""
    risk = limen.predict(neuron(**TWO), [1.0, 4.0, 12.0]).dataset.excess_risk.values
    np.testing.assert_allclose(risk, [0.3832, 0.1263, 0.0610], atol=1e-3)
    risk = limen.predict(neuron(), [1.0, 4.0, 12.0]).dataset.excess_risk.values
    np.testing.assert_allclose(risk, [0.4460, 0.1121, 0.0559], atol=1e-3)


def by_hand(s, w, times, gamma=0.5, noise=0.05):
    """Excess risk of the tanh neuron by product quadrature and the classical Runge–Kutta method, in plain NumPy."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    first, second = (axis.ravel() for axis in np.meshgrid(nodes, nodes))
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2

    def averages(state):
        q, m = s @ state[0], s @ state[1]
        z = first
        field = m * z + np.sqrt(q - m**2) * second
        gap = np.tanh(2 * z) + 0.3 * z - np.tanh(field)
        push = gap / np.cosh(field) ** 2
        slopes = np.linalg.solve([[q, m], [m, 1.0]], [weights @ (push * field), weights @ (push * z)])
        squared = weights @ (push**2) + noise * (weights @ np.cosh(field) ** -4)
        return slopes, squared, 0.5 * weights @ gap**2

    def slope(state):
        (own, target), squared, _ = averages(state)
        return np.array(
            [2 * s * (own * state[0] + target * state[1]) + gamma * s * w * squared, s * (own * state[1] + target * w)]
        )

    state, t, found, step = np.array([w, np.zeros_like(w)]), 0.0, [], 0.05
    for wanted in times:
        while t < wanted - 1e-9:
            a = slope(state)
            b = slope(state + 0.5 * step * a)
            c = slope(state + 0.5 * step * b)
            state = state + step / 6 * (a + 2 * b + 2 * c + slope(state + step * c))
            t += step
        found.append(averages(state)[2])
    return np.array(found)


@pytest.mark.parametrize(
    "inputs",
    [
        limen.Inputs(variances=(0.25, 2.5), fractions=(2 / 3, 1 / 3)),
        pytest.param(limen.Inputs(variances=(0.1, 1.0, 4.0), fractions=(0.5, 0.35, 0.15)), marks=pytest.mark.slow),
        pytest.param(limen.Inputs.power_law(0.6, blocks=4), marks=pytest.mark.slow),
    ],
)
def test_three_other_spectra_by_hand(inputs):
    times = [1.0, 4.0]
    posed = neuron(variances=inputs.variances, fractions=inputs.fractions)
    risk = limen.predict(posed, times).dataset.excess_risk.values
    np.testing.assert_allclose(risk, by_hand(*inputs.spectrum, times), atol=1e-3)
    swapped = inputs.spectrum.values[::-1]
    swapped = by_hand(swapped / (swapped @ inputs.spectrum.fractions), inputs.spectrum.fractions, times)
    assert np.abs(swapped - risk).max() > 5e-3


@pytest.mark.parametrize(
    "algorithm", [limen.OnePassSGD(0.5, batch=3), pytest.param(limen.SphericalSGD(0.4), marks=pytest.mark.slow)]
)
def test_equal_variances_are_one_and_one_is_isotropic(algorithm):
    """A committee on its way to its teacher, where the covariance of the fields becomes singular."""
    problem = limen.TwoLayer(
        limen.target("0.5*(erf(z1/sqrt(2)) + erf(z2/sqrt(2)))"),
        limen.network(2, "saad-solla", train_second_layer=isinstance(algorithm, limen.OnePassSGD)),
        algorithm,
        start=limen.OverlapStart(((0.9, 0.1), (0.0, 0.95))),
    )
    times = np.array([0.0, 1.0, 10.0, 60.0])
    plain = limen.predict(problem, times).dataset
    for inputs in ({}, {"variances": (1.0, 1.0), "fractions": (0.3, 0.7)}):
        same = problem.model_copy(update={"inputs": limen.Inputs(**inputs)})
        blocks = limen.predict(same, times, theory="block-overlap-ode").dataset
        for name in ("overlap", "gram", "second_layer", "excess_risk", "test_loss"):
            np.testing.assert_allclose(blocks[name], plain[name], atol=2e-6, err_msg=f"{name} {inputs}")
        np.testing.assert_allclose(blocks.block_gram.sum("block"), blocks.gram, atol=1e-12)


def test_a_linear_neuron_follows_its_linear_equations():
    r"""$\dot\rho_b=-2s_b\rho_b+\gamma s_bw_b(\sum_cs_c\rho_c+\Delta)$ for the squared distances inside eigenspaces; a
    target that lives on the small eigenvalues is learned late."""
    gamma, noise = 0.3, 0.2
    s, w = np.array([0.25, 1.0, 4.0]), np.array([0.4, 0.5, 0.1])
    for shares in (None, (0.7, 0.2, 0.1)):
        inputs = {"variances": s, "fractions": w, "target_shares": shares}
        problem = neuron("z", "z", algorithm=limen.OnePassSGD(gamma), noise=noise, **inputs)
        times = np.linspace(0.0, 5.0, 6)
        found = limen.predict(problem, times, tolerance=1e-10).dataset
        # One more coordinate carries the constant source.
        matrix = np.zeros((4, 4))
        matrix[:3, :3] = -2 * np.diag(s) + gamma * np.outer(s * w, s)
        matrix[:3, 3] = gamma * s * w * noise
        target = w if shares is None else np.asarray(shares) / s
        start = np.append(w + target, 1.0)
        wanted = [0.5 * s @ (expm(t * matrix) @ start)[:3] for t in times]
        np.testing.assert_allclose(found.excess_risk, wanted, rtol=1e-7)


def test_starts_inside_eigenspaces():
    problem = limen.TwoLayer(
        limen.target("z1 + z2"),
        limen.network(2, "tanh"),
        limen.OnePassSGD(0.3),
        start=limen.OverlapStart(0.2, gram=((1.0, 0.3), (0.3, 1.0))),
        inputs=limen.Inputs(**TWO, target_shares=((0.1, 0.9), (0.5, 0.5))),
    )
    for start in (limiting_start(problem), block_start(problem, 50, 3), block_start(problem, 30_000, 3)):
        np.testing.assert_allclose(start.overlap(problem).sum(axis=0), 0.2, atol=1e-12)
        np.testing.assert_allclose(start.gram.sum(axis=0), [[1.0, 0.3], [0.3, 1.0]], atol=1e-12)
    far = limiting_start(problem)
    near = np.mean([block_start(problem, 30_000, seed).gram for seed in range(30)], axis=0)
    np.testing.assert_allclose(near, far.gram, atol=5e-3)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ((0.5,), "target_shares must have 2 entries"),
        ((0.5, 0.6), "sum to 1"),
        ((-0.5, 1.5), "not be negative"),
        (((0.5, 0.5), (0.1, 0.9)), "one row per latent direction"),
    ],
)
def test_bad_shares_are_sentences(shares, words):
    with pytest.raises(InputError, match=words):
        neuron(**TWO, target_shares=shares)


def test_who_answers():
    assert limen.theories(neuron(**TWO))["block-overlap-ode"] == "applies"
    assert "one variance" in limen.theories(neuron(**TWO))["overlap-ode"]
    assert block_ode.refuses(neuron(law="rademacher")) is None
    with pytest.raises(InputError, match="Markov chain on Gaussian inputs only, not rademacher"):
        limen.simulate(neuron(law="rademacher"), 1.0, d=50, seeds=1, simulator="overlap-chain")
    with pytest.raises(InputError, match="at least width"):
        limen.simulate(neuron(**TWO), 1.0, d=4, seeds=1, simulator="overlap-chain")


@pytest.mark.slow
def test_spreads_of_equal_variances_are_isotropic_and_others_those_of_the_chain(monkeypatch):
    """Linear noise around the flow, in sum and in each eigenspace; as a twin, starts of equal parts are far off."""
    times, d = np.array([0.5, 3.0]), 300
    plain = limen.one_pass.fluctuations(neuron(overlap=0.3), times, d).dataset
    split = {"variances": (1.0, 1.0), "fractions": (0.3, 0.7)}
    same = block_fluctuations(neuron(overlap=0.3, **split), times, d, 2**14).dataset
    for name in ("overlap", "gram", "overlap_spread", "gram_spread"):
        np.testing.assert_allclose(same[name], plain[name], rtol=2e-3, err_msg=name)
    posed = neuron(overlap=0.3, variances=(0.25, 2.5), fractions=(2 / 3, 1 / 3))
    found = limen.one_pass.fluctuations(posed, times, d).dataset
    run = limen.simulate(posed, times, d=d, seeds=500, simulator="overlap-chain").dataset
    for name in ("overlap", "gram", "block_overlap", "block_gram"):
        # A standard deviation from 500 runs is known to 3%.
        ratio = run[name].std("seed") / found[f"{name}_spread"]
        assert float(abs(ratio - 1.0).max()) < 0.12, name
    monkeypatch.setattr(
        f"{block_fluctuations.__module__}.start_covariance", lambda *start: 0 * start_covariance(*start)
    )
    planted = limen.one_pass.fluctuations(posed, times, d).dataset.overlap_spread
    assert float(abs(run.overlap.std("seed") / planted - 1.0).max()) > 0.2


def test_parts_of_a_start_differ_from_seed_to_seed():
    """Two neurons, two latent directions: covariances of the parts over 400 seeds, each known to 7%."""
    problem = limen.TwoLayer(
        limen.target("z1 + z2"),
        limen.network(2, "tanh"),
        limen.OnePassSGD(1.0),
        start=limen.OverlapStart(((0.3, 0.1), (-0.2, 0.4)), gram=((1.0, 0.3), (0.3, 1.0))),
        inputs=limen.Inputs(variances=(0.25, 2.5), fractions=(2 / 3, 1 / 3)),
    )
    mean, starts = limiting_start(problem), [block_start(problem, 300, seed) for seed in range(400)]
    drawn = np.array([np.append(start.overlap(problem), start.gram) for start in starts])
    wanted = start_covariance(problem, mean.aligned, mean.gram)[: drawn.shape[1], : drawn.shape[1]]
    np.testing.assert_allclose(300 * np.cov(drawn.T), wanted, atol=0.09)


@in_double
def squares(ratio=None, spherical=False):
    """Two square neurons, one teacher: averages and the motion of SGD."""
    motion = Motion(Schedule(jnp.asarray(0.4)), jnp.asarray(1.0), ratio, spherical, True)
    return committee_population("square", 2, np.eye(1), np.ones(1), 0.3), motion


@pytest.mark.parametrize("spherical", [False, True])
@in_double
def test_slopes_of_one_eigenspace_are_isotropic_ones(spherical):
    """Noise, a second layer at its own speed, the sphere."""
    population, motion = squares(jnp.asarray(1.7), spherical)
    parts = [np.array([[1.0, 0.3], [0.3, 0.8]]), np.array([[0.4], [-0.2]]), np.array([1.2, -0.7])]
    plain = motion.slope(population, Overlaps(*map(jnp.asarray, parts)), jnp.asarray(0.0))
    one = Spectrum(*(jnp.asarray(x) for x in ([1.0], [1.0], [[1.0]])))
    state = BlockOverlaps(jnp.asarray(parts[0][None]), jnp.asarray(parts[1][None]), jnp.asarray(parts[2]))
    blocks = block_slope(population, one, motion, state, jnp.asarray(0.0))
    np.testing.assert_allclose(blocks.gram[0], plain.gram, atol=1e-10)
    np.testing.assert_allclose(blocks.overlap[0], plain.overlap, atol=1e-10)
    np.testing.assert_allclose(blocks.second_layer, plain.second_layer, atol=1e-10)


@in_double
def test_lengths_do_not_fluctuate_on_the_sphere():
    """The covariance of one sample's increments is symmetric, positive, and none of it lengthens a neuron."""
    gram = np.array([[[0.7, 0.2], [0.2, 0.5]], [[0.3, -0.1], [-0.1, 0.5]]])
    overlap, lengths = np.array([[[0.3], [0.1]], [[0.2], [-0.25]]]), np.array([[0.8], [0.3]])
    population, motion = squares(None, True)
    state = BlockOverlaps(*(jnp.asarray(x) for x in (gram, overlap, np.array([1.2, -0.7]))))
    spectrum = Spectrum(*(jnp.asarray(x) for x in ([0.5, 2.0], [0.6, 0.4], lengths)))
    sampled = committee_increments(as_activation("square"), 2, np.eye(1), np.ones(1), 0.3)
    found = np.asarray(block_increment_covariance(sampled, spectrum, state, motion, jnp.asarray(0.0)))
    np.testing.assert_allclose(found, found.T, atol=1e-10)
    assert np.linalg.eigvalsh(found).min() > -1e-9 and np.trace(found) > 1.0
    # Packed: overlaps of both eigenspaces (4), then their Gram matrices (2 x 4), then the second layer.
    length = np.zeros((2, len(found)))
    length[0, [4, 8]] = length[1, [7, 11]] = 1.0
    np.testing.assert_allclose(length @ found, 0.0, atol=1e-10)
    slope = block_slope(population, spectrum, motion, state, jnp.asarray(0.0))
    np.testing.assert_allclose(jnp.einsum("bii->i", slope.gram), 0.0, atol=1e-12)


@pytest.mark.parametrize("blocks", [False, True])
@in_double
def test_spread_of_a_linear_neuron_sums_the_noise_at_its_own_time(blocks):
    r"""$\dot M=1-M$, so that a source of one and the rate $0.4e^{-t}$ give $V=0.4(e^{-t}-e^{-2t})/d$."""
    d, times = 50, np.array([0.0, 0.5, 2.0])
    motion = Motion(Schedule(jnp.asarray(0.4), lambda t: jnp.exp(-t)), jnp.asarray(1.0), None, False, True)
    population = committee_population("linear", 1, np.eye(1), np.ones(1), 0.3)
    coefficients = np.zeros((4, 1, 3, 3))
    coefficients[3, 0, 0, 0] = 1.0
    source = Spline(jnp.asarray([0.0, 3.0]), jnp.asarray(coefficients))
    start = [jnp.asarray([[0.8]]), jnp.asarray([[0.3]]), jnp.ones(1)]
    shared = (motion, jnp.asarray(times), source, jnp.asarray(1 / d))
    if blocks:
        spectrum = Spectrum(*(jnp.asarray(x) for x in ([1.0], [1.0], [[1.0]])))
        state = BlockOverlaps(start[0][None], start[1][None], start[2])
        covariance = block_fluctuations_module._spread(population, spectrum, state, *shared, jnp.zeros((3, 3)))[1]
    else:
        covariance = fluctuations_module._spread(population, Overlaps(*start), *shared)[1]
    np.testing.assert_allclose(covariance[:, 0, 0], 0.4 * (np.exp(-times) - np.exp(-2 * times)) / d, rtol=1e-5)


@pytest.mark.parametrize("theory", ["overlap-ode", "block-overlap-ode"])
@pytest.mark.parametrize("rate", [0.2, "0.2/(1+t)", lambda t: 0.2 / (1.0 + t)], ids=["number", "formula", "function"])
def test_momentum_of_a_linear_neuron_is_a_faster_clock(theory, rate):
    r"""$\dot\rho=(-2\rho+\frac{\gamma(t)}{1-\beta}(\rho+\Delta))/(1-\beta)$ for the squared distance, in the time of
    the steps."""
    beta, noise, times = 0.6, 0.3, np.array([0.0, 0.4, 1.0])
    posed = limen.TwoLayer(
        limen.target("z", noise=noise),
        limen.network(1, "linear"),
        limen.OnePassSGD(rate, momentum=beta),
        start=limen.OverlapStart(0.0, gram=[[1.0]]),
    )
    found = limen.predict(posed, times, theory=theory).dataset

    def slope(t, rho):
        gamma = rate if isinstance(rate, float) else 0.2 / (1 + t)
        return (-2 * rho + gamma / (1 - beta) * (rho + noise)) / (1 - beta)

    path = solve_ivp(slope, (0.0, 1.0), [2.0], t_eval=times, rtol=1e-9, atol=1e-11).y[0]
    np.testing.assert_array_equal(found.time, times)
    np.testing.assert_allclose(found.excess_risk, 0.5 * path, rtol=1e-6)


def test_losses_of_a_heavy_target_are_closed_forms_of_the_overlaps():
    r"""Linear neurons on $y=z^3-z$: $E[y^2]=10$, $E[yz]=2$; frozen points miss the loss by half a percent."""
    problem = limen.TwoLayer(
        limen.target("z**3-z"),
        limen.network(2, "linear"),
        limen.OnePassSGD(0.3),
        start=limen.OverlapStart(((0.3,), (0.1,)), gram=((0.6, 0.1), (0.1, 0.5))),
        inputs=limen.Inputs(variances=(1.5, 0.25), fractions=(0.6, 0.4)),
    )
    found = limen.predict(problem, [0.0, 0.5, 2.0]).dataset
    s = np.asarray(problem.inputs.spectrum[0])
    square = np.einsum("b,tbij->t", s, found.block_gram.values) / 4.0
    along = np.einsum("b,tbik->t", s, found.block_overlap.values) / 2.0
    np.testing.assert_allclose(found.test_loss, 0.5 * (10.0 - 4.0 * along + square), rtol=1e-9)
    np.testing.assert_allclose(found.excess_risk, found.test_loss, rtol=1e-9)


@pytest.mark.parametrize("inputs", [{}, {"variances": (0.5, 1.5), "fractions": (0.5, 0.5)}])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"tolerance": -1.0}, "tolerance must be"),
        ({"points": 0}, "points must"),
    ],
)
def test_options_of_rows_are_checked_on_all_inputs(inputs, option, words):
    problem = limen.TwoLayer("z**2", limen.network(1, "z**2"), limen.OnePassSGD(0.3), inputs=limen.Inputs(**inputs))
    with pytest.raises(InputError, match=words):
        limen.predict(problem, [0.0, 1.0], d=100, seeds=1, **option)
