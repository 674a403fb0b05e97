"""Times between whole steps: lines are read exactly, curves to second order, and later overflow breaks nothing."""

import numpy as np
import pytest

import limen
from limen import effective
from limen.simulation.effective.recorded_runs import recorded_steps


def test_lines_are_read_exactly_and_whole_steps_as_they_are():
    steps = recorded_steps(0.5, np.array([0.0, 0.011, 0.1, 0.12, 0.3]), 60)
    assert steps.whole.tolist() == [0, 1, 2, 12, 14, 15, 36]
    assert np.allclose(steps.exact, [0.0, 1.32, 12.0, 14.4, 36.0])
    records = np.stack([3.0 + 2.0 * steps.whole, -1.0 * steps.whole])
    assert np.allclose(steps.at_times(records, axis=1), [3.0 + 2.0 * steps.exact, -steps.exact])
    assert np.allclose(steps.at_times(records.T, axis=0), steps.at_times(records, axis=1).T)


def test_curves_are_read_to_second_order_in_the_step():
    """A parabola t² is off by (a step)² x part x (1 - part), the nearest step by half a step times its slope."""
    times = np.array([0.31, 0.77])
    for d in (10, 100):
        steps = recorded_steps(1.0, times, d)
        off = steps.at_times((steps.whole / d) ** 2.0, axis=0) - times**2
        part = times * d - np.floor(times * d + 1e-9)
        assert np.allclose(off, part * (1.0 - part) / d**2, atol=1e-12)


def test_a_run_that_overflows_later_is_finite_before():
    steps = recorded_steps(1.0, np.array([0.2, 0.25]), 10)
    assert steps.at_times(np.array([1.0, np.inf]), axis=0).tolist() == [1.0, np.inf]
    two = recorded_steps(1.0, np.array([0.2, 0.3]), 10)
    assert two.at_times(np.array([1.0, np.inf]), axis=0)[0] == 1.0


@pytest.mark.parametrize("simulator", ["spherical-sgd", "spherical-chain"])
def test_between_two_steps_a_run_lies_on_their_line(simulator):
    problem, d = limen.OnlinePCA(2.0, 0.5, limen.OverlapStart(0.4)), 20
    step = problem.step / d
    whole = limen.simulate(problem, [3 * step, 4 * step], d, 3, simulator).dataset.overlap.values
    between = limen.simulate(problem, [3.25 * step], d, 3, simulator).dataset
    assert np.allclose(between.overlap.values[:, 0], 0.75 * whole[:, 0] + 0.25 * whole[:, 1], atol=1e-12)
    assert between.step.values.tolist() == pytest.approx([3.25])


def test_mixtures_and_xor_lie_on_the_line_too():
    for problem, simulators in (
        (limen.GaussianMixture(2, 4.0, 0.1, 1.0), ("mixture-sgd", "mixture-chain")),
        (limen.XorMixture(4, 4.0, 0.1, 1.0), ("xor-sgd", "xor-chain")),
    ):
        for simulator in simulators:
            found = limen.simulate(problem, [0.1, 0.125, 0.15], 20, 2, simulator).dataset.orthogonal_gram
            middle = 0.5 * (found.sel(time=0.1) + found.sel(time=0.15))
            assert np.allclose(found.sel(time=0.125), middle, atol=1e-12)
            assert not np.allclose(found.sel(time=0.1), found.sel(time=0.15), atol=1e-6)


def test_between_steps_the_mean_is_off_by_its_finite_size_alone():
    """The nearest step would be off by half of one: 0.3 to 0.5 in these units, several times the room."""
    d, seeds, overlap = 100, 8000, 0.6
    problem = limen.SpikedTensor(2, 3.0, 0.4, limen.OverlapStart(overlap))
    times = problem.step / d * np.array([0.0, 3.5, 7.5, 11.5])
    limit = effective.tensor_flow(problem, overlap, 1.0 - overlap**2, times)[0]
    shift = effective.tensor_finite_size(problem, overlap, 1.0 - overlap**2, times)[0]
    values = limen.simulate(problem, times, d, seeds, "tensor-chain").dataset.overlap.values
    room = 4.0 * d * values.std(axis=0) / np.sqrt(seeds) + 0.05 * np.abs(shift).max() + 1e-9
    measured = d * (values.mean(axis=0) - limit)
    assert (np.abs(measured - shift) < room).all()
    half = 0.5 * problem.step * np.gradient(limit, times)
    assert (np.abs(half) > room)[1:3].all()
