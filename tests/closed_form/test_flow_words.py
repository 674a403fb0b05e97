"""Activations and targets of the flow experiments as a user writes them, and where their numbers go."""

import numpy as np
import pytest

import limen
import limen.flow
from limen.experiments.flow.flow_witness import flow_problem
from limen.experiments.flow.flow_words import (
    coefficients,
    flow_activation,
    flow_target,
    noise_series,
    series_label,
)
from limen.experiments.flow.large_networks import LargeNetworks
from limen.experiments.flow.overfitting_bound import OverfittingBound
from limen.experiments.flow.sgd_beside_flow import SGDBesideFlow


def test_lists_are_hermite_coefficients():
    assert coefficients("0, 0.8, 0.6") == (0.0, 0.8, 0.6) and coefficients("0 1") == (0.0, 1.0)
    assert coefficients("tanh") is None and coefficients("z**2") is None and coefficients("1") is None
    assert flow_activation("0, 0.8, 0.6, 0").hermite == (0.0, 0.8, 0.6)
    assert flow_target("0, 1", 0.3).hermite == (0.0, 1.0) and flow_target("tanh(z)", 0.3).noise == 0.3


def test_names_are_cut_at_degree_three():
    """z^2 = 1 + sqrt(2) he_2 is whole; of tanh degrees 1 and 3 are left."""
    assert flow_activation("z**2").hermite == pytest.approx((1.0, 0.0, 2.0**0.5))
    cut = flow_activation("tanh").hermite
    assert cut is not None and len(cut) == 4 and cut[0] == cut[2] == 0.0 and cut[1] == pytest.approx(0.6057, abs=1e-3)
    assert noise_series("0.3, 0.8, 0.6") == pytest.approx([0.0, 0.0, 0.36])
    assert flow_problem(4, 0.5, 0.1, "tanh", "z").network.activation.hermite == cut


def test_labels():
    assert series_label("0, 0.8, -0.6") == r"$0.8\,he_1-0.6\,he_2$"
    assert series_label("0, 1") == "$he_1$" and series_label("hermite:2") == "$he_{2}$"


@pytest.mark.parametrize("words", ["0, 1, 0, 0, 1", "1, 0", "nonsense"])
def test_bad_activations_are_refused(words):
    with pytest.raises(limen.InputError, match=r"activation|nonsense"):
        flow_activation(words)


def test_noise_needs_more_than_a_linear_part():
    with pytest.raises(limen.InputError, match="degree 2"):
        noise_series("0, 1")


def test_large_networks_pose_their_problems():
    chosen = LargeNetworks(widths="4 16", exponents="0 0.5", second_layer=2.0, trained=False, signal=False)
    problem = chosen.problem(16, 0.5)
    assert problem.network.second_layer == 8.0 and not problem.network.train_second_layer
    assert problem.samples_per_dim == pytest.approx(16 * 0.3) and problem.target.hermite == (0.0, 0.0)
    assert LargeNetworks(signal=True).problem(10, 0.0).target.hermite == (0.0, 1.0)
    with pytest.raises(limen.InputError, match="exponents"):
        LargeNetworks(exponents="0.5")


@pytest.mark.parametrize("chosen", [{}, {"activation": "sigmoid"}, {"activation": "sin(z)", "target": "0, 0.8, 0.6"}])
def test_bounds_hold_for_other_problems(chosen):
    """Second layer and gap of the theory stay below their bounds at every time."""
    problem, times = OverfittingBound(**chosen).problem(4), np.array([0.0, 0.5, 2.0, 6.0])
    found = limen.flow.solve(problem, times, tolerance=0.05).dataset
    bounds = limen.flow.overfitting_bounds(problem, times).dataset
    assert (np.abs(found.second_layer.values[:, 0]) <= bounds.second_layer_bound.values + 1e-9).all()
    assert ((found.test_loss - found.train_loss).values <= bounds.gap_bound.values).all()


def test_sgd_keeps_the_clock_of_the_flow():
    """Steps of size eta advance the time by eta over the samples per dimension."""
    chosen = SGDBesideFlow(samples_per_dim=4.0, rates="0.25, 1", horizon=2.0, batch_fraction=0.2)
    np.testing.assert_allclose(chosen.steps(0.25) * 0.25 / 4.0, chosen.times())
    assert chosen.steps(1.0)[-1] == 8 and chosen.sgd(1.0).algorithm == limen.GradientDescent(
        1.0, spherical=True, batch_fraction=0.2
    )
    with pytest.raises(limen.InputError, match="horizon"):
        SGDBesideFlow(rates="0.01")
