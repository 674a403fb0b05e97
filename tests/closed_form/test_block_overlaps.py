"""One-pass SGD on inputs of several variances: limits, closed forms, stored numbers, mistakes."""

import numpy as np
import pytest
from scipy.linalg import expm

import limen
from limen import InputError
from limen.gaussian.block_starts import block_start, limiting_start
from limen.theory.one_pass import block_ode

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
    assert block_ode.refuses(neuron(law="rademacher")).startswith("it is a theory of Gaussian inputs")
    with pytest.raises(InputError, match="Markov chain on Gaussian inputs only, not rademacher"):
        limen.simulate(neuron(law="rademacher"), 1.0, d=50, seeds=1, simulator="overlap-chain")
    with pytest.raises(InputError, match="at least width"):
        limen.simulate(neuron(**TWO), 1.0, d=4, seeds=1, simulator="overlap-chain")
