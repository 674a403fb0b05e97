"""Words on a terminal: the list of experiments, help, completion; fast, in the width there is, without raw LaTeX."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from limen.cli.main import limen
from limen.cli.plain_text import paragraphs
from limen.comparison.verdict import RESOLUTION, TOLERANCE
from limen.experiments.index import entry
from limen.experiments.registry import PLACES
from limen.web.text.one_line import plain


def said(*arguments: str, columns: int = 80, **environment: str) -> str:
    outcome = CliRunner().invoke(limen, list(arguments), env={"COLUMNS": str(columns), **environment})
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_list_fits_the_terminal(columns):
    lines = said("list", columns=columns).splitlines()
    assert max(map(len, lines)) <= min(columns, 110)
    assert {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "} == set(PLACES)


def test_the_list_can_be_narrowed():
    found = said("list", "attention")
    assert "attention-modes" in found and "grokking" not in found
    assert "neural-ode" in found, "by its chapter"
    assert json.loads(said("list", "ATTENTION", "circle", "--json"))["experiments"][0]["name"] == "attention-mean-field"
    # Authors and words of the text, where names and lines have nothing.
    assert "committee-sgd" in said("list", "saad") and "grokking" not in said("list", "saad")
    refused = CliRunner().invoke(limen, ["list", "nonsense"])
    assert "no experiment has 'nonsense'" in str(refused.exception)


def test_help_has_no_raw_latex():
    for name in PLACES:
        shown = paragraphs(entry(name).text) + "".join(plain(one.description) for one in entry(name).parameters)
        assert "\\" not in shown and "$" not in shown, name


@pytest.mark.parametrize(
    ("latex", "letters"),
    [
        (r"$\delta=n/d$", "δ = n/d"),
        (r"$\frac12 d^{-1/2}$", "1/2d^(−1/2)"),
        (r"$x_i^2$ and $\theta_*$", "xᵢ² and θ∗"),
        (r"$\sqrt{n+1}$", "√(n + 1)"),
        (r"$d\to\infty$", "d → ∞"),
        (r"$\unknown{x}$", r"\unknown{x}"),
    ],
)
def test_formulas_in_letters(latex, letters):
    assert plain(latex) == letters


def test_completion_knows_experiments_options_and_runs(tmp_path):
    def completed(words: str, at: int) -> list[str]:
        environment = {"COMP_WORDS": words, "COMP_CWORD": str(at), "_LIMEN_COMPLETE": "bash_complete"}
        outcome = CliRunner().invoke(
            limen,
            [],
            prog_name="limen",
            env={**environment, "LIMEN_STORE": str(tmp_path)},
            complete_var="_LIMEN_COMPLETE",
        )
        return [line.partition(",")[2] for line in outcome.output.splitlines()]

    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "abc123.json").write_text("{}")
    assert completed("limen run grok", 2) == ["grokking"]
    assert "--samples-per-dim" in completed("limen run grokking --sa", 3)
    assert completed("limen show ab", 2) == ["abc123"]
    assert "complete" in said("completion", "bash")


@pytest.mark.parametrize("arguments", [["list"], ["run", "grokking", "--help"], ["--help"]])
def test_words_need_no_numbers(arguments):
    code = (
        "import sys; from click.testing import CliRunner; from limen.cli.main import limen\n"
        f"assert CliRunner().invoke(limen, {arguments!r}).exit_code == 0\n"
        "print([name for name in ('numpy', 'jax', 'xarray', 'pandas', 'pydantic') if name in sys.modules])"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert asked.stdout.strip() == "[]"


@pytest.mark.parametrize("arguments", [["show", ""], ["sweeps", "show", ""], ["sweeps", "cancel", ""]])
def test_an_empty_identifier_is_refused(arguments, tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_STORE", str(tmp_path))
    assert "is empty" in str(CliRunner().invoke(limen, arguments).exception)


def test_one_name_for_a_learning_rate_or_the_other():
    assert "--step, --rate" in said("run", "grokking", "--help")
    assert "--rate, --step" in said("run", "committee-sgd", "--help")


def test_help_says_the_rule_of_the_comparison():
    shown = " ".join(said("run", "grokking", "--help").split())
    assert f"no difference is judged [default: {RESOLUTION}]" in shown
    assert f"must agree [default: {TOLERANCE}]" in shown
