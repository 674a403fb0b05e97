"""The table of a run, in words."""

import math
import pickle
from types import SimpleNamespace

import pytest

from limen.cli.run import answer_of
from limen.cli.tables import print_answer
from limen.experiments.number import Number


def printed(theory, simulation=None, *, capsys):
    headline = {"theory": theory} | ({} if simulation is None else {"simulation": simulation})
    run = SimpleNamespace(
        experiment=SimpleNamespace(headline=lambda *_: headline, name="toy", model_dump=lambda mode: {}),
        theory=SimpleNamespace(status="exact."),
        simulation=None,
        comparison=None,
        identifier="abc",
        seeds=(),
    )
    print_answer(answer_of(run, {"figure": "figure.pdf"}))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (Number(12.0, "steps until the weights are found", "steps"), "12 steps"),
        (Number(0.123456789, "excess risk, λ = 0.01"), "0.12346"),
        (Number(math.inf, "samples needed", "samples"), "never"),
        (Number(math.inf, "time t at which tokens are one"), "never"),
        (Number(math.inf, "ratio of the second minimum"), "∞"),
        (Number(-math.inf, "logarithm of the error"), "−∞"),
        (Number(math.nan, "slope"), "– (none)"),
    ],
)
def test_a_number_is_shown_by_its_words_with_its_unit(number, shown, capsys):
    (row,) = [line for line in printed({"symbol": number}, capsys=capsys).splitlines() if number.words in line]
    assert row.removeprefix(number.words).strip() == shown


def test_a_bare_float_is_shown_by_its_symbol(capsys):
    rows = printed({"plateau": 2.0}, {"plateau": Number(2.5, "plateau")}, capsys=capsys).splitlines()
    assert rows[1].split() == ["plateau", "2", "2.5"]


def test_a_number_keeps_its_words_on_the_way_to_another_process():
    number = pickle.loads(pickle.dumps(Number(3.0, "layers to collapse", "layers")))
    assert (float(number), number.words, number.unit) == (3.0, "layers to collapse", "layers")
