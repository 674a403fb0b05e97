"""The mean-field theory of gradient descent where it can be done by hand."""

import numpy as np
import pytest
from scipy.special import ndtr

import limen
from limen.problem import InputError


def linear_neuron(samples_per_dim: float = 2.0, step: float = 0.5, noise: float = 0.3) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("z", noise=noise),
        limen.network(1, "linear"),
        limen.GradientDescent(step),
        samples_per_dim=samples_per_dim,
    )


def phase_retrieval(activation: str = "square", step: float = 0.1, delta: float = 5.0, **network) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("z**2"),
        limen.network(1, activation, **network),
        limen.GradientDescent(step),
        samples_per_dim=delta,
    )


def eigenvalues_of_covariance(delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Chebyshev nodes and weights of the Marchenko–Pastur law of $X^T X/n$, $n/d=\\delta>1$."""
    angle = np.pi * (np.arange(2000) + 0.5) / 2000
    ratio = 1.0 / delta
    x = 1.0 + ratio + 2.0 * np.sqrt(ratio) * np.cos(angle)
    weight = np.sin(angle) ** 2 / x
    return x, weight / weight.sum()


@pytest.mark.parametrize(("delta", "step", "noise"), [(2.0, 0.5, 0.3), (4.0, 0.8, 0.0), (1.3, 0.4, 1.0)])
def test_a_linear_neuron_is_marchenko_pastur(delta, step, noise):
    x, w = eigenvalues_of_covariance(delta)
    r = 1.0 - step * x
    found = limen.descent.solve(linear_neuron(delta, step, noise), 10, paths=2048, scrambles=1).dataset
    t = np.arange(11)[:, None]
    assert found.overlap.values.squeeze() == pytest.approx((w * (1 - r**t)).sum(1), abs=1e-8)
    u = np.arange(11)
    both = np.array(
        [[(w * (r ** (a + b) + (1 - r**a) * (1 - r**b) * (1 + noise / (delta * x)))).sum() for b in u] for a in u]
    )
    assert found.correlation.values.squeeze() == pytest.approx(both, abs=1e-7)
    response = np.array([[(w * r ** (a - b - 1)).sum() if b < a else 0.0 for b in u] for a in u])
    assert found.response.values.squeeze() == pytest.approx(response, abs=1e-6)
    train = 0.5 * (2 * (w * x * r ** (2 * t)).sum(1) + noise * (1 - 1 / delta + (w * r ** (2 * t)).sum(1) / delta))
    test = 0.5 * (noise + 2 * (w * r ** (2 * t)).sum(1) + noise * (w * (1 - r**t) ** 2 / (delta * x)).sum(1))
    assert found.train_loss.values == pytest.approx(train, abs=1e-6)
    assert found.test_loss.values == pytest.approx(test, abs=1e-6)


def test_the_printed_numbers_of_the_linear_neuron():
    found = limen.predict(linear_neuron(), 10, paths=2048, scrambles=1).dataset
    assert found.overlap.values[10, 0, 0] == pytest.approx(0.91323, abs=1e-5)
    assert found.response.values[10, 3, 0, 0] == pytest.approx(0.15576, abs=1e-5)


def test_the_first_step_of_a_quadratic_neuron():
    """$C(1,0)=1-4\\eta$, $C(1,1)=(1-4\\eta)^2+48\\eta^2/\\delta$, $\\Phi_0(1)=1$, $C_u(1,1)=1+48\\eta^2/\\delta$."""
    eta, delta = 0.1, 5.0
    found = limen.descent.solve(phase_retrieval(step=eta, delta=delta), 1, paths=2**15, scrambles=5).dataset
    gram = found.correlation.values.squeeze()
    assert gram[1, 0] == pytest.approx(1 - 4 * eta, abs=1e-3)
    assert gram[1, 1] == pytest.approx((1 - 4 * eta) ** 2 + 48 * eta**2 / delta, abs=2e-3)
    assert found.amplification.values[1].item() == pytest.approx(1.0, abs=2e-3)
    assert found.hard_variance.values[1].item() == pytest.approx(1 + 48 * eta**2 / delta, abs=3e-3)
    assert (found.overlap.values == 0.0).all()


def test_many_samples_make_train_and_test_loss_equal():
    problem = phase_retrieval("gelu", 0.5, 1e6)
    found = limen.descent.solve(problem, 6, paths=2**14, scrambles=3).dataset
    assert found.train_loss.values == pytest.approx(found.test_loss.values, rel=4e-3)
    few = limen.descent.solve(phase_retrieval("gelu", 0.5, 5.0), 6, paths=2**13, scrambles=1).dataset
    assert few.test_loss.values[-1] > 1.3 * few.train_loss.values[-1]


@pytest.mark.parametrize(("link", "noise"), [("z**2", 0.2), ("sign(z)", 0.0)])
def test_the_test_loss_at_the_start_is_an_integral(link, noise):
    """No overlap: $E\\,\\ell=\\frac12E[y^2]-E[y]E[\\sigma]+\\frac12E[\\sigma^2]$, the same in every scramble."""
    problem = limen.TwoLayer(limen.target(link, noise=noise), limen.network(1, "gelu"), limen.GradientDescent(0.5), 4.0)
    found = limen.descent.solve(problem, 1, paths=1024, scrambles=2).dataset
    z, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    gelu = z * ndtr(z)
    mean, square = (1.0, 3.0) if link == "z**2" else (0.0, 1.0)
    excess = 0.5 * square - mean * (w @ gelu) + 0.5 * (w @ gelu**2)
    assert found.excess_risk.values[0] == pytest.approx(excess, abs=1e-9)
    assert found.test_loss.values[0] == pytest.approx(excess + 0.5 * noise, abs=1e-9)
    assert found.test_loss_spread.values[0] < 1e-12


def two_neurons(order: tuple[int, ...], **changes) -> limen.TwoLayer:
    a, b = (1.0, -2.0), (0.3, -0.4)
    network = limen.network(2, "tanh", tuple(a[j] for j in order), tuple(b[j] for j in order))
    options = {"algorithm": limen.GradientDescent(0.6), "samples_per_dim": 4.0, "loss": "square"} | changes
    return limen.TwoLayer(limen.target("z1 + z1*z2"), network, **options)


def test_permuting_neurons_permutes_everything():
    one, other = (limen.descent.solve(two_neurons(order), 6, paths=2**13, scrambles=1) for order in ((0, 1), (1, 0)))
    # Neurons take different columns of the points, so equality holds up to sampling.
    for name in ("overlap", "gram", "correlation", "response"):
        values, swapped = one.dataset[name].values, other.dataset[name].values
        swapped = swapped[..., ::-1, ::-1] if name != "overlap" else swapped[:, ::-1]
        assert values == pytest.approx(swapped, abs=0.03 * np.abs(values).max()), name
    assert one.dataset.train_loss.values == pytest.approx(other.dataset.train_loss.values, rel=5e-3)


def test_scaling_the_loss_against_the_step_changes_nothing():
    """Outputs and labels twice as large make the square loss four times as large; a quarter of the step undoes it."""
    base = limen.TwoLayer(limen.target("z"), limen.network(1, "tanh", 1.0), limen.GradientDescent(0.8), 3.0)
    scaled = limen.TwoLayer(limen.target("2*z"), limen.network(1, "tanh", 2.0), limen.GradientDescent(0.2), 3.0)
    one, other = (limen.descent.solve(p, 8, paths=2048, scrambles=1).dataset for p in (base, scaled))
    for name in ("overlap", "correlation", "response"):
        assert one[name].values == pytest.approx(other[name].values, rel=1e-9, abs=1e-9), name
    assert 4.0 * one.train_loss.values == pytest.approx(other.train_loss.values, rel=1e-9)


def test_the_response_starts_at_one_and_is_causal():
    found = limen.descent.solve(two_neurons((0, 1)), 5, paths=2048, scrambles=1).dataset
    for s in range(5):
        assert found.response.values[s + 1, s] == pytest.approx(np.eye(2))
        assert (found.response.values[: s + 1, s] == 0.0).all()
    assert found.gram.values[0] == pytest.approx(np.eye(2))
    assert (np.linalg.eigvalsh(found.correlation.values[:, :, 0, 0]) > -1e-9).all()


def test_the_sphere_keeps_every_neuron_at_its_length():
    algorithm = limen.GradientDescent(0.6, spherical=True)
    found = limen.descent.solve(two_neurons((0, 1), algorithm=algorithm), 6, paths=2048, scrambles=2).dataset
    assert np.diagonal(found.gram.values, axis1=1, axis2=2) == pytest.approx(np.ones((7, 2)))


def test_weight_decay_alone_shrinks_geometrically():
    """A network that cannot move (a = 0) feels weight decay only."""
    network = limen.network(1, "tanh", 0.0)
    algorithm = limen.GradientDescent(0.5, weight_decay=0.2)
    problem = limen.TwoLayer(limen.target("z"), network, algorithm, samples_per_dim=2.0)
    found = limen.descent.solve(problem, 5, paths=1024, scrambles=1).dataset
    assert found.gram.values.squeeze() == pytest.approx(0.9 ** (2 * np.arange(6)))


def test_one_eigenvalue_is_isotropic_and_equal_eigenvalues_are_one():
    problem = linear_neuron()
    one = limen.descent.solve(problem, 6, paths=2048, scrambles=1).dataset
    equal = problem.model_copy(update={"inputs": limen.Inputs(variances=(1.0, 1.0), fractions=(0.3, 0.7))})
    two = limen.descent.solve(equal, 6, paths=2048, scrambles=1).dataset
    for name in ("overlap", "gram", "correlation", "response", "train_loss", "test_loss"):
        assert one[name].values == pytest.approx(two[name].values, abs=1e-6), name


def test_divergence_is_detected_and_said():
    found = limen.descent.solve(phase_retrieval(step=0.9, delta=3.0), 30, paths=1024, scrambles=1)
    assert not found.ok and "smaller step" in found.status
    assert np.isfinite(found.dataset.train_loss.values[0]) and np.isnan(found.dataset.train_loss.values[-1])


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (phase_retrieval(), {"paths": 1000}, "power of two"),
        (phase_retrieval(), {"scrambles": 0}, "scrambles"),
        (phase_retrieval(), {"paths": 2**14, "times": 300_000}, "GB"),
        (phase_retrieval(), {"paths": 64, "times": 60}, "paths"),
    ],
)
def test_bad_input_is_a_sentence(problem, options, words):
    with pytest.raises(limen.InputError, match=words) as error:
        limen.descent.solve(problem, options.pop("times", 10), **options)
    assert str(error.value).count(". ") == 0


@pytest.mark.parametrize(("problem", "steps"), [(phase_retrieval("gelu", 0.5, 8.0), 60), (two_neurons((0, 1)), 20)])
def test_the_memory_estimate_is_what_is_taken(problem, steps):
    import tracemalloc

    from limen.theory.descent.solve import checked_memory, run_scramble

    isotropic = problem.inputs.spectrum
    run_scramble(problem, 2, 4096, 0, isotropic)
    tracemalloc.start()
    run_scramble(problem, steps, 4096, 0, isotropic)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert checked_memory(problem, steps, 4096, isotropic) == pytest.approx(peak, rel=0.1)


def test_paths_are_raised_until_their_sets_agree_or_it_is_said_that_they_do_not():
    wild = limen.TwoLayer(
        limen.target("z**2+0.1*z", noise=0.5), limen.network(1, "gelu"), limen.GradientDescent(1.0), 8.0
    )
    few = limen.predict(wild, 9, paths=1024)
    assert not few.ok and "not to be trusted from step" in few.status
    loose = limen.predict(wild, 9, tolerance=0.03)
    assert loose.ok and loose.statistics["path_error"] < 0.03 and loose.statistics["paths"] >= 4096
    # The value of 65536 paths, and of training at d = 1000: 2.709 and 2.715(12).
    assert float(loose.dataset.gram[-1].squeeze()) == pytest.approx(2.709, rel=0.05)
    calm = limen.TwoLayer("z", limen.network(1, "tanh"), limen.GradientDescent(0.5), 5.0)
    assert limen.predict(calm, 4).statistics["paths"] == 4096
    with pytest.raises(InputError, match="tolerance must be between"):
        limen.predict(calm, 4, tolerance=0.0)


def test_a_small_start_that_grows_to_the_size_of_the_target_does_not_diverge():
    def small(**rule):
        network = limen.network(2, "tanh", initial_norm=5e-4)
        return limen.TwoLayer("z", network, limen.GradientDescent(0.5, **rule), 2.0)

    sets = {"paths": 2048, "scrambles": 2, "tolerance": 0.1}
    found = limen.predict(small(), [5], **sets)
    by_conditioning = limen.predict(small(momentum=1e-9), [5], **sets)
    assert found.ok
    np.testing.assert_allclose(found.dataset.test_loss, by_conditioning.dataset.test_loss, rtol=0.03)


@pytest.mark.parametrize(
    ("problem", "times"),
    [
        (limen.TwoLayer("z", limen.network(2, "exp(z)"), limen.GradientDescent(0.1), 1.0), 3),
        (
            limen.TwoLayer(
                "z",
                limen.network(2, "tanh", second_layer=1e155),
                limen.OnePassSGD(0.1),
                start=limen.OverlapStart(0.1),
            ),
            1,
        ),
    ],
)
def test_what_diverges_says_so_without_warnings(problem, times):
    assert not limen.predict(problem, times).ok
