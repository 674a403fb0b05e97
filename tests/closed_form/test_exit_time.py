"""Exit times of phase retrieval: formulas, their limits, the noise of SGD, and the law from the exact chain."""

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import ks_2samp

from limen.problem import InputError
from limen.simulation.exit_times import simulated_exit_times
from limen.theory.one_pass.exit_time import (
    amplitude_factor,
    exit_time,
    exit_times,
    exit_times_from,
    growth_rate,
    neuron_overlap,
)


@pytest.mark.parametrize("width, gap", [(1, 1.270), (2, 0.577), (4, 0.270)])
def test_large_dimension(width, gap):
    d, rate, noise = 10**8, 0.05, 0.3
    c = growth_rate(width, rate, noise)
    quenched = exit_time(width, d, rate, noise)
    assert quenched == pytest.approx((np.log(0.01 * (width + 1) * d / 4) - digamma(width / 2)) / (8 * c), abs=1e-5)
    assert 8 * c * (quenched - exit_time(width, d, rate, noise, average="annealed")) == pytest.approx(gap, abs=1e-3)


def test_one_neuron_constants_and_logistic_exit():
    c = growth_rate(1, 0.1, 0.2)
    assert c == pytest.approx(1 - 0.6 - 0.01)
    assert amplitude_factor(1, 0.1, 0.2) == pytest.approx(1 / c)
    # The exact logistic exit from one start is later by the nonlinearity only.
    d, fraction = 3000, 0.01
    start = 1.0 / d
    limit = c / (1 - 0.6)
    level = fraction + (1 - fraction) * start
    exact = np.log(level * (limit - start) / (start * (limit - level))) / (8 * c)
    linear = exit_times_from(np.ones(1), np.zeros(1), 1, d, 0.1, 0.2, fraction)[0]
    assert 0.0 < exact - linear < 0.01


def test_the_moments_behind_neuron_overlap():
    """The source of v against a direct sum over a normal sample."""
    p, rate, noise = 3, 0.6, 0.4
    rng = np.random.default_rng(0)
    fields = rng.normal(size=(4_000_000, p + 1))
    error = fields[:, p] ** 2 - (fields[:, :p] ** 2).mean(axis=1) + np.sqrt(noise) * rng.normal(size=len(fields))
    weight = (fields[:, 0] * fields[:, 1]) ** 2 * error**2 * (1 + rate / p * error) ** 2
    early = 1e-7
    slope = (neuron_overlap(np.array(early), p, rate, noise) - 1.0) / early
    expected = 16 * rate / p * weight.mean() - 16 / p * (1 - 8 * rate / p**2)
    assert abs(slope - expected) < 5 * 16 * rate / p * weight.std() / 2000.0 + 1e-4


@pytest.mark.parametrize(
    "width, rate, noise, d, shift",
    [
        (1, 0.1, 0.0, 3000, -0.272),
        (2, 0.4, 0.5, 3000, -0.272),
        (4, 0.5, 0.0, 3000, -0.069),
        (8, 2.0, 0.0, 30000, -0.166),
    ],
)
def test_the_shift_by_the_noise_of_sgd(width, rate, noise, d, shift):
    found = exit_time(width, d, rate, noise, average="noise") - exit_time(width, d, rate, noise)
    assert found == pytest.approx(shift, abs=2e-3)


@pytest.mark.slow
def test_the_law_of_exit_times_matches_the_chain_and_a_law_without_noise_does_not():
    """d = 2500, two neurons, 2% of the risk; the twin leaves the noise of SGD out."""
    arguments = (2, 2500, 0.4, 0.5, 0.02)
    found, mu, tau = simulated_exit_times(*arguments, seeds=400, horizon=2.0)
    assert np.isfinite(found).all()
    assert mu.mean() == pytest.approx(2.0, rel=0.15) and tau.mean() == pytest.approx(2.0, rel=0.25)
    c = growth_rate(2, 0.4, 0.5)
    error = found.std() / np.sqrt(found.size)
    # The nonlinearity of the risk delays the exit by about fraction / (8 c).
    assert -3 * error < found.mean() - exit_time(*arguments, average="noise") < 3 * error + 2 * 0.02 / (8 * c)
    assert ks_2samp(found, exit_times(*arguments, average="noise") + 0.02 / (8 * c)).pvalue > 1e-3
    assert found.mean() < exit_time(*arguments) - 4 * error
    assert ks_2samp(found, exit_times(*arguments, average="quenched")).pvalue < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    "width, rate, noise, shift", [(1, 0.1, 0.0, -0.264), (2, 0.4, 0.5, -0.264), (4, 0.5, 0.0, -0.065)]
)
def test_mean_exit_times_at_d_3000(width, rate, noise, shift):
    """Chain minus quenched, paired start by start, with the delay of the risk's quadratic terms in `shift`."""
    found, mu, tau = simulated_exit_times(width, 3000, rate, noise, seeds=512)
    difference = found - exit_times_from(mu, tau, width, 3000, rate, noise, 0.01)
    assert abs(difference.mean() - shift) < 3 * difference.std() / np.sqrt(difference.size)
    assert abs(difference.mean()) > 4 * difference.std() / np.sqrt(difference.size)


def test_what_is_refused():
    with pytest.raises(InputError, match="c_p > 0"):
        exit_time(1, 1000, 0.2, 0.0)
    for fraction in (0.0, 1.0, -0.1):
        with pytest.raises(InputError, match="fraction must lie in"):
            exit_time(1, 1000, 0.05, 0.0, fraction=fraction)
    with pytest.raises(InputError, match="average must be one of"):
        exit_time(1, 1000, 0.05, 0.0, average="median")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="d must be"):
        exit_time(4, 3, 0.05, 0.0)
    with pytest.raises(InputError, match="of order one"):
        exit_time(30, 40, 0.05, 0.0, fraction=1e-4)
