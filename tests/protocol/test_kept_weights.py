"""Trained weights that are kept are those whose overlaps are reported; several sizes are answered one by one."""

import numpy as np
import pytest

import limen

PARTS = {
    "descent": (limen.GradientDescent(step=0.3, momentum=0.5), 2.0),
    "batches": (limen.Adam(step=0.1, batch_fraction=0.5), 2.0),
    "one-pass": (limen.OnePassSGD(rate=0.5), None),
    "flow": (limen.GradientFlow(), 2.0),
}


def problem(name: str) -> limen.TwoLayer:
    algorithm, ratio = PARTS[name]
    given = {} if ratio is None else {"samples_per_dim": ratio}
    return limen.TwoLayer(limen.target("z1*z2 + z1"), limen.network(2, "tanh"), algorithm, **given)


@pytest.mark.parametrize("name", PARTS)
def test_kept_weights_have_the_overlaps_that_are_reported(name):
    times = [0.0, 1.0, 2.0]
    kept = limen.simulate(problem(name), times, d=20, seeds=[3, 5], keep="weights").dataset
    plain = limen.simulate(problem(name), times, d=20, seeds=[3, 5]).dataset
    weights, directions = kept.first_layer.values, kept.direction.values
    np.testing.assert_allclose(np.einsum("srd,sqd->srq", directions, directions), [np.eye(2)] * 2, atol=1e-6)
    overlaps = np.einsum("stmd,skd->stmk", weights, directions)
    if name == "flow":
        overlaps = overlaps.mean(axis=2, keepdims=True)
    np.testing.assert_allclose(overlaps, kept.overlap, atol=1e-5)
    np.testing.assert_array_equal(kept.overlap, plain.overlap)
    assert "first_layer" not in plain


def test_what_can_be_kept_is_said():
    with pytest.raises(limen.InputError, match="keep must be \"weights\" or left out, got 'everything'"):
        limen.simulate(problem("descent"), 2, d=20, seeds=1, keep="everything")
    with pytest.raises(limen.InputError, match="times must be fewer to keep the weights"):
        limen.simulate(problem("one-pass"), np.linspace(0, 1, 9000), d=20_000, seeds=1, keep="weights")


def test_several_sizes_are_answered_and_compared():
    ridge = limen.Ridge(ratio=0.5, noise=0.1, ridge=0.2)
    runs = limen.simulate(ridge, 3.0, d=[40, 80], seeds=8)
    assert [run.dataset.attrs["d"] for run in runs] == [40, 80]
    alone = limen.simulate(ridge, 3.0, d=80, seeds=8)
    assert runs[1].dataset.equals(alone.dataset)
    assert limen.compare(limen.predict(ridge, 3.0), runs).sizes == (40, 80)
    for sizes in ([40, 40], []):
        with pytest.raises(limen.InputError, match="d must be one size or several different ones"):
            limen.simulate(ridge, 3.0, d=sizes, seeds=8)


def test_theories_refuse_labels_that_do_not_exist_as_predict_does():
    bad = limen.TwoLayer(limen.target("log(z)"), limen.network(1, "tanh"), limen.OnePassSGD(rate=0.1))
    with pytest.raises(limen.InputError) as said:
        limen.predict(bad, 1.0)
    assert set(limen.theories(bad).values()) == {str(said.value)}
