"""What a flow on the sphere reports of its weights, and how neurons are grouped: every entry computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

import limen
from limen.problem.groups import neuron_groups
from limen.simulation.flow.flow_record import flow_rule, group_dataset
from limen.simulation.flow.sphere_flow import FlowPath, FlowRule, SphereFlow, descent_path

# Neurons 0 and 2 start alike, neuron 1 does not; two latents in four dimensions, at three times.
LAYER, OVERLAP = (1.0, -2.0, 1.0), ((0.1, 0.2), (0.0, -0.3), (0.1, 0.2))


def two_index(**changes) -> limen.TwoLayer:
    parts = {
        "target": limen.target("z1 + z1*z2", noise=0.3),
        "network": limen.network(3, limen.activation(hermite=[0, 0.8, 0.6]), LAYER, train_second_layer=True),
        "algorithm": limen.GradientFlow(),
        "samples_per_dim": 5.0,
        "start": limen.OverlapStart(OVERLAP),
    }
    return limen.TwoLayer(**parts | changes)


def test_a_record_holds_means_over_groups():
    rng = np.random.default_rng(0)
    first, second, risk, test = rng.random((3, 3, 4)), rng.random((3, 3)), rng.random(3), rng.random(3)
    path = FlowPath(risk, first, second, 7, 9, True)
    times, overlap, gram = np.array([0.0, 0.5, 2.0]), first[:, :, :2], first @ np.swapaxes(first, 1, 2)
    found = group_dataset(two_index(), times, 5, path, test, overlap, gram)
    assert found.seed.values.tolist() == [5] and found.attrs["d"] == 4
    assert found.group_size.values.tolist() == [2, 1]
    found = found.isel(seed=0)
    np.testing.assert_array_equal(found.train_loss, risk)
    np.testing.assert_array_equal(found.test_loss, test)
    for t in range(3):
        w, a = first[t], second[t]
        assert found.second_layer.values[t] == pytest.approx([(a[0] + a[2]) / 2, a[1]])
        for r in range(2):
            assert found.overlap.values[t, :, r] == pytest.approx([(w[0, r] + w[2, r]) / 2, w[1, r]])
        across = (w[0] + w[2]) @ w[1] / 2
        assert found.gram.values[t].ravel() == pytest.approx([w[0] @ w[2], across, across, w[1] @ w[1]])
        for u in range(3):
            own = sum(w[j] @ first[u, j] for j in range(3)) / 3
            assert float(found.correlation.sel(time=times[t], time2=times[u])) == pytest.approx(own)


def test_neurons_are_grouped_in_order_of_appearance():
    found = neuron_groups(two_index())
    assert found.label.tolist() == [0, 1, 0] and found.sizes.tolist() == [2, 1]
    assert found.second_layer.tolist() == [1.0, -2.0]
    np.testing.assert_array_equal(found.overlap, [[0.1, 0.2], [0.0, -0.3]])
    # Two different neurons overlap by the product of their overlaps with the target; one alone by 1 with itself.
    assert found.gram == pytest.approx(np.array([[0.05, -0.06], [-0.06, 1.0]]))
    given = [[1.0, 0.3, -0.2], [0.3, 1.0, 0.3], [-0.2, 0.3, 1.0]]
    found = neuron_groups(two_index(start=limen.OverlapStart(OVERLAP, gram=given)))
    assert found.gram == pytest.approx(np.array([[-0.2, 0.3], [0.3, 1.0]]))
    # Neurons 0 and 2 overlap differently with neuron 1: no two are alike.
    given[0][1] = given[1][0] = 0.25
    found = neuron_groups(two_index(start=limen.OverlapStart(OVERLAP, gram=given)))
    assert found.label.tolist() == [0, 1, 2]
    assert found.gram == pytest.approx(np.array(given))


def test_speeds_and_length_of_a_flow():
    trained = flow_rule(two_index(), 30, 6, 1e-4)
    assert replace(trained, radius=1.0) == FlowRule(5.0, 5.0, 1.0, 1e-4)
    assert trained.radius.tolist() == [[1.0]] * 3
    network = limen.network(3, limen.activation(hermite=[0, 0.8, 0.6]), LAYER, initial_norm=1.7)
    fixed = flow_rule(two_index(network=network), 12, 24, 1e-4)
    assert replace(fixed, radius=1.7) == FlowRule(0.5, 0.0, 1.7, 1e-4)
    assert fixed.radius.tolist() == [[1.7]] * 3


def test_velocity_and_descent_of_a_linear_risk():
    """R = <b, w> + c a: the velocity is minus the speed times what of b is tangent to the sphere, and minus c."""
    slope, curve = np.array([[0.5, -1.0, 2.0]]), np.array([0.7])
    flow = SphereFlow(
        lambda w, a: (float((slope * w).sum() + curve @ a), slope, curve), (1, 3), FlowRule(2.0, 3.0, 1.5, 1e-6)
    )
    w, a = np.array([[0.0, 0.9, 1.2]]), np.array([0.4])
    risk, velocity = flow.velocity(np.concatenate([w.ravel(), a]))
    assert risk == pytest.approx(-0.9 + 2.4 + 0.28)
    # The unit vector is (0, 0.6, 0.8) and b along it is 1.
    assert velocity == pytest.approx([-2 * 0.5, 2 * 1.6, -2 * 1.2, -3 * 0.7])
    path = descent_path(flow, w, a, np.array([0.0, 1.0, 2.0]), 0.1)
    moved = w - 0.1 * slope
    moved *= 1.5 / np.linalg.norm(moved)
    assert path.first[1] == pytest.approx(moved)
    assert path.second.ravel() == pytest.approx([0.4, 0.33, 0.26])
    assert path.risk[1] == pytest.approx(float((slope * moved).sum()) + 0.7 * 0.33)
