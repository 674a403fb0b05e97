"""The diffusion of the overlaps: its volatility, and its paths against the exact chain."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from limen.gaussian.keys import stream_keys
from limen.precision import in_double
from limen.problem import InputError
from limen.problem.activations import as_activation
from limen.simulation.one_pass.overlap_chain import chain
from limen.theory.one_pass.diffusion import _sphere_path, sphere_diffusion, sphere_drift_correction, sphere_volatility
from limen.theory.one_pass.increments import committee_increments, increment_covariance
from limen.theory.one_pass.overlap_diffusion import diffusion
from limen.theory.one_pass.overlap_equations.overlap_flow import motion_of
from limen.theory.one_pass.overlaps import Overlaps

M, RATE, NOISE = 0.5, 0.08, 0.3


def test_volatility_numbers():
    assert sphere_volatility(M, RATE, NOISE) == pytest.approx(34.38, abs=0.005)
    without = 4 * (1 - M**2) * (12 * (1 - M**2) * (1 + 2 * M**2) + NOISE)
    assert without == pytest.approx(41.40)
    assert sphere_volatility(M, 0.0, NOISE) == pytest.approx(without - (4 * M * (1 - M**2)) ** 2)
    assert sphere_volatility(np.array([0.0, 1.0]), RATE, 0.0) == pytest.approx([48.0, 0.0], abs=1e-9)


@pytest.mark.slow
def test_volatility_is_that_of_the_chain_and_without_the_norm_term_it_is_not():
    d, steps, seeds = 4000, 1000, 12_000
    run = chain([[1.0]], [[M]], [[1.0]], [1.0], [1.0], "square", RATE, NOISE, d, [steps], seeds, spherical=True).dataset
    moved = run.overlap.values.ravel() - M
    # Variance in units of (rate/d)^2 per step; its standard error from the fourth moment.
    scaled = (moved - moved.mean()) ** 2 / (steps * (RATE / d) ** 2)
    error = scaled.std() / np.sqrt(seeds)
    # The drift's slope widens the law by exp(2 f' t), f' = 4 (1 - 6 rate)(1 - 3 m^2) - 2 rate noise.
    time = steps * RATE / d
    widened = 1 + time * (4 * (1 - 6 * RATE) * (1 - 3 * M**2) - 2 * RATE * NOISE)
    assert abs(scaled.mean() - widened * sphere_volatility(M, RATE, NOISE)) < 3.5 * error
    assert abs(scaled.mean() - widened * 41.40) > 6 * error
    assert abs(scaled.mean() - widened * 39.15) > 4 * error


@pytest.mark.slow
def test_paths_have_the_moments_of_the_chain():
    """Mean and spread at two times."""
    d, times, start = 1000, np.array([0.3, 0.8]), 0.4
    steps = np.rint(times * d / 0.05).astype(int)
    exact = chain([[1.0]], [[start]], [[1.0]], [1.0], [1.0], "square", 0.05, NOISE, d, steps, 600, spherical=True)
    closed = sphere_diffusion(start, 0.05, NOISE, d, times, 4000)
    one, other = exact.dataset.overlap, closed.dataset.overlap
    error = np.sqrt(one.var("seed") / 600 + other.var("seed") / 4000)
    assert float(np.abs(one.mean("seed") - other.mean("seed")).max()) < 4 * float(error.max())
    # The spread of 600 runs is known to 3%.
    np.testing.assert_allclose(one.std("seed"), other.std("seed"), rtol=0.12)


def test_the_drift_of_order_one_over_d_is_that_of_one_step():
    """The exact mean of one projected step, by quadrature over fields, label noise and |x|^2, at two dimensions."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = weights / weights.sum()
    field, other, label, length = np.meshgrid(nodes, nodes, nodes, nodes, indexing="ij")
    joint = np.einsum("i,j,k,l->ijkl", weights, weights, weights, weights)
    latent = M * field + np.sqrt(1 - M**2) * other
    drift = 4 * M * ((1 - 6 * RATE) * (1 - M**2) - RATE * NOISE / 2)
    found = []
    for d in (20_000, 40_000):
        g = RATE / d * 2 * field * (latent**2 - field**2 + np.sqrt(NOISE) * label)
        square = field**2 + other**2 + (d - 2) + np.sqrt(2.0 * (d - 2)) * length
        moved = (M + g * latent) / np.sqrt(1 + 2 * g * field + g**2 * square) - M
        found.append(d * ((joint * moved).sum() * d / RATE - drift))
    assert found == pytest.approx([float(sphere_drift_correction(M, RATE, NOISE))] * 2, rel=1e-2)


def committee_covariance(gram, overlap, rate, noise, spherical, quadratic=1.0):
    """Covariance of increments of z^2 units, without its quadratic term for `quadratic` = 0."""
    p, k = np.shape(overlap)
    sampled = committee_increments(as_activation("square"), p, np.eye(k), np.ones(k), noise)
    start = Overlaps(*(jnp.asarray(part, dtype=float) for part in (gram, overlap, np.ones(p))))
    motion = motion_of(rate * quadratic, p, 1, 0.0, spherical, np.array([0.0, 1.0]))
    return np.asarray(increment_covariance(sampled, start, motion, jnp.zeros(())))[: p * (p + k), : p * (p + k)]


def test_general_volatility_of_one_neuron_is_the_closed_one():
    found = in_double(committee_covariance)([[1.0]], [[M]], RATE, NOISE, True)
    np.testing.assert_allclose(found, [[float(sphere_volatility(M, RATE, NOISE)), 0.0], [0.0, 0.0]], atol=1e-10)


def test_general_volatility_is_that_of_single_steps_and_without_the_quadratic_term_it_is_not():
    """Two neurons and one teacher off the sphere, a million single steps of SGD at d = 4000."""
    gram, overlap, d, rate, count = np.array([[1.0, 0.2], [0.2, 0.8]]), np.array([[0.3], [0.5]]), 4000, 0.5, 1_000_000
    generator = np.random.default_rng(0)
    factor = np.linalg.cholesky(np.block([[gram, overlap], [overlap.T, np.ones((1, 1))]]))
    normals = generator.standard_normal((3, count))
    square = (normals**2).sum(axis=0) + generator.chisquare(d - 3, count)
    fields = factor @ normals
    residual = fields[2] ** 2 - (fields[:2] ** 2).mean(axis=0) + np.sqrt(NOISE) * generator.standard_normal(count)
    push = 2 * fields[:2] * residual
    inward = push[:, None] * fields[:2]
    moved = inward + inward.swapaxes(0, 1) + rate / (2 * d) * square * push[:, None] * push
    flat = np.concatenate([push * fields[2], moved.reshape(4, -1)])
    flat = flat - flat.mean(axis=1, keepdims=True)
    mean = flat @ flat.T / count
    error = np.sqrt((flat**2 @ (flat**2).T / count - mean**2) / count)
    exact = in_double(committee_covariance)(gram, overlap, rate, NOISE, False)
    assert np.abs((mean - exact) / error).max() < 4.5
    without = in_double(committee_covariance)(gram, overlap, rate, NOISE, False, quadratic=0.0)
    assert np.abs((mean - without) / error).max() > 9


@pytest.mark.slow
def test_general_paths_have_the_moments_of_the_closed_ones():
    d, times = 2000, [0.2, 0.5]
    general = diffusion(
        1.0, 0.4, 1.0, 1.0, 1.0, "square", RATE, NOISE, d, times, 300, spherical=True, steps_per_time=200
    )
    closed = sphere_diffusion(0.4, RATE, NOISE, d, times, 4000).dataset.overlap
    found = general.dataset.overlap
    assert (general.kind, general.dataset.gram.shape) == ("theory", (300, 2, 1, 1))
    np.testing.assert_allclose(general.dataset.gram, 1.0, atol=1e-12)
    error = np.sqrt(found.var("seed") / 300 + closed.var("seed") / 4000)
    # The part of order 1/d of the drift is in the closed one only.
    assert float((np.abs(found.mean("seed") - closed.mean("seed")) - 4 * error).max()) < 3 / d
    np.testing.assert_allclose(found.std("seed"), closed.std("seed"), rtol=0.15)


def test_what_is_refused():
    with pytest.raises(InputError, match="m0 must lie"):
        sphere_diffusion(1.2, 0.05, 0.0, 100, [1.0], 2)
    with pytest.raises(InputError, match="times must be"):
        sphere_diffusion(0.2, 0.05, 0.0, 100, [1.0, 0.5], 2)
    with pytest.raises(InputError, match="d must be a whole number"):
        diffusion(1.0, 0.4, 1.0, 1.0, 1.0, "square", RATE, NOISE, 1, [0.1], 2)
    with pytest.raises(InputError, match="steps_per_time must be"):
        diffusion(1.0, 0.4, 1.0, 1.0, 1.0, "square", RATE, NOISE, 100, [0.1], 2, steps_per_time=0)


@in_double
def test_sphere_paths_without_noise_solve_their_equation():
    """Volatility zero and the correction m(2 m^2 - 5): the polynomials leave out the factor m."""
    rate, noise, d, times = 0.05, 0.3, 20.0, np.array([0.2, 0.5, 1.2])

    def slope(t, m):
        return 4 * m * ((1 - 6 * rate) * (1 - m**2) - rate * noise / 2) - m * (5 - 2 * m**2) / d

    polynomials = jnp.asarray([[0.0, 0.0], [-5.0, 2.0]])
    lengths = jnp.asarray(np.diff(times, prepend=0.0))
    keys = stream_keys((0, 1), 20, "diffusion")
    found = _sphere_path(128, jnp.asarray([0.2, -0.5]), lengths, jnp.asarray([rate, noise, d]), polynomials, keys)
    for start, path in zip((0.2, -0.5), np.asarray(found).T, strict=True):
        expected = solve_ivp(slope, (0.0, 1.2), [start], t_eval=times, rtol=1e-10, atol=1e-12).y[0]
        np.testing.assert_allclose(path, expected, rtol=2e-4)


def test_kicks_of_the_general_diffusion_have_the_covariance_of_increments():
    """One Euler step of one neuron off the sphere, 8000 seeds; moments of one sample by Gauss–Hermite."""
    q, m, rate, d, dt, seeds = 0.8, 0.3, 0.2, 500, 1e-3, 8000
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    x, y, z = np.meshgrid(nodes, nodes, nodes, indexing="ij")
    joint = weights[:, None, None] * weights[:, None] * weights / weights.sum() ** 3
    field = m * x + np.sqrt(q - m**2) * y
    push = 2 * field * (x**2 - field**2 + np.sqrt(NOISE) * z)
    moves = np.stack([push * x, 2 * push * field + rate * push**2]).reshape(2, -1)
    mean = moves @ joint.ravel()
    expected = (moves * joint.ravel()) @ moves.T - np.outer(mean, mean)
    run = diffusion(q, m, 1.0, 1.0, 1.0, "square", rate, NOISE, d, [dt], seeds, steps_per_time=1000).dataset
    found = np.stack([run.overlap.values.ravel(), run.gram.values.ravel()])
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(np.cov(found) / (dt * rate / d) / scale, expected / scale, atol=0.08)
    np.testing.assert_allclose(
        (found.mean(axis=1) - [m, q]) / dt, mean, atol=5 * np.sqrt(rate / d * expected.max() / dt / seeds)
    )


def test_the_risk_of_sphere_paths_is_that_of_phase_retrieval():
    """Half of E(z^2 - x^2)^2 at correlation m: 3 - (1 + 2 m^2)."""
    found = sphere_diffusion(0.4, 0.05, 0.0, 1000, [0.0, 0.1], 3).dataset
    assert float(found.excess_risk[0, 0]) == pytest.approx(3 - (1 + 2 * 0.16))
    np.testing.assert_allclose(found.excess_risk, 2 - 2 * found.overlap[:, :, 0, 0] ** 2)
