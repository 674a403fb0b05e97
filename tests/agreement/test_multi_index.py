"""SGD of two directions on the Stiefel manifold agrees with the overlap equations; planted errors do not."""

from dataclasses import replace
from functools import lru_cache

import pytest

import limen

pytestmark = pytest.mark.slow

START = limen.OverlapStart([[0.4, 0.1], [0.0, 0.35]])
# Without the corrector of the step, and with a wrong link.
TWINS = {"step": 1e-6, "target": limen.target("z1*z2 + 0.3*z1", noise=0.1)}
TIMES = [0.0, 0.1, 0.2, 0.4, 0.6, 0.9]


def problem(**changes):
    return limen.MultiIndex(**{"target": limen.target("z1*z2", noise=0.1), "step": 0.1, "start": START} | changes)


@lru_cache(maxsize=1)
def runs():
    return limen.simulate(problem(), TIMES, d=200, seeds=256)


def judged(**planted):
    return limen.compare(replace(limen.predict(problem(**planted), TIMES), spec=runs().spec), runs())


def test_the_overlap_equations_agree():
    comparison = judged()
    assert comparison.verdict == "agrees", str(comparison)


@pytest.mark.parametrize("name", TWINS)
def test_planted_errors_are_caught(name):
    comparison = judged(**{name: TWINS[name]})
    assert comparison.verdict == "disagrees", str(comparison)


def test_other_losses_and_kinks():
    """Twin: another loss."""
    changes = {"target": limen.target("abs(z1) - abs(z2)", noise=0.1), "loss": "pseudo-huber:1", "step": 0.2}
    run = limen.simulate(problem(**changes), TIMES, d=200, seeds=128)
    comparison = limen.compare(limen.predict(problem(**changes), TIMES), run)
    assert comparison.verdict == "agrees", str(comparison)
    square = limen.predict(problem(**{**changes, "loss": "square"}), TIMES)
    assert limen.compare(replace(square, spec=run.spec), run).verdict == "disagrees"
