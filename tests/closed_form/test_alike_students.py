"""Committees whose students start alike: a few numbers must give what the equations of all pairs give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from limen.experiments.one_pass.sgd_regimes import SGDRegimes
from limen.problem import InputError
from limen.theory.one_pass import alike_students
from limen.theory.one_pass.alike_students import AlikeErfPopulation, alike_flows, alike_noise_dominated_flow
from limen.theory.one_pass.overlap_equations.right_hand_side import Speeds, overlap_slope, right_hand_side
from limen.theory.one_pass.overlaps import Overlaps

# Compilations, not computations, take the time.
pytestmark = pytest.mark.slow

TEACHERS, WEIGHTS = np.array([[1.0, 0.2], [0.2, 0.7]]), np.array([1.3, -0.4])
NORM, BETWEEN, TOWARD = 1.1, 0.3, np.array([0.4, -0.2])


def full(p: int, norm: float, between: float) -> np.ndarray:
    return np.where(np.eye(p, dtype=bool), norm, between)


def general_path(experiment: SGDRegimes, total: float) -> np.ndarray:
    """Excess risk by the equations of all pairs under a Runge–Kutta method of order 8."""
    p, times = experiment.width(), experiment.times()
    rate = float(experiment.rates(np.array(total)))

    def split(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return state[: p * p].reshape(p, p), state[p * p :].reshape(p, 1)

    def slope(_, state: np.ndarray) -> np.ndarray:
        gram, overlap = split(state)
        found = right_hand_side(0.5 * (gram + gram.T), overlap, 1.0, 1.0, 1.0, "saad-solla", rate, experiment.noise)
        return np.concatenate([found["Q"].ravel(), found["M"].ravel()])

    m = experiment.advantage
    start = np.concatenate([full(p, 1.0, m**2).ravel(), np.full(p, m)])
    solution = solve_ivp(slope, (0.0, times[-1]), start, "DOP853", times, rtol=1e-9, atol=1e-11)
    return np.array([risk(*split(state), np.eye(1), 1.0, np.ones(1)) for state in solution.y.T])


def risk(gram: np.ndarray, overlap: np.ndarray, teachers: np.ndarray, a: float, weights: np.ndarray) -> float:
    """Half the mean square error of a committee of erf(z/sqrt(2)): a sum of arcsines over all pairs of units."""
    p, k = overlap.shape
    readout = np.concatenate([np.full(p, -a / p), weights / k])
    joint = np.block([[gram, overlap], [overlap.T, teachers]])
    width = np.sqrt(1.0 + np.diagonal(joint))
    return float(readout @ np.arcsin(joint / np.outer(width, width)) @ readout) / np.pi


@pytest.mark.parametrize(("p", "d"), [(1, None), (2, None), (5, None), (5, 40)])
def test_the_slope_is_that_of_all_pairs(p, d):
    between = NORM if p == 1 else BETWEEN
    rate, noise = 2.5, 0.3
    expected = right_hand_side(
        full(p, NORM, between), np.tile(TOWARD, (p, 1)), TEACHERS, 0.8, WEIGHTS, "erf", rate, noise, d, True
    )
    with jax.enable_x64(True):
        numbers = (TEACHERS, WEIGHTS, noise, 1.0, float(p))
        population = AlikeErfPopulation(*(jnp.asarray(number) for number in numbers))
        parts = (full(2, NORM, between), np.tile(TOWARD, (2, 1)), np.full(2, 0.8))
        speeds = Speeds(1.0, rate / p, 1.0)
        inverse_d = None if d is None else jnp.asarray(1.0 / d)
        overlaps = Overlaps(*(jnp.asarray(part) for part in parts))
        slope = overlap_slope(population, overlaps, speeds, inverse_d)
        excess, loss = (float(part) for part in population.losses(overlaps))
    two = np.arange(2) % p
    assert np.asarray(slope.gram) == pytest.approx(expected["Q"][np.ix_(two, two)], abs=2e-14)
    assert np.asarray(slope.overlap) == pytest.approx(expected["M"][two], abs=2e-14)
    assert np.asarray(slope.second_layer) == pytest.approx(expected["a"][two], abs=2e-14)
    # Fields of erf(z) are those of erf(z/sqrt(2)) at twice the covariance.
    doubled = (2.0 * full(p, NORM, between), 2.0 * np.tile(TOWARD, (p, 1)), 2.0 * TEACHERS)
    assert excess == pytest.approx(risk(*doubled, 0.8, WEIGHTS), abs=1e-14)
    assert loss == excess + 0.5 * noise


@pytest.mark.parametrize(("kappa", "p"), [(0.0, 1), (0.2, 3), (0.3, 6)])
def test_the_experiment_is_that_of_all_pairs(kappa, p):
    experiment = SGDRegimes(kappa=kappa, horizon=2.0)
    assert experiment.width() == p
    theory = experiment.theory().dataset.excess_risk
    for total in (-0.3, 0.0):
        assert theory.sel(total=total).values == pytest.approx(general_path(experiment, total), abs=1e-8)
    # The comparison is not blind: half of the label noise shows.
    other = experiment.model_copy(update={"noise": 0.5 * experiment.noise})
    assert abs(theory.sel(total=0.0).values - general_path(other, 0.0)).max() > 1e-3


def test_equal_students_are_one_student_with_a_pth_of_the_noise():
    # The sizes are those of the experiment: nothing more to compile.
    times, rates, rest = np.linspace(0.5, 6.0, 12), np.linspace(0.0, 0.9, 46), (0.4, 1.0, 1.0, 1.0, "saad-solla")
    one = alike_flows(1, NORM, NORM, *rest, rates, 0.3, times).dataset
    many = alike_flows(9, NORM, NORM, *rest, 9.0 * rates, 0.3, times).dataset
    for name in ("gram", "overlap", "excess_risk"):
        assert many[name].values == pytest.approx(one[name].values, abs=1e-12)
    alone = [alike_noise_dominated_flow(p, NORM, NORM, *rest, 0.3, times[:5]).dataset for p in (1, 9)]
    assert alone[1].gram.values == pytest.approx(alone[0].gram.values, abs=1e-12)
    assert (alone[0].overlap.values == 0.4).all()


def test_another_width_compiles_nothing(monkeypatch):
    SGDRegimes(kappa=0.1).theory()
    traced = []
    monkeypatch.setattr(alike_students, "tilted_squares", lambda *parts: traced.append(parts))
    for kappa in (0.0, 0.21, 0.35, 0.5):
        assert SGDRegimes(kappa=kappa).theory().ok
    assert not traced


def test_mistakes_are_named():
    rest = (np.array([1.0]), 0.1, 1.0)
    with pytest.raises(InputError, match=r"students must be a positive whole number, got 0\."):
        alike_flows(0, 1.0, 0.0, 0.2, 1.0, 1.0, 1.0, "erf", *rest)
    with pytest.raises(InputError, match=r"activation must be erf\(c\*z\)"):
        alike_flows(2, 1.0, 0.0, 0.2, 1.0, 1.0, 1.0, "relu", *rest)
    with pytest.raises(InputError, match=r"rate must have shape \(sets,\)"):
        alike_flows(2, 1.0, 0.0, 0.2, 1.0, 1.0, 1.0, "erf", 1.0, 0.1, 1.0)
    # Three unit vectors cannot have pairwise overlaps of -0.6, two can.
    with pytest.raises(InputError, match="positive semidefinite"):
        alike_flows(3, 1.0, -0.6, 0.0, 1.0, 1.0, 1.0, "erf", *rest)
