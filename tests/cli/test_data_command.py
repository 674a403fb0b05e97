"""`limen data FILE`: the curve of a table, printed, drawn and as JSON; nothing else is kept."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import limen
from limen.cli.main import limen as program


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 3))
    kinds = np.where(X[:, 0] + 0.5 * generator.standard_normal(60) > 0.0, "red", "white")
    rows = [f"{a!r},{b!r},{c!r},{kind}" for (a, b, c), kind in zip(X.tolist(), kinds, strict=True)]
    (tmp_path / "wine.csv").write_text("\n".join(["a,b,c,kind", *rows]))
    return tmp_path


def said(*arguments):
    done = CliRunner().invoke(program, ["data", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_curve_of_a_table(place):
    printed = said("wine.csv", "--target", "kind", "--sizes", "10,30", "--ridge", "0.1,1", "--seeds", "4")
    assert "99% interval" in printed and "trained: wrong" in printed and "2 classes" in printed
    assert len([line for line in printed.splitlines() if ".." in line]) == 4
    kept = sorted(path.name for path in (place / "limen-out").iterdir())
    assert kept == ["wine-ridge-simulation.nc", "wine-ridge-theory.nc", "wine-ridge.png"]


def test_numbers_are_those_of_python(place):
    asked = ("--target", "kind", "--sizes", "10,30", "--model", "random-features", "--features", "20", "--json")
    answer = json.loads(said("wine.csv", *asked, "--seeds", "0"))
    table = limen.data.load("wine.csv", "kind")
    curve = limen.data.learning_curve(table.X, table.y, model="random-features", sizes=[10, 30], features=20)
    assert answer["theory"]["test_loss"] == curve.dataset.test_loss.values.tolist()
    assert answer["theory"]["samples"] == [10, 30] and answer["simulation"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.csv",), "there is no file"),
        (("wine.csv",), "target must name the column"),
        (("wine.csv", "--target", "kind", "--ridge", "much"), "ridge must be numbers"),
        (("wine.csv", "--target", "kind", "--sizes", "10,60"), "less than the 60 rows"),
        (("wine.csv", "--target", "kind", "--features", "9"), "only there"),
        (("wine.csv", "--target", "a"), "holds text"),
    ],
)
def test_mistakes_are_one_sentence(place, arguments, words):
    with pytest.raises(limen.InputError, match=words):
        CliRunner().invoke(program, ["data", *arguments], catch_exceptions=False)
    assert not (place / "limen-out").exists()
