"""Flow of wide free networks with weight decay: continued in the width it meets neurons followed one by one."""

import numpy as np
import pytest

import limen


def decaying(width: int, decay: float) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("z", noise=0.1),
        limen.network(width, "tanh"),
        limen.GradientFlow(weight_decay=decay, spherical=False),
        samples_per_dim=1.0,
    )


def test_decays_that_it_cannot_have_are_refused_with_a_reason():
    posed = decaying(64, 0.2)
    assert limen.theories(posed)["equal-small-steps"] == "applies"
    changing = posed.model_copy(update={"algorithm": limen.GradientFlow(weight_decay="0.1*t", spherical=False)})
    assert "number that stays" in limen.theories(changing)["equal-small-steps"]


@pytest.mark.slow
def test_it_is_the_flow_of_single_neurons():
    times, names = [0.0, 0.5, 1.0], ("train_loss", "test_loss", "own_gram")
    one_by_one = limen.predict(decaying(4, 0.3), times, theory="small-steps").dataset
    together = limen.predict(decaying(4, 0.3), times, theory="equal-small-steps").dataset
    without = limen.predict(decaying(4, 0.0), times, theory="equal-small-steps").dataset
    for name in names:
        size = np.abs(one_by_one[name].values).max()
        np.testing.assert_allclose(together[name].values, one_by_one[name].values, atol=0.02 * size)
    assert np.abs(without.own_gram.values[-1] - one_by_one.own_gram.values[-1]).max() > 0.1
