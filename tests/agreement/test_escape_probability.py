"""How many trainings escape from hard directions, and when: 200 at d = 320 against the theory, and planted errors."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

_file = Path(__file__).parents[2] / "benchmarks" / "escape_probability.py"
_spec = importlib.util.spec_from_file_location("escape_probability", _file)
assert _spec is not None and _spec.loader is not None
bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench)

D, TRAININGS, ROWS = 320, 200, 400


@pytest.mark.slow
# The other cases take a minute each: `benchmarks/escape_probability.py` runs them all.
@pytest.mark.parametrize("name", list(bench.CASES)[:1])
def test_escape_times_have_the_law_predicted(name):
    """Kolmogorov-Smirnov at 1%; without the sample's fluctuation it fails."""
    problem = bench.CASES[name]
    trained = bench.trained_escapes(problem, D, range(TRAININGS))
    statistic, chance = bench.distance(trained, bench.predicted_escapes(problem, D, ROWS))
    assert chance > 0.01, statistic
    statistic, without = bench.distance(trained, bench.predicted_escapes(problem, D, ROWS, 0.0))
    assert without < 0.01, statistic
    assert np.isfinite(trained).mean() > 0.2
