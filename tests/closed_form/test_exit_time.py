"""Exit times of phase retrieval: formulas, their limits, the noise of SGD, and the law from the exact chain."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import digamma
from scipy.stats import ks_2samp

from limen.problem import InputError
from limen.simulation.one_pass import exit_times as exit_times_module
from limen.simulation.one_pass.exit_times import simulated_exit_times
from limen.theory.one_pass import exit_time as module
from limen.theory.one_pass.exit_time import (
    amplitude_factor,
    bending,
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
    assert bending(1, 0.1, 0.2) == pytest.approx(1 / limit)
    assert exact == pytest.approx(linear + np.log((1 - start / limit) / (1 - level / limit)) / (8 * c))


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


@pytest.mark.parametrize("width, rate, noise", [(1, 0.1, 0.0), (2, 0.4, 0.5), (4, 0.5, 0.0), (8, 2.0, 0.0)])
def test_bending_is_the_delay_of_the_flow(width, rate, noise):
    """The overlap equations of z^2 integrated to the exit, against linear growth, over directions of the start."""
    fraction, start = 0.02, 1e-5
    c, weights = growth_rate(width, rate, noise), np.diag([-1.0 / width] * width + [1.0])

    def slope(t, y):
        m, gram = y[:width], y[width:].reshape(width, width)
        joint = np.block([[gram, m[:, None]], [m[None], np.ones((1, 1))]])
        twice = joint @ weights @ joint
        trace, square = np.trace(joint @ weights), np.trace(twice @ weights)
        drift = 2 * (trace * joint + 2 * twice)
        kick = 4 * ((trace**2 + 2 * square + noise) * joint + 4 * trace * twice + 8 * joint @ weights @ twice)
        moved = 2 * drift[:width, :width] + rate / width * kick[:width, :width]
        growth = 0.5 * np.diag(moved)
        on_sphere = moved - (growth[:, None] + growth) * gram
        return np.concatenate([drift[:width, width] - growth * m, on_sphere.ravel()])

    def risk(y):
        return 1 + (y[width:] ** 2).sum() / width**2 - 2 / width * (y[:width] ** 2).sum()

    delays = []
    for direction in np.random.default_rng(0).normal(size=(1 if width == 1 else 12, width)):
        first = np.concatenate([np.sqrt(start) * direction / np.linalg.norm(direction), np.eye(width).ravel()])
        target = (1 - fraction) * risk(first)

        def left(t, y, target=target):
            return risk(y) - target

        left.terminal = True
        solved = solve_ivp(slope, (0.0, 20 / c), first, events=left, rtol=1e-8, atol=1e-11)
        level = fraction * (width + 1) / 2 + (1 - fraction) * start
        delays.append(8 * c * solved.t_events[0][0] - np.log(level / start))
    expected = -np.log(1 - bending(width, rate, noise) * fraction * (width + 1) / 2)
    error = np.std(delays) / np.sqrt(len(delays))
    assert abs(np.mean(delays) - expected) < 3.5 * error + 0.02 * expected
    assert 3.5 * error + 0.02 * expected < 0.25 * expected


# Simulated exits minus the quenched times of their own starts, and standard errors. Runs of the chain: ours first, then
# those of an independent implementation.
SHIFTS = [
    (1, 0.1, 0.0, 3000, -0.339, 0.023),
    (1, 0.1, 0.0, 3000, -0.252, 0.022),
    (2, 0.4, 0.5, 3000, -0.289, 0.013),
    (2, 0.4, 0.5, 3000, -0.290, 0.025),
    (4, 0.5, 0.0, 3000, -0.068, 0.005),
    (4, 0.5, 0.0, 3000, -0.061, 0.005),
    (8, 2.0, 0.0, 3000, -0.110, 0.003),
    (8, 2.0, 0.0, 3000, -0.097, 0.010),
    (8, 2.0, 0.0, 30000, -0.135, 0.015),
]


@pytest.mark.parametrize("width, rate, noise, d, shift, error", SHIFTS)
def test_the_shift_by_the_noise_of_sgd(width, rate, noise, d, shift, error):
    found = exit_time(width, d, rate, noise, average="noise") - exit_time(width, d, rate, noise)
    assert abs(found - shift) < 2.6 * error
    # Noise, bending and neuron overlaps all left out but the amplitude: too early, by what many neurons show.
    if width == 8:
        bare = -np.log(amplitude_factor(width, rate, noise)) / (8 * growth_rate(width, rate, noise))
        assert abs(bare - shift) > 2.6 * error


@pytest.fixture(scope="module")
def exits():
    """Two neurons, d = 1000, 5% of the risk."""
    arguments = (2, 1000, 0.4, 0.5, 0.05)
    return arguments, simulated_exit_times(*arguments, seeds=400)


@pytest.mark.slow
def test_the_law_of_exit_times_is_that_of_the_chain(exits):
    arguments, (found, mu, tau) = exits
    assert np.isfinite(found).all()
    assert mu.mean() == pytest.approx(2.0, rel=0.15) and tau.mean() == pytest.approx(2.0, rel=0.25)
    error = found.std() / np.sqrt(found.size)
    # Parts of order 10/d of the growth rate are left out.
    assert abs(found.mean() - exit_time(*arguments, average="noise")) < 3 * error + 0.01 * found.mean()
    assert ks_2samp(found, exit_times(*arguments)).pvalue > 1e-3


@pytest.mark.parametrize("planted", ["quenched", "no amplitude", "growth 10% too fast", "no delay"])
def test_a_wrong_law_is_seen(exits, planted, monkeypatch):
    arguments, (found, _, _) = exits
    wrong = exit_times(*arguments, average="quenched")
    if planted == "no amplitude":
        monkeypatch.setattr(module, "amplitude_factor", lambda *_: 1.0)
        wrong = exit_times(*arguments)
    if planted == "growth 10% too fast":
        wrong = exit_times(*arguments) / 1.1
    if planted == "no delay":
        monkeypatch.setattr(module, "bending", lambda *_: 0.0)
        wrong = exit_times(*arguments)
    error = np.sqrt(found.var() / found.size + wrong.var() / wrong.size)
    assert abs(found.mean() - wrong.mean()) > 3 * error
    assert ks_2samp(found, wrong).pvalue < 1e-2


def test_seeds_replay_and_do_not_depend_on_each_other():
    together = simulated_exit_times(1, 200, 0.05, 0.0, 0.1, seeds=3)
    alone = simulated_exit_times(1, 200, 0.05, 0.0, 0.1, seeds=[0, 1, 2])
    swapped = simulated_exit_times(1, 200, 0.05, 0.0, 0.1, seeds=[2, 0, 1])
    for one, other, third in zip(together, alone, swapped, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one[[2, 0, 1]], third)


@pytest.mark.slow
@pytest.mark.parametrize("width, rate, noise", [(1, 0.1, 0.0), (2, 0.4, 0.5), (4, 0.5, 0.0), (8, 2.0, 0.0)])
def test_mean_exit_times_at_d_3000(width, rate, noise):
    """Chain minus quenched, paired start by start."""
    found, mu, tau = simulated_exit_times(width, 3000, rate, noise, seeds=512)
    difference = found - exit_times_from(mu, tau, width, 3000, rate, noise, 0.01)
    shift = exit_time(width, 3000, rate, noise, average="noise") - exit_time(width, 3000, rate, noise)
    error = difference.std() / np.sqrt(difference.size)
    assert abs(difference.mean() - shift) < 3 * error
    assert abs(difference.mean()) > 4 * error


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
    with pytest.raises(InputError, match="large against"):
        exit_time(1, 100, 0.15, 0.0, fraction=0.02, average="noise")
    with pytest.raises(InputError, match="fraction must lie"):
        simulated_exit_times(1, 100, 0.1, 0.0, fraction=1.0)
    with pytest.raises(InputError, match="seeds must be"):
        simulated_exit_times(1, 100, 0.1, 0.0, seeds=[])
    with pytest.raises(InputError, match="of order one"):
        exit_time(30, 40, 0.05, 0.0, fraction=1e-4)


def explicit_exits(width, d, rate, noise, fraction, steps, count):
    """First step after which the risk has fallen, neurons as vectors on the sphere; 0 for none."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(count, width, d))
    u /= np.linalg.norm(u, axis=2, keepdims=True)

    def risk(u):
        gram = u @ u.swapaxes(1, 2)
        return 1 + (gram**2).sum(axis=(1, 2)) / width**2 - 2 / width * (u[:, :, 0] ** 2).sum(axis=1)

    level, first = (1 - fraction) * risk(u), np.zeros(count, dtype=int)
    for step in range(1, steps + 1):
        x = rng.normal(size=(count, d))
        fields = np.einsum("nid,nd->ni", u, x)
        error = x[:, 0] ** 2 - (fields**2).mean(axis=1) + np.sqrt(noise) * rng.normal(size=count)
        u = u + rate / (d * width) * (2 * error[:, None] * fields)[:, :, None] * x[:, None, :]
        u /= np.linalg.norm(u, axis=2, keepdims=True)
        first[(first == 0) & (risk(u) <= level)] = step
    return first


@pytest.mark.parametrize("width, d, rate", [(1, 3, 1.5), (2, 4, 2.0)])
def test_exits_after_each_of_the_first_steps_are_those_of_vectors(width, d, rate):
    """A few dimensions, where every degree of freedom counts; whoever stays to the horizon has no exit."""
    noise, fraction, steps, count = 0.3, 0.3, 6, 1500
    unit = rate / (d * width)
    times, _, _ = simulated_exit_times(width, d, rate, noise, fraction, seeds=count, horizon=steps * unit * (1 - 1e-9))
    found = np.where(np.isfinite(times), times / unit, 0.0)
    np.testing.assert_allclose(found, np.rint(found), atol=1e-9)
    assert found.max() == steps
    explicit = explicit_exits(width, d, rate, noise, fraction, steps, 40 * count)
    for step in range(steps + 1):
        one, other = np.mean(np.rint(found) == step), np.mean(explicit == step)
        assert abs(one - other) < 4.5 * np.sqrt(1.05 * other / count), step


def test_exits_do_not_depend_on_who_is_dropped(monkeypatch):
    """Seeds that have left are dropped, and the rest goes on with the same clock."""
    arguments = dict(width=1, d=20, rate=0.05, noise=0.0, fraction=0.1, seeds=8, horizon=6.0)
    together = simulated_exit_times(**arguments)[0]
    monkeypatch.setattr(exit_times_module, "WORTH_DROPPING", 8)
    monkeypatch.setattr(exit_times_module, "DROP", 2)
    np.testing.assert_array_equal(simulated_exit_times(**arguments)[0], together)
    # A block of steps is 128.
    assert (together > 128 * 0.05 / 20).sum() == 4


def test_random_starts_have_the_moments_of_unit_vectors():
    """At dimension four: E mu = p, E tau = p(p - 1), and a squared coordinate is Beta(1/2, (d - 1)/2)."""
    p, d, draws = 2, 4, 40_000
    mu, tau, _ = module._random_starts(p, d, draws, 3)
    assert mu.mean() == pytest.approx(p, abs=4.5 * mu.std() / draws**0.5)
    assert tau.mean() == pytest.approx(p * (p - 1), abs=4.5 * tau.std() / draws**0.5)
    assert mu.var() == pytest.approx(2 * p * (d - 1) / (d + 2), rel=0.05)
