"""Scaling laws of random features: exact moments of the contour, recursion and its limits, exponents, frontier."""

import numpy as np
import pytest

import limen
from limen import InputError
from limen.problem.rates import rate_values
from limen.theory.kernel.scaling.power_law import drawn_nodes, equivalent_nodes, mean_risk, population, volterra_risk
from limen.theory.kernel.scaling.scaling_laws import frontier_exponents, limit_error


def test_contour_holds_all_eigenvalues_and_the_whole_target():
    for alpha, beta, v, d in ((0.7, 0.9, 400, 60), (1.2, 0.2, 10_000, 50), (0.35, 0.8, 3000, 800)):
        nodes = equivalent_nodes(alpha, beta, v, d)
        values, counts, energies = population(alpha, beta, v)
        assert nodes.counts.real.sum() == pytest.approx(d, rel=1e-9)
        assert nodes.energies.real.sum() + nodes.floor == pytest.approx(energies.sum(), rel=1e-9)
        # First moment: E tr K = tr D.
        assert (nodes.counts * nodes.z).real.sum() == pytest.approx(values @ counts, rel=1e-9)


def test_binned_tails_keep_their_sums():
    values, counts, energies = population(0.8, 0.3, 200_000)
    j = np.arange(1.0, 200_001.0)
    assert counts.sum() == pytest.approx(200_000)
    assert values @ counts == pytest.approx((j**-1.6).sum(), rel=1e-7)
    assert energies.sum() == pytest.approx((j**-2.2).sum(), rel=1e-7)


def test_strides_are_the_recursion():
    generator = np.random.default_rng(0)
    index = np.arange(1.0, 401.0)
    weighted = index[:, None] ** -0.7 * generator.standard_normal((400, 60)) / np.sqrt(60)
    nodes, rate, batch, noise = drawn_nodes(weighted, index**-1.6), 0.15, 2, 0.01
    rho, wanted = nodes.energies.copy(), []
    for step in range(501):
        if step in (0, 10, 100, 500):
            wanted.append(rho.sum() + nodes.floor)
        risk = rho.sum() + nodes.floor
        pull = 2 * rate * batch * nodes.z - rate**2 * batch * (batch + 1) * nodes.z**2
        rho = (1 - pull) * rho + rate**2 * batch * nodes.z**2 * (risk + noise)
    found = mean_risk(nodes, rate, batch, noise, np.array([0, 10, 100, 500]))
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    # Zero eigenvalues, 340 of them, and the kernel matrix itself give the same energies.
    vectors = np.linalg.eigh(weighted @ weighted.T)[1]
    assert nodes.floor == pytest.approx(((vectors.T @ index**-1.6) ** 2)[:340].sum(), rel=1e-9)


def drawn_case():
    """Eigenvalues and energies of one draw."""
    index = np.arange(1.0, 401.0)
    weighted = index[:, None] ** -0.7 * np.random.default_rng(0).standard_normal((400, 60)) / np.sqrt(60)
    return drawn_nodes(weighted, index**-1.6)


@pytest.mark.parametrize("schedule", ["0.3/(1 + t)**0.5", "0.15*(1 + 0.5*sin(t/300))", "0.02 + 0*t"])
def test_strides_of_a_schedule_are_the_recursion(schedule):
    """Step by step with the rate of each step; a formula that is constant is the number."""
    nodes, batch, noise, steps = drawn_case(), 2, 0.01, np.array([1, 10, 100, 3000])
    rates = rate_values(schedule, np.arange(3000.0))
    rho, wanted = nodes.energies.copy(), []
    for step, rate in enumerate(rates, start=1):
        pull = 2 * rate * batch * nodes.z - rate**2 * batch * (batch + 1) * nodes.z**2
        rho = (1 - pull) * rho + rate**2 * batch * nodes.z**2 * (rho.sum() + nodes.floor + noise)
        if step in steps:
            wanted.append(rho.sum() + nodes.floor)
    found = mean_risk(nodes, schedule, batch, noise, steps)
    np.testing.assert_allclose(found[:2], wanted[:2], rtol=1e-12)
    np.testing.assert_allclose(found, wanted, rtol=2e-4)
    # The rate of the first step for all of them is another risk.
    fixed = mean_risk(nodes, float(rates[0]), batch, noise, steps)
    assert np.abs(fixed / wanted - 1.0).max() > 0.05 or schedule.startswith("0.02")
    np.testing.assert_allclose(fixed if schedule.startswith("0.02") else wanted, wanted, rtol=1e-4)


def test_the_limit_of_small_rates_is_a_volterra_equation():
    """At equal products of rate and steps the difference falls to second order in the rate for B = 1, where
    $1-2x+2x^2$ is $e^{-2x}$ to second order."""
    nodes = equivalent_nodes(0.7, 0.9, 400, 60)
    for falling in ("{rate}", "{rate}/(1 + t*{rate}/4)"):
        gaps = []
        for rate in (0.04, 0.02, 0.01):
            given = limen.PowerLawFeatures(0.7, 0.9, 60, 400, rate=falling.format(rate=rate)).rate
            asked = (nodes, given, 1, 0.1, np.array([round(8 / rate)]))
            gaps.append(mean_risk(*asked)[0] / volterra_risk(*asked)[0] - 1.0)
        np.testing.assert_allclose([gaps[0] / gaps[1], gaps[1] / gaps[2]], 4.0, rtol=0.15)


@pytest.mark.parametrize(
    ("alpha", "beta", "phase", "risk", "size"),
    [
        # By hand: two terms d^p r^q meet at r = f/d.
        (1.0, 0.3, "Ia", 1.6 * (1 / 3), 1 / 3),
        (0.4, 0.3, "Ib", 0.2, 0.5),
        (1.0, 0.7, "II", 12 / 17, 7 / 17),
        (0.7, 1.2, "III", 9 / 14, 0.5),
        (0.4, 0.8, "IVa", 0.4, 0.5),
    ],
)
def test_exponents(alpha, beta, phase, risk, size):
    found = limen.kernel.scaling_exponents(alpha, beta)
    assert found.phase == phase
    assert found.risk == pytest.approx(risk, abs=1e-12) and found.size == pytest.approx(size, abs=1e-12)


def test_exponents_are_continuous_across_phase_lines():
    for before, after in (((1.0, 0.5 - 1e-9), (1.0, 0.5 + 1e-9)), ((0.8, 0.8 - 1e-9), (0.8, 0.8 + 1e-9))):
        one, two = limen.kernel.scaling_exponents(*before), limen.kernel.scaling_exponents(*after)
        assert one.phase != two.phase and one.risk == pytest.approx(two.risk, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.3), (0.4, 0.3), (1.0, 0.7), (0.7, 1.2)])
def test_the_frontier_has_its_exponents(alpha, beta):
    features = np.unique(np.geomspace(300, 1e6, 18).astype(int))
    compute = np.geomspace(1e8, 1e11, 25)
    risk, best = limen.kernel.scaling_frontier(alpha, beta, features, compute, ambient_per_feature=4.0)
    inside = (best > features[0]) & (best < features[-1])
    assert inside.sum() > 15
    slope = np.polyfit(np.log(compute[inside]), np.log(risk[inside]), 1)[0]
    assert -slope == pytest.approx(limen.kernel.scaling_exponents(alpha, beta).risk, rel=0.03)


def test_contour_of_a_wide_spectrum():
    """More nodes where the spectrum spans more decades: too few lose the risk at a hundred thousand features."""
    steps = np.array([10, 10**5, 10**8])
    fine, usual, few = (
        mean_risk(equivalent_nodes(1.0, 0.7, 3 * 10**7, 10**5, density), 0.1, 1, 0.0, steps) for density in (20, 10, 3)
    )
    np.testing.assert_allclose(usual, fine, rtol=1e-4)
    assert not np.abs(few / fine - 1.0).max() < 1e-2


def test_phase_four_is_a_slow_limit():
    """At beta = 1.5 the limit is reached at ten million features; at 0.8 the frontier still falls faster, by what the
    terms left out say."""
    sizes = np.geomspace(1e6, 3e7, 7)
    risk, size = frontier_exponents(0.4, 1.5, sizes)
    assert risk == pytest.approx(0.4, rel=5e-3) and size == pytest.approx(0.5, abs=0.03)
    slow = frontier_exponents(0.4, 0.8, sizes)[0] - 0.4
    assert 0.01 < slow < 0.05
    assert limit_error(0.4, 0.8, 5e6) == pytest.approx(slow, rel=0.7)
    assert limit_error(0.4, 0.8, 1e12) < 1e-3 < limit_error(0.4, 0.8, 1e8)


@pytest.mark.slow
def test_phase_four_arrives():
    risk, size = frontier_exponents(0.4, 0.8, np.geomspace(3e9, 1e11, 7))
    assert risk == pytest.approx(0.4, rel=0.015) and size == pytest.approx(0.5, abs=0.03)


def test_mistakes():
    with pytest.raises(InputError, match=r"2 \(alpha \+ beta\) > 1"):
        limen.kernel.scaling_exponents(0.2, 0.2)
    with pytest.raises(InputError, match="ambient must exceed features"):
        limen.PowerLawFeatures(0.7, 0.9, 60, 60, rate=0.1)
    for wrong, words in (("1 - t", "got 0 at t = 1"), (-1.0, "rate must be greater than 0"), ("x", "x")):
        with pytest.raises(InputError, match=words):
            limen.PowerLawFeatures(0.7, 0.9, 20, 100, rate=wrong)
    for ask in (limen.predict, lambda problem, times: limen.simulate(problem, times, seeds=1)):
        with pytest.raises(InputError, match="rate must be finite and positive"):
            ask(limen.PowerLawFeatures(0.7, 0.9, 20, 100, rate="0.1*(8 - t)"), 20)
    problem = limen.PowerLawFeatures(0.7, 0.9, 20, 100, rate=3.0)
    assert "take a rate below about" in limen.predict(problem, 50).status
    with pytest.raises(InputError, match="d must be the features of the problem"):
        limen.simulate(problem, 5, d=30, seeds=1)
