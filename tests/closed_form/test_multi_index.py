"""Several directions on the Stiefel manifold: one direction is `SingleIndex`, growth rates by hand, symmetries, and
refusals."""

import numpy as np
import pytest

import limen
from limen.simulation.effective.stiefel_sgd import stiefel_sgd
from limen.theory.effective.stiefel_flow import stiefel_flow

TIMES = [0.0, 0.3, 0.6, 1.0]


def overlaps(problem, times=TIMES):
    result = limen.predict(problem, times)
    assert result.ok, result.status
    return result.dataset.overlap.values


def test_one_direction_is_the_single_index():
    start = limen.OverlapStart(0.3)
    for link, noise in (("z**2", 0.0), ("tanh(z)", 0.2)):
        one = limen.predict(limen.SingleIndex(link, noise=noise, step=0.03, start=start), TIMES).dataset.overlap.values
        target = limen.target(link.replace("z", "z1"), noise=noise)
        many = overlaps(limen.MultiIndex(target, step=0.03, start=start))[:, 0, 0]
        np.testing.assert_allclose(many, one, atol=2e-3)


def test_exchanging_names_of_directions_exchanges_overlaps():
    start = [[0.4, 0.1], [0.0, 0.3]]
    first = overlaps(limen.MultiIndex("z1*z2", step=0.02, start=limen.OverlapStart(start)))
    turned = [[start[1][1], start[1][0]], [start[0][1], start[0][0]]]
    second = overlaps(limen.MultiIndex("z1*z2", step=0.02, start=limen.OverlapStart(turned)))
    np.testing.assert_allclose(second, first[:, ::-1, ::-1], atol=5e-3)


def test_recovery_is_at_rest_without_noise():
    for formula in ("z1*z2", "z1**2 - z2**2 + 0.5*z1"):
        found = overlaps(limen.MultiIndex(formula, step=0.02, start=limen.OverlapStart(np.eye(2).tolist())))
        np.testing.assert_allclose(found, np.broadcast_to(np.eye(2), found.shape), atol=1e-6)


def test_growth_rates_of_a_product_by_hand():
    # H = [[0, 1], [1, 0]], E[c c^T] = 4 (E f^2 E z^2 + E z1^2 z2^4) = 16: rates 2 - 8 step and -2 - 8 step.
    found = limen.effective.stiefel_escape(limen.MultiIndex("z1*z2", step=0.05))
    assert (found.exponent, found.leap) == (2, 2)
    np.testing.assert_allclose(found.rates, [1.6, 1.6, -2.4, -2.4], rtol=0.02)
    # Label noise adds 4 noise E[grad grad^T] to E[c c^T].
    noisy = limen.effective.stiefel_escape(limen.MultiIndex(limen.target("z1*z2", noise=1.0), step=0.05))
    np.testing.assert_allclose(noisy.rates, [1.5, 1.5, -2.5, -2.5], rtol=0.02)


@pytest.mark.parametrize(
    ("formula", "exponent", "leap"),
    [("z1 + z1*z2", 1, 1), ("z1 + z1*z2*z3", 1, 2), ("z1*z2*z3", 3, 3), ("z1**2 + z2**3 - 3*z2", 2, 3)],
)
def test_exponents_and_leaps(formula, exponent, leap):
    found = limen.effective.stiefel_escape(limen.MultiIndex(formula))
    assert (found.exponent, found.leap) == (exponent, leap)


def test_a_product_at_small_steps_is_a_logistic():
    # h(M) = M11 M22 + M12 M21, so that M = m I moves by dm/dt = 2 m (1 - m^2).
    problem = limen.MultiIndex("z1*z2", step=1e-6, start=limen.OverlapStart([[0.3, 0.0], [0.0, 0.3]]))
    grown = 0.09 / 0.91 * np.exp(4.0 * np.array(TIMES))
    np.testing.assert_allclose(overlaps(problem)[:, 0, 0] ** 2, grown / (1.0 + grown), atol=0.01)


def test_the_frame_stays_orthonormal_and_starts_where_it_should():
    start = [[0.3, 0.1], [0.0, 0.25]]
    problem = limen.MultiIndex("z1*z2", step=0.1, start=limen.OverlapStart(start))
    found = stiefel_sgd.run(problem, np.array([0.0, 1.0, 2.0]), d=30, seed=0).dataset.overlap.values[0]
    np.testing.assert_allclose(found[0], start, atol=1e-12)
    assert np.linalg.norm(found, 2, axis=(1, 2)).max() <= 1.0 + 1e-9


def test_a_random_start_is_at_rest_only_without_a_linear_part():
    with pytest.raises(limen.InputError, match=r"start must be an OverlapStart for this target: .* degree 2, "):
        limen.predict(limen.MultiIndex("z1*z2"), 1.0)
    assert "start must be an OverlapStart" in limen.theories(limen.MultiIndex("z1*z2"))["stiefel-flow"]
    moved = overlaps(limen.MultiIndex("z1 + z1*z2", step=0.02))[-1]
    assert moved[0, 0] > 0.3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "z1*z2", "start": limen.OverlapStart([[1.0, 0.5], [0.5, 1.0]])}, "overlap must have singular"),
        ({"target": "z1*z2", "start": limen.OverlapStart([[0.1, 0.2]])}, "overlap must have 2 rows of 2 numbers"),
        ({"target": "z1*z2 + e"}, "target must not use e"),
        ({"target": "+".join(f"z{i}" for i in range(1, 6))}, "target must have at most 4 directions, got 5"),
        ({"target": "z1*z2", "step": -1.0}, "step"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(limen.InputError, match=words):
        limen.MultiIndex(**arguments)
    assert stiefel_flow.refuses(limen.SingleIndex("tanh"))
