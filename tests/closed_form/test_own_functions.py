"""Functions in the place of formulas, teachers with any Gram matrix, targets and activations where numbers were."""

import jax.numpy as jnp
import numpy as np
import pytest

import limen
from limen.problem import from_description
from limen.problem.own_functions import found_kinks, own_names
from limen.storage.address import spec_of


def cubic(z):
    return z**3 / 3.0


def product(z1, z2):
    return z1 * jnp.tanh(z2)


def gentle(y, f):
    return jnp.log(1.0 + (y - f) ** 2)


def problem(target, activation, loss):
    return limen.TwoLayer(target, limen.network(2, activation), limen.GradientDescent(0.2), 3.0, loss=loss)


@pytest.mark.slow
def test_functions_give_the_numbers_of_their_formulas():
    own = problem(product, cubic, gentle)
    formula = problem("z1*tanh(z2)", "z**3/3", "log(1 + (y - f)**2)")
    assert (own.target.latents, own.network.activation.label, own.loss.name) == (2, "cubic", "gentle")
    found, expected = (limen.predict(p, 3, paths=512, scrambles=2).dataset for p in (own, formula))
    for name in ("train_loss", "test_loss", "gram"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6)
    run, same = (limen.simulate(p, 3, d=20, seeds=1).dataset for p in (own, formula))
    np.testing.assert_allclose(run.train_loss, same.train_loss, rtol=1e-5)


def test_functions_are_kept_by_name_and_source_and_never_executed_on_loading():
    own = problem(product, cubic, gentle)
    described = own.describe()
    assert "z**3 / 3.0" in described["network"]["activation"]["own"]["source"]
    again = from_description(described)
    assert own_names(again) == ["product", "cubic", "gentle"] == own_names(own)
    assert again.describe() == described
    with pytest.raises(
        limen.InputError, match="'product' is known by its source text alone, which limen never executes"
    ):
        limen.predict(again, 2, paths=256, scrambles=2)


def test_what_cannot_be_stored_or_sent_is_refused_in_a_sentence(tmp_path):
    inner = [2.0]
    hidden = problem("z", lambda z: inner[0] * z, "square")
    experiment = limen.experiment(hidden, times=2, d=20)
    with pytest.raises(limen.InputError, match="the function 'lambda' cannot be stored"):
        spec_of(experiment.experiment)
    with pytest.raises(limen.InputError, match="workers of a sweep cannot have your function 'cubic'"):
        limen.sweep(problem("z", cubic, "square"), {"algorithm.step": "0.1:0.2:2"})
    with pytest.raises(limen.InputError, match="is a Python function, which a file cannot hold"):
        problem("z", cubic, "square").save(tmp_path / "own.toml")
    power = 4
    assert "# with power = 4" in limen.activation(lambda z: z**power).own.source


@pytest.mark.parametrize(
    ("pose", "named"),
    [
        (lambda: limen.network(2, np.tanh), "activation 'tanh'"),
        (lambda: limen.target(np.sin), "target 'sin'"),
        (lambda: limen.target(lambda z1, z2: z1 * np.sin(z2)), "target 'lambda'"),
        (lambda: problem("z", cubic, lambda y, f: np.abs(y - f)), "loss 'lambda'"),
        (lambda: limen.EntrywiseDescent(0.1, lambda g: np.tanh(g)), "rule"),
    ],
)
def test_functions_written_with_numpy_are_refused_where_they_are_given(pose, named):
    with pytest.raises(limen.InputError) as caught:
        pose()
    assert str(caught.value) == f"{named} must be a function JAX can follow, and is not: write it with jax.numpy."


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda z: jnp.sum(z), "must act on every entry alone"),
        (lambda z: jnp.log(z), "must be finite"),
        (lambda z: z.lost(), "cannot be evaluated on arrays"),
    ],
)
def test_functions_that_cannot_serve_are_refused(function, said):
    with pytest.raises(limen.InputError, match=said):
        limen.activation(function, name="mine")


def test_kinks_are_found_by_looking():
    assert found_kinks(jnp.tanh) == () == found_kinks(lambda z: jnp.tanh(10.0 * z))
    np.testing.assert_allclose(found_kinks(lambda z: jnp.abs(z - 1 / 3) + jnp.sign(z + 2.0)), [-2.0, 1 / 3], atol=1e-8)
    relu, own = limen.activation("relu"), limen.activation(lambda z: jnp.maximum(z, 0.0), name="mine")
    assert own.kinks == relu.kinks == (0.0,)
    np.testing.assert_allclose(
        limen.gaussian.hermite_coefficients(own, 6), limen.gaussian.hermite_coefficients(relu, 6), atol=1e-12
    )


@pytest.mark.slow
def test_teachers_with_any_gram_matrix():
    gram = np.array([[1.0, 0.5], [0.5, 2.0]])
    mixed = limen.target("z1*z2", gram=gram)
    points = np.random.default_rng(0).standard_normal((200_000, 2))
    labels = np.asarray(mixed.function(points, 0.0 * points[:, 0]))
    teachers = points @ np.linalg.cholesky(gram).T
    np.testing.assert_allclose(labels, teachers[:, 0] * teachers[:, 1], rtol=1e-5, atol=1e-5)
    assert limen.target("z1*z2", gram=np.eye(2)).function(points[:3], points[:3, 0]) == pytest.approx(
        points[:3, 0] * points[:3, 1], rel=1e-5
    )
    # The excess risk of a zero network is half the second moment of the label, E[(z1 z2)^2] = P11 P22 + 2 P12^2.
    still = limen.TwoLayer(
        mixed, limen.network(1, "tanh", second_layer=0.0), limen.OnePassSGD(0.1), start=limen.OverlapStart(0.0)
    )
    risk = limen.predict(still, [0.5]).dataset.excess_risk
    assert float(risk[0]) == pytest.approx(0.5 * (2.0 + 2 * 0.25), rel=1e-4)
    for wrong, said in ((np.ones((2, 2)), "positive definite"), (np.eye(3), r"shape \(2, 2\)")):
        with pytest.raises(limen.InputError, match=said):
            limen.target("z1*z2", gram=wrong)


def test_random_features_and_thresholds_take_targets_and_activations():
    by_target = limen.kernel.random_features(2.0, 3.0, 0.1, "relu", target=limen.target("2*z + z**2", noise=0.3))
    by_numbers = limen.kernel.random_features(2.0, 3.0, 0.1, "relu", linear=2.0, nonlinear=2.0, noise=0.3)
    assert by_target.test == pytest.approx(by_numbers.test, rel=1e-9)
    two = limen.kernel.random_features(2.0, 3.0, 0.1, "relu", target="3*z1 + 4*z2 + z1*z2")
    assert two.test == pytest.approx(limen.kernel.random_features(2.0, 3.0, 0.1, "relu", 5.0, 1.0).test, rel=1e-6)
    with pytest.raises(limen.InputError, match="must be left out with a target"):
        limen.kernel.random_features(2.0, 3.0, 0.1, "relu", linear=2.0, target="z")
    expected = limen.flow.interpolation_threshold([0.0, 0.0, 0.0, 1.0], 0.3)
    assert limen.flow.interpolation_threshold("hermite:3", 0.3) == pytest.approx(expected)
    assert limen.flow.interpolation_threshold(lambda z: (z**3 - 3 * z) / 6**0.5, 0.3) == pytest.approx(
        expected, rel=1e-6
    )
    assert limen.flow.adiabatic(limen.activation("hermite:3"), 0.3, 1.0).dataset.gamma[-1] > 0.0


@pytest.mark.slow
def test_more_than_eight_latents_where_the_theory_affords_it():
    k = 12
    still = limen.TwoLayer(
        f"committee:{k}",
        limen.network(1, "saad-solla", second_layer=0.0),
        limen.OnePassSGD(0.1),
        start=limen.OverlapStart(0.0),
    )
    # E[erf(z/sqrt(2))^2] = 1/3 for a standard normal z.
    assert float(limen.predict(still, [0.5]).dataset.excess_risk[0]) == pytest.approx(1.0 / (6 * k), rel=1e-6)
    with pytest.raises(limen.InputError, match="at most 8 directions for its leap, got 12"):
        limen.link.leap(f"committee:{k}")
    with pytest.raises(limen.InputError, match="k from 1 to 32"):
        limen.target("committee:33")


def falling(t):
    return 0.4 / (1.0 + t)


@pytest.mark.slow
def test_rates_may_be_functions_of_the_time():
    start = limen.OverlapStart(0.2)

    def posed(rate, momentum=0.0):
        sgd = limen.OnePassSGD(rate, momentum=momentum)
        return limen.TwoLayer("z", limen.network(1, "saad-solla"), sgd, start=start)

    for momentum in (0.0, 0.5):
        own, formula = posed(falling, momentum), posed("0.4/(1 + t)", momentum)
        found, expected = (limen.predict(p, [0.5, 1.0]).dataset.test_loss for p in (own, formula))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    run, same = (limen.simulate(posed(r), [1.0], d=20, seeds=1).dataset for r in (falling, "0.4/(1 + t)"))
    np.testing.assert_allclose(run.overlap, same.overlap, rtol=1e-5)
    with pytest.raises(limen.InputError, match="rate must be finite and positive"):
        limen.OnePassSGD(lambda t: t - 0.5)
