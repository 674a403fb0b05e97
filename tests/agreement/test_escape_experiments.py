"""Exit times and the noise of SGD at reduced size: not contradicted, and planted errors are seen."""

from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.one_pass.escape_mediocrity import EscapeMediocrity
from limen.experiments.one_pass.sgd_noise import SGDNoise
from limen.result import Result, merge
from limen.theory.one_pass.exit_time import exit_times

pytestmark = pytest.mark.slow

ESCAPE, NOISE = EscapeMediocrity(d=500, fraction=0.05, width=1), SGDNoise(d=300)


@pytest.fixture(scope="module")
def escapes():
    return ESCAPE.theory(), merge([ESCAPE.simulate(seed) for seed in range(28)])


@pytest.fixture(scope="module")
def overlaps():
    return NOISE.theory(), merge([NOISE.simulate(seed) for seed in range(192)])


def planted(theory: Result, wrong: dict[str, np.ndarray]) -> Result:
    assert all(np.isfinite(values).all() for values in wrong.values())
    changed = {name: theory.dataset[name].copy(data=values) for name, values in wrong.items()}
    return replace(theory, dataset=theory.dataset.assign(changed))


@pytest.mark.slow
def test_exit_samples_of_the_chain_do_not_contradict_the_law(escapes):
    """A band below 10%: growth a tenth off is seen, and the noise of SGD left out (below)."""
    comparison = ESCAPE.compare(*escapes)
    assert comparison.verdict != "disagrees", comparison
    assert comparison["exit_samples"].band < 0.1, comparison


@pytest.mark.slow
@pytest.mark.parametrize("error", ["noise of SGD left out", "growth 10% off"])
def test_a_wrong_law_of_exits_is_seen(escapes, error):
    """The windows in which runs are watched stay those of the right law."""
    theory, simulation = escapes
    wrong = []
    for p, rate in ESCAPE.points():
        average = "quenched" if error == "noise of SGD left out" else "noise"
        law = exit_times(p, ESCAPE.d, rate, ESCAPE.noise, ESCAPE.fraction, average)
        law = law if average == "quenched" else law / 1.1
        window = ESCAPE._window(p, rate)
        wrong.append(np.minimum(law, window).mean() * p / rate)
    assert ESCAPE.compare(planted(theory, {"exit_samples": np.array(wrong)}), simulation).verdict == "disagrees"


def test_points_where_the_law_does_not_hold_are_left_out_and_said():
    narrow = EscapeMediocrity(d=500, fraction=0.1, width=1)
    theory = narrow.theory()
    assert np.isfinite(theory.dataset.exit_samples.values).all()
    assert theory.dataset.sizes["point"] == 5
    assert "1 points left out" in theory.status


@pytest.mark.slow
def test_moments_of_the_chain_agree_with_the_diffusion(overlaps):
    """Twins below: a spread a quarter too large, another start or rate, overlaps that forget."""
    comparison = NOISE.compare(*overlaps)
    assert comparison.verdict == "agrees", comparison


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"start": 0.33}, {"rate": 0.1}])
def test_a_wrong_parameter_of_the_diffusion_is_seen(overlaps, changes):
    theory, simulation = overlaps
    twin = SGDNoise(**{**NOISE.model_dump(mode="python"), **changes}).theory().dataset
    wrong = {name: twin[name].values for name in ("overlap", "overlap_spread", "overlap_correlation")}
    assert NOISE.compare(planted(theory, wrong), simulation).verdict == "disagrees"


@pytest.mark.slow
def test_a_spread_a_quarter_too_large_and_overlaps_that_forget_are_seen(overlaps):
    theory, simulation = overlaps
    spread, correlation = (theory.dataset[name].values for name in ("overlap_spread", "overlap_correlation"))
    assert NOISE.compare(planted(theory, {"overlap_spread": 1.25 * spread}), simulation).verdict == "disagrees"
    assert NOISE.compare(planted(theory, {"overlap_correlation": correlation**2}), simulation).verdict == "disagrees"
