"""Learning curves on sets that ship with scikit-learn: predicted against trained, shuffled labels, planted errors."""

import numpy as np
import pytest

import limen
from limen import InputError
from limen.data import question
from limen.experiments.kernel.curve_figure import curve_figure

datasets = pytest.importorskip("sklearn.datasets")


def loaded(name, shuffled=False):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, np.random.default_rng(0).permutation(y) if shuffled else y


def sizes_of(rows):
    return sorted({rows // 20, rows // 8, rows // 4, rows // 2})


def holds(theory, run):
    """Within 5% of the mean, or the mean inside the interval, at every size."""
    predicted, mean = theory.dataset, run.dataset.test_loss.mean("seed").values
    near = np.abs(predicted.test_loss.values / mean - 1.0) < 0.05
    inside = (predicted.test_loss_low.values <= mean) & (mean <= predicted.test_loss_high.values)
    return near | inside


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("name", ["diabetes", "breast_cancer", "wine"])
def test_predicted_against_trained(name, shuffled):
    X, y = loaded(name, shuffled)
    for model, ridge in (("ridge", 1.0), ("ridge", 0.01), ("kernel", 0.01)):
        asked = {"model": model, "sizes": sizes_of(len(X)), "ridge": ridge}
        theory = limen.data.learning_curve(X, y, **asked)
        run = limen.data.training_curve(X, y, **asked, seeds=60)
        assert theory.ok and holds(theory, run).all(), f"{model} {ridge}"
        # Beyond the smallest size the mean itself is close.
        mean = run.dataset.test_loss.mean("seed")
        assert float(abs(theory.dataset.test_loss / mean - 1.0)[1:].max()) < 0.05
        assert float(abs(theory.dataset.train_loss / run.dataset.train_loss.mean("seed") - 1.0)[1:].max()) < 0.08
        if "test_error" in theory.dataset:
            error = abs(theory.dataset.test_error - run.dataset.test_error.mean("seed"))
            assert float(error.max() if shuffled else error[1:].max()) < (0.03 if shuffled else 0.02)


@pytest.mark.parametrize("model", ["ridge", pytest.param("kernel", marks=pytest.mark.slow)])
def test_early_stopping(model):
    """Gradient flow on wine at three times: losses of both kinds and wrong answers; time doubled as a twin."""
    X, y = loaded("wine")
    asked = {"model": model, "sizes": [22, 60], "ridge": 0.0, "times": [0.5, 5.0, 50.0]}
    theory = limen.data.learning_curve(X, y, **asked)
    run = limen.data.training_curve(X, y, **asked, seeds=10, draws=30).dataset.mean("seed")
    assert theory.ok and theory.dataset.test_loss.dims == ("samples", "time")
    assert float(abs(theory.dataset.test_loss / run.test_loss - 1.0).max()) < 0.04
    assert float(abs(theory.dataset.train_loss / run.train_loss - 1.0).max()) < 0.06
    assert float(abs(theory.dataset.test_error - run.test_error).max()) < 0.02
    late = limen.data.learning_curve(X, y, **{**asked, "times": [1.0, 10.0, 100.0]}).dataset.train_loss.values
    assert np.abs(late / run.train_loss.values - 1.0).max() > 0.1


def test_planted_errors_are_caught():
    X, y = loaded("diabetes")
    sizes = [60, 110, 220]
    mean = limen.data.training_curve(X, y, sizes=sizes, ridge=0.01, seeds=100).dataset.test_loss.mean("seed").values

    def misses(theory):
        return np.abs(theory.dataset.test_loss.values / mean - 1.0).max()

    assert misses(limen.data.learning_curve(X, y, sizes=sizes, ridge=0.01)) < 0.02
    for wrong in (
        limen.data.learning_curve(X, y, sizes=[40, 75, 150], ridge=0.01),
        limen.data.learning_curve(X, y, sizes=sizes, ridge=1.0),
        limen.data.learning_curve(X, loaded("diabetes", shuffled=True)[1], sizes=sizes, ridge=0.01),
    ):
        assert misses(wrong) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("model", ["ridge", "kernel"])
def test_digits(model):
    for shuffled in (False, True):
        X, y = loaded("digits", shuffled)
        asked = {"model": model, "sizes": sizes_of(len(X)), "ridge": 0.01}
        theory = limen.data.learning_curve(X, y, **asked)
        run = limen.data.training_curve(X, y, **asked, seeds=16)
        assert float(abs(theory.dataset.test_loss / run.dataset.test_loss.mean("seed") - 1.0).max()) < 0.05
        assert float(abs(theory.dataset.test_error - run.dataset.test_error.mean("seed")).max()) < 0.03


def test_random_features_and_tangent_kernel():
    X, y = loaded("breast_cancer")
    for model, own in (("random-features", {"features": 100}), ("ntk", {"depth": 3})):
        asked = {"model": model, "sizes": [60, 140, 280], "ridge": 0.01, **own}
        theory = limen.data.learning_curve(X, y, **asked)
        run = limen.data.training_curve(X, y, **asked, seeds=40)
        assert holds(theory, run).all(), model


def test_lists_of_ridges_and_features():
    """A list is the single curves side by side, trained too; the train loss grows with the ridge."""
    X, y = loaded("wine")
    ridges, features = [0.01, 0.1, 10.0], [40, 160]
    asked = {"model": "random-features", "sizes": [30, 80], "ridge": ridges, "features": features}
    both = limen.data.learning_curve(X, y, **asked)
    assert both.dataset.test_loss.dims == ("samples", "ridge", "features")
    single = limen.data.learning_curve(X, y, **{**asked, "ridge": 0.1, "features": 160}).dataset
    np.testing.assert_allclose(both.dataset.test_loss.sel(ridge=0.1, features=160), single.test_loss, rtol=1e-10)
    assert (both.dataset.train_loss.diff("ridge") > 0).all() and (both.dataset.train_loss.diff("features") < 0).all()
    run = limen.data.training_curve(X, y, **asked, seeds=30)
    assert run.dataset.test_loss.dims == ("seed", "samples", "ridge", "features")
    ratio = both.dataset.test_loss / run.dataset.test_loss.mean("seed")
    assert float(abs(ratio - 1.0).max()) < 0.08 and float(abs(ratio.sel(ridge=10.0) - 1.0).max()) < 0.01
    panels = curve_figure(both, run, "wine").panels
    assert [panel.x_label for panel in panels] == ["random features $N$"] * 2


def test_the_interval_holds_for_the_source():
    """Curves from 110 of 442 rows, against training on all of the source: at least 27 of 30 intervals hold, which are
    said to be of 99% and are of about 96% (docs); a third of the width is not enough."""
    X, y = loaded("diabetes")
    asked = {"sizes": [40], "ridge": 0.1}
    truth = float(limen.data.training_curve(X, y, **asked, seeds=1, draws=400).dataset.test_loss.mean())
    off = []
    for repeat in range(30):
        chosen = np.random.default_rng(repeat).permutation(len(y))[:110]
        found = limen.data.learning_curve(X[chosen], y[chosen], **asked).dataset
        off.append(abs(float(found.test_loss[0]) - truth) / float(found.test_loss_high[0] - found.test_loss[0]))
    assert np.sum(np.array(off) < 1.0) >= 27
    assert np.sum(np.array(off) < 1.0 / 3.0) < 25


def test_units_do_not_matter():
    """Columns and labels in other units, however large, give the same curve."""
    X, y = loaded("diabetes")
    plain = limen.data.learning_curve(X, y, sizes=[60]).dataset.test_loss.values
    huge = limen.data.learning_curve(X * np.geomspace(1e-200, 1e250, X.shape[1]), 1e250 * y, sizes=[60])
    np.testing.assert_allclose(huge.dataset.test_loss.values, plain, rtol=1e-6)


def test_spectrum_of_correlated_columns():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((4000, 3)) @ np.diag([5.0, 1.0, 0.2])
    X = np.column_stack([X, X[:, 0] + 1e-9, np.ones(4000)])
    found = limen.data.spectrum(X)
    # Two equal columns: one eigenvalue 2, one of zero that is left out; the constant column is said.
    np.testing.assert_allclose(found.dataset.eigenvalue, [2.0, 1.0, 1.0], atol=0.05)
    assert "1 constant" in found.status
    assert float(found.dataset.participation) == pytest.approx(16 / 6, rel=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (np.where(np.arange(10) == 3, np.nan, X), y), "442 rows have NaN or infinity, first in column 3"),
        (lambda X, y: (X[:10], y[:10]), "at least 20 rows, got 10"),
        (lambda X, y: (np.ones((30, 2)), y[:30]), "not constant"),
        (lambda X, y: (X, np.ones(442)), "y must not be constant"),
        (lambda X, y: (X, y[:-1]), "one entry per row of X"),
        (lambda X, y: (X.astype(str), y), "X must hold numbers"),
        (lambda X, y: (X[0], y), "shape"),
        (lambda X, y: ([[1.0, 2.0], [3.0]], y), "rows of equal length"),
        (lambda X, y: (X, np.where(np.arange(442) % 9 == 0, None, "a")), "no missing entries, got 50"),
        (lambda X, y: (X, np.where(np.arange(442) == 5, np.inf, y + 0.5)), "1 entry is NaN or infinite"),
    ],
)
def test_bad_arrays_are_sentences(change, words):
    with pytest.raises(InputError, match=words):
        limen.data.learning_curve(*change(*loaded("diabetes")))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sizes": [442]}, "less than the 442 rows"),
        ({"sizes": [30, 20]}, "increasing list"),
        ({"sizes": "many"}, "sizes must be a real number"),
        ({"ridge": "small"}, "ridge must be a real number"),
        ({"ridge": 0.0}, "ridge must be positive"),
        ({"model": "forest"}, "model must be one of ridge"),
        ({"features": 10}, "only there"),
        ({"model": "random-features"}, "features must be given"),
        ({"model": "random-features", "features": 20, "times": [1.0]}, "times must be left out"),
        ({"times": [1.0, -1.0]}, "times must be positive"),
        ({"times": []}, "times must be one number or an increasing list"),
    ],
)
def test_bad_questions_are_sentences(asked, words):
    with pytest.raises(InputError, match=words):
        limen.data.learning_curve(*loaded("diabetes"), **asked)


def test_files(tmp_path, monkeypatch):
    X, y = loaded("wine")
    np.savez(tmp_path / "wine.npz", X=X, y=y)
    names = [f"c{i}" for i in range(X.shape[1])]
    kinds = np.array(["red", "white", "rosé"])[y]
    lines = [",".join([*names, "kind"])] + [
        ",".join([*map(repr, map(float, row)), k]) for row, k in zip(X, kinds, strict=True)
    ]
    (tmp_path / "wine.csv").write_text("\n".join(lines))
    stored, read = limen.data.load(tmp_path / "wine.npz"), limen.data.load(tmp_path / "wine.csv", "kind")
    np.testing.assert_array_equal(stored.X, read.X)
    assert read.names == tuple(names) and read.target == "kind" and set(read.y) == set(kinds)
    curve = limen.data.learning_curve(read.X, read.y, sizes=[40])
    assert "3 classes" in curve.status
    for call, words in (
        (lambda: limen.data.load(tmp_path / "none.csv", "y"), "there is no file"),
        (lambda: limen.data.load(tmp_path / "wine.csv"), "target must name the column to be learnt, one of c0, c1"),
        (lambda: limen.data.load(tmp_path / "wine.csv", "colour"), "target must be one of the columns c0"),
        (lambda: limen.data.load(tmp_path / "wine.csv", "c0"), "column 'kind' holds text"),
        (lambda: limen.data.load(tmp_path / "wine.npz", "z"), "must hold an array 'z'"),
        (lambda: limen.data.load(__file__), "must be a .csv, .npz or .parquet"),
    ):
        with pytest.raises(InputError, match=words):
            call()
    (tmp_path / "none.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="at least 20 rows, got 0"):
        limen.data.load(tmp_path / "none.csv", "b")
    (tmp_path / "part.csv").write_text("\n".join([*lines, ",".join(["1"] * X.shape[1]) + ","]))
    with pytest.raises(InputError, match=f"column 'kind' of part.csv .* got 1, first in line {len(lines) + 1}"):
        limen.data.load(tmp_path / "part.csv", "kind")
    with pytest.raises(InputError, match="no missing entries, got 1"):
        limen.data.learning_curve(read.X, [None, *read.y[1:]])
    assert len(repr(read)) < 200
    # A small file that unpacks to more than is read.
    np.savez_compressed(tmp_path / "zeros.npz", X=np.zeros((3000, 100)), y=np.zeros(3000))
    assert (tmp_path / "zeros.npz").stat().st_size < 20_000
    monkeypatch.setattr("limen.data.table.MOST_BYTES", 1_000_000)
    with pytest.raises(InputError, match=r"GB unpacked, at most 0\.001 GB"):
        limen.data.load(tmp_path / "zeros.npz")
    monkeypatch.setattr("limen.data.table.MOST_BYTES", 100)
    with pytest.raises(InputError, match="GB are read"):
        limen.data.load(tmp_path / "wine.csv", "kind")
    monkeypatch.setattr(question, "MOST_ROWS", 100)
    with pytest.raises(InputError, match="takes at most 100 rows, got 178"):
        limen.data.learning_curve(X, y, model="kernel")
