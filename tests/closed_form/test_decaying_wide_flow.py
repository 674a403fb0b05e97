"""Flow of wide free networks with weight decay: continued in the width it meets neurons followed one by one."""

import numpy as np
import pytest

import limen


def decaying(width: int, decay: float | str, second: float = 0.0) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("z", noise=0.1),
        limen.network(width, "tanh", train_second_layer=second > 0.0),
        limen.GradientFlow(weight_decay=decay, second_layer_decay=second, spherical=False),
        samples_per_dim=1.0,
    )


def test_decays_that_it_cannot_have_are_refused_with_a_reason():
    assert limen.theories(decaying(64, 0.2))["equal-small-steps"] == "applies"
    matrix = limen.GradientFlow(weight_decay=np.diag(np.arange(1.0, 17.0)).tolist(), spherical=False)
    posed = decaying(16, 0.2).model_copy(update={"algorithm": matrix})
    assert "matrix makes every neuron different" in limen.theories(posed)["equal-small-steps"]


@pytest.mark.slow
def test_it_is_the_flow_of_single_neurons():
    times, names = [0.0, 0.5, 1.0], ("train_loss", "test_loss", "own_gram", "second_layer")
    posed = decaying(4, "0.6*t", 0.4)
    one_by_one = limen.predict(posed, times, theory="small-steps").dataset
    together = limen.predict(posed, times, theory="equal-small-steps").dataset
    without = limen.predict(decaying(4, 0.0, 1e-9), times, theory="equal-small-steps").dataset
    for name in names:
        size = np.abs(one_by_one[name].values).max()
        np.testing.assert_allclose(together[name].values, one_by_one[name].values, atol=0.02 * size)
    assert np.abs(without.own_gram.values[-1] - one_by_one.own_gram.values[-1]).max() > 0.1
    assert np.abs(without.second_layer.values[-1] - one_by_one.second_layer.values[-1]).max() > 0.1
