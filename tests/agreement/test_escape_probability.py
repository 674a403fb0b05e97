"""How many trainings escape from hard directions, and when: a small table of the benchmark, planted errors included."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

_file = Path(__file__).parents[2] / "benchmarks" / "escape_probability.py"
_spec = importlib.util.spec_from_file_location("escape_probability", _file)
assert _spec is not None and _spec.loader is not None
bench = importlib.util.module_from_spec(_spec)
sys.modules["escape_probability"] = bench
_spec.loader.exec_module(bench)

# At these sizes 30 steps show the escape; d = 1280 and 40 steps take minutes: `benchmarks/escape_probability.py`.
TIMES, JUDGED, SIZES, SAMPLES = np.arange(0.0, 31.0), np.array([0.0, 10.0, 20.0, 30.0]), (160, 320), 64
ROWS = {160: range(10_000, 10_256), 320: range(10_000, 10_512)}
PLANTED_ROWS = {160: range(10_000, 10_256), 320: range(10_000, 10_256)}
TOLERANCE = 0.15
# A drift a tenth too large is as much as the theory lacks at so small sizes, and is not seen here.
SEEN = ("theory", "no fluctuation", "fluctuation √2")


@pytest.mark.slow
def test_escape_times_have_the_law_predicted(monkeypatch):
    """Escaped parts by given steps and by the quartiles of the theory's escape time, over two sizes by the rule of
    `compare`; planted errors are found. Without overlap at the start only the sample's fluctuation lets a network
    escape, and few rows show what is wrong with it."""
    monkeypatch.setattr(bench, "TIMES", TIMES)
    monkeypatch.setattr(bench, "JUDGED", JUDGED)
    problem = bench.UNLUCKY["gelu on z², no overlap"]
    trained = {d: bench.trained_escapes(problem, d, range(SAMPLES)) for d in SIZES}
    assert 0.5 < np.isfinite(trained[SIZES[-1]]).mean() < 0.9
    for name in SEEN:
        planted = bench.THEORIES[name]
        rows = ROWS if name == "theory" else PLANTED_ROWS
        found = {d: bench.predicted_escapes(problem, d, rows[d], planted) for d in SIZES}
        said = bench.verdict(trained, found, TOLERANCE)
        assert said.verdict == ("agrees" if name == "theory" else "disagrees"), (name, said.sentence)


def test_quartile_intervals_hold_the_quartiles():
    """Of uniform samples the 99% intervals of all three hold them in all but a few of 400 draws."""
    random, held = np.random.default_rng(0), 0
    for _ in range(400):
        low, high = bench.quartile_intervals(random.random(200)).T
        held += bool(((low <= bench.QUARTILES) & (high >= bench.QUARTILES)).all())
    assert held >= 390


def test_lines_are_read_back_and_what_is_missing_is_run(tmp_path, monkeypatch):
    path = tmp_path / "lines.jsonl"
    for name, value in (("TOGETHER", 2), ("SAMPLES", {320: 2, 1280: 1}), ("LINE", {320: 2, 1280: 4})):
        monkeypatch.setattr(bench, name, value)
    path.write_text('{"case": "relu on z²", "d": 320, "who": "training", "first": 0, "times": [3.0, null]}\n')
    assert bench.read(path)["relu on z²", 320, "training"] == {0: 3.0, 1: np.inf}
    asked = []

    def trained(problem, d, samples):
        asked.append((d, list(samples)))
        return np.full(2 * len(samples), np.inf)

    def predicted(problem, d, rows, planted):
        asked.append((d, list(rows)))
        return np.full(len(rows), 7.0)

    monkeypatch.setattr(bench, "trained_escapes", trained)
    monkeypatch.setattr(bench, "predicted_escapes", predicted)
    bench.run(path)
    # The sample that is there is not trained again: all others ask for it.
    assert asked.count((320, [0])) == 7 and asked.count((320, [1])) == 8
    assert asked.count((1280, list(range(10_000, 10_004)))) == 8 * len(bench.THEORIES)
    done = bench.read(path)
    assert {len(done[case, 320, "training"]) for case in bench.CASES} == {4}
    rows = {case: len(done[case, 320, "theory"]) for case in bench.CASES}
    assert rows == {case: 2 * bench.LINES[problem.network.width][0] for case, problem in bench.CASES.items()}
    before = len(asked)
    bench.run(path)
    assert len(asked) == before


def test_quartiles_are_judged_by_the_parts_that_have_escaped():
    """Only those that a theory reaches at both sizes; half of the trainings must have escaped by its median."""
    predicted = {320: np.array([5.0, 9.0, 15.0, 30.0]), 1280: np.array([8.0, 12.0, np.inf, np.inf])}
    judged = bench.judged_times(predicted)
    np.testing.assert_array_equal(judged[320][0], [0.0, 10.0, 20.0, 30.0, 40.0, 0.25])
    assert judged[1280][1][-1] in (8.0, 12.0)
