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


def test_one_training_has_no_error(place):
    printed = said("wine.csv", "--target", "kind", "--sizes", "10,30", "--seeds", "1")
    assert "nan" not in printed and "±" not in printed


@pytest.mark.parametrize("change", ["; with semicolons", "decimal commas", "tabs", "blanks in the header"])
def test_a_table_is_read_however_its_columns_are_set_apart(place, change):
    text = (place / "wine.csv").read_text()
    changed = {
        "; with semicolons": text.replace(",", ";"),
        "decimal commas": text.replace(",", ";").replace(".", ","),
        "tabs": text.replace(",", "\t"),
        "blanks in the header": text.replace("a,b,c,kind", "a , b , c , kind "),
    }[change]
    (place / "other.csv").write_text(changed)
    plain, other = limen.data.load("wine.csv", "kind"), limen.data.load("other.csv", "kind")
    assert other.names == plain.names == ("a", "b", "c") and (other.y == plain.y).all()
    np.testing.assert_allclose(other.X, plain.X, rtol=1e-12)


def test_an_empty_cell_is_named_by_its_column_and_its_line(place):
    header, *rows = (place / "wine.csv").read_text().splitlines()
    rows[20] = rows[20].replace(rows[20].split(",")[1], "", 1)
    (place / "holes.csv").write_text("\n".join([header, "", *rows]))
    words = "column 'b' of holes.csv must have no missing or infinite entries, got 1, first in line 23."
    with pytest.raises(limen.InputError, match=words):
        limen.data.load("holes.csv", "kind")


def test_a_first_line_of_numbers_is_no_header(place):
    rows = (place / "wine.csv").read_text().splitlines()[1:]
    plain = [row.rsplit(",", 1)[0] for row in rows]
    (place / "bare.csv").write_text("\n".join(plain))
    with pytest.raises(limen.InputError, match=r"the first line of bare.csv must name the columns, got numbers \("):
        limen.data.load("bare.csv", "2")
    (place / "counted.csv").write_text("\n".join(["0,1,2", *plain]))
    assert limen.data.load("counted.csv", "2").names == ("0", "1")


@pytest.mark.parametrize("out", ["wine.csv", "wine.csv/x", "/proc/nope", "/dev/null/x"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_computed(place, monkeypatch, out):
    monkeypatch.setattr("limen.cli.data_tables.learning_curve", lambda *_, **__: pytest.fail("computed"))
    with pytest.raises(limen.InputError, match=f"--out '{out}' cannot be written"):
        CliRunner().invoke(program, ["data", "wine.csv", "--target", "kind", "--out", out], catch_exceptions=False)
    assert (place / "wine.csv").is_file()


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
