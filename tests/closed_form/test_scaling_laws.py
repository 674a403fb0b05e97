"""Scaling laws of random features: exact moments of the contour, recursion and its limits, exponents, frontier."""

import numpy as np
import pytest

import limen
from limen import InputError
from limen.experiments.kernel.scaling_law import ScalingLaw
from limen.problem.rates import rate_values
from limen.theory.kernel.scaling.power_law import (
    Nodes,
    Population,
    drawn_nodes,
    equivalent_nodes,
    largest_rate,
    largest_rate_drawn,
    mean_risk,
    population,
    stable_edge,
    stretched,
    volterra_risk,
)
from limen.theory.kernel.scaling.scaling_laws import frontier_exponents, limit_error


def test_contour_holds_all_eigenvalues_and_the_whole_target():
    for alpha, beta, v, d in ((0.7, 0.9, 400, 60), (1.2, 0.2, 10_000, 50), (0.35, 0.8, 3000, 800)):
        values, counts, energies = spectrum = population(alpha, beta, v)
        nodes = equivalent_nodes(spectrum, d)
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
    nodes = equivalent_nodes(population(0.7, 0.9, 400), 60)
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
    spectrum, edge = population(1.0, 0.7, 3 * 10**7), stable_edge(0.1, 1)
    fine, usual, few = (
        mean_risk(equivalent_nodes(spectrum, 10**5, edge, density), 0.1, 1, 0.0, steps) for density in (20, 8, 1)
    )
    np.testing.assert_allclose(usual, fine, rtol=1e-7)
    assert not np.abs(few / fine - 1.0).max() < 1e-2


def marchenko_pastur(equals, features):
    """Equal eigenvalues 1: nodes on the real axis by Gauss and Chebyshev, for a target of energy 1, and their edges."""
    ratio = equals / features
    low, high = (1.0 - np.sqrt(ratio)) ** 2, (1.0 + np.sqrt(ratio)) ** 2
    angle = np.arange(1, 400) * np.pi / 400
    z = 0.5 * (high + low) + 0.5 * (high - low) * np.cos(angle)
    share = (0.5 * (high - low)) ** 2 * np.sin(angle) ** 2 / (2.0 * z) / 400
    return Nodes(z, share / ratio, features * share, 1.0 - 1.0 / ratio), low, high


@pytest.mark.parametrize(("equals", "features", "batch"), [(200, 60, 1), (70, 60, 4), (900, 300, 60)])
def test_the_contour_is_the_spectrum_itself_up_to_divergence(equals, features, batch):
    """Marchenko and Pastur: real nodes, which cannot cancel, at rates from far below the largest to just above."""
    spectrum = Population(np.ones(1), np.array([float(equals)]), np.ones(1))
    real = marchenko_pastur(equals, features)[0]
    assert real.counts.sum() == pytest.approx(features, rel=1e-12)
    steps, largest = np.array([0, 1, 10, 100, 1000, 10**5]), largest_rate(spectrum, features, batch)
    for part in (0.01, 0.5, 0.9, 0.999):
        rate = part * largest
        nodes = equivalent_nodes(spectrum, features, stable_edge(rate, batch))
        wanted = mean_risk(real, rate, batch, 0.1, steps)
        np.testing.assert_allclose(mean_risk(nodes, rate, batch, 0.1, steps), wanted, rtol=1e-8)
        np.testing.assert_allclose(
            volterra_risk(nodes, rate, batch, 0.1, steps), volterra_risk(real, rate, batch, 0.1, steps), rtol=1e-8
        )
    # Beyond it grows, and the contour still follows.
    steps = np.array([10, 30, 100])
    rate = 1.02 * largest
    wanted = mean_risk(real, rate, batch, 0.1, steps)
    nodes = equivalent_nodes(spectrum, features, stable_edge(rate, batch))
    np.testing.assert_allclose(mean_risk(nodes, rate, batch, 0.1, steps), wanted, rtol=1e-6)
    assert np.isinf(mean_risk(nodes, rate, batch, 0.1, np.array([10**6])))


@pytest.mark.parametrize(("equals", "features", "batch"), [(200, 60, 1), (70, 60, 4), (100, 50, 200)])
def test_largest_rate_of_equal_eigenvalues(equals, features, batch):
    r"""By hand: the sum is 1 at $x=1+v/(B+1)$ where $B+1<\sqrt{vd}$; else the edge $(1+\sqrt{v/d})^2$ is at $z_s$."""
    spectrum = Population(np.ones(1), np.array([float(equals)]), np.ones(1))
    own = batch + 1
    real, _, high = marchenko_pastur(equals, features)
    by_hand = (
        2.0 * features / ((equals + own) * (features + own)) if own < np.sqrt(equals * features) else 2.0 / (own * high)
    )
    assert largest_rate(spectrum, features, batch) == pytest.approx(by_hand, rel=1e-9)
    if own < np.sqrt(equals * features):
        scaled = by_hand * real.z
        assert (real.counts * scaled / (2.0 - own * scaled)).sum() == pytest.approx(1.0, rel=1e-9)


def test_largest_rate_of_a_draw_parts_growth_from_decay():
    nodes, steps = drawn_case(), np.array([10_000, 100_000])
    for batch in (1, 8):
        largest = largest_rate_drawn(nodes, batch)
        below, above = (mean_risk(nodes, part * largest, batch, 0.0, steps) for part in (0.98, 1.02))
        assert below[1] < 1.01 * below[0] and not above[1] < 1e3 * above[0]


@pytest.mark.parametrize("batch", [1, 2, 30, 1000])
def test_no_step_amplifies_a_node(batch):
    """The factor of a step on every node of the contour, at rates up to where the spectrum comes to its disc."""
    spectrum = population(1.0, 0.7, 256)
    for features in (2, 64, 200):
        largest = largest_rate(spectrum, features, batch)
        for rate in (0.01 * largest, 0.5 * largest, 0.9999 * largest):
            z = equivalent_nodes(spectrum, features, stable_edge(rate, batch)).z
            assert np.abs(1 - 2 * rate * batch * z + rate**2 * batch * (batch + 1) * z**2).max() <= 1.0 + 1e-12
        # Where the edge comes to the disc, a contour that knows nothing of it leaves it.
        z = equivalent_nodes(spectrum, features).z
        factor = np.abs(1 - 2 * largest * batch * z + largest**2 * batch * (batch + 1) * z**2).max()
        assert factor > 1.0 or batch < 30


def test_features_almost_as_many_as_inputs():
    """Newton's method arrives where the left edge is nearly zero."""
    for alpha, v, d in ((2.42, 259, 258), (4.4, 148, 147), (0.95, 89_746, 89_650), (3.03, 6, 4)):
        nodes = equivalent_nodes(population(alpha, 0.5, v), d)
        assert nodes.counts.real.sum() == pytest.approx(d, rel=1e-9)


def test_the_stretched_row_is_its_quantile():
    r"""$\chi^2$ of two features is exponential: one row in forty is longer than $\log40$ times its mean."""
    spectrum = population(0.8, 0.4, 50)
    rare = stretched(spectrum, 2, 1 / 40)
    scatter = np.sqrt((np.arange(1.0, 51.0) ** -3.2).sum())
    assert rare.values[0] == pytest.approx(1.0 + (np.log(40.0) - 1.0) * scatter, rel=1e-12)
    np.testing.assert_array_equal(rare.values[1:], spectrum.values[1:])
    np.testing.assert_array_equal(rare.energies, spectrum.energies)


@pytest.mark.parametrize(("alpha", "features", "batch"), [(0.3, 30, 1), (0.47, 54, 1), (1.0, 64, 1), (1.5, 15, 32)])
def test_few_draws_diverge_at_a_safe_rate(alpha, features, batch):
    """At most one in forty, counted over 200; at the largest rate of the equivalent many more."""
    generator, index = np.random.default_rng(1), np.arange(1.0, 4.0 * features + 1.0)
    drawn = []
    for _ in range(200):
        weighted = index[:, None] ** -alpha * generator.standard_normal((index.size, features)) / np.sqrt(features)
        drawn.append(largest_rate_drawn(drawn_nodes(weighted, index**-1.0), batch))
    spectrum = population(alpha, 0.5, index.size)
    safe = largest_rate(stretched(spectrum, features, 1 / 40), features, batch)
    assert np.mean(np.array(drawn) < safe) <= 2 / 40
    assert np.mean(np.array(drawn) < largest_rate(spectrum, features, batch)) > 2 / 40


def test_a_small_change_of_the_rate_is_a_small_change_of_the_loss():
    """What the loss once did not do: it fell by hundreds between the rates 0.235 and 0.2421, then diverged."""
    losses = []
    for rate in np.linspace(0.2, 0.4, 21):
        found = limen.predict(limen.PowerLawFeatures(1.0, 0.7, 64, 256, rate=float(rate)), [100, 1000, 10**5])
        assert found.ok, found.status
        losses.append(found.dataset.test_loss.values)
    assert np.abs(np.diff(np.log(losses), axis=0)).max() < 0.06


def test_what_cannot_be_trusted_is_said():
    problem = limen.PowerLawFeatures(1.0, 0.7, 64, 256, rate=0.3)
    safe = 0.438

    def asked(rate, last=1000, **options):
        return limen.predict(problem.model_copy(update={"rate": rate}), [1, last], **options)

    assert asked(0.99 * safe).ok
    near = asked(0.55)
    assert not near.ok and np.isfinite(near.dataset.test_loss).all()
    assert "one draw of the features in 40 may" in near.status and f"below about {safe}" in near.status
    # A few steps do no harm, nor does a rate that falls.
    assert asked(0.45, 2).ok and not asked(0.45, 10**5).ok
    assert asked("0.5/(1 + t)**0.5").ok and limen.predict(problem, [0]).ok
    beyond = asked(0.62, 10**5)
    assert not beyond.ok and "the risk diverges: take a rate below about 0.593" in beyond.status
    for rate in (1e6, 1e200):
        assert not asked(rate, 10**5).ok and not asked(rate, 10**5, seeds=2).ok
    drawn = asked(0.7, 10**5, seeds=8)
    assert not drawn.ok and "of 8 draws" in drawn.status
    rate = float(drawn.status.split("below about ")[1].rstrip("."))
    assert asked(0.98 * rate, 10**5, seeds=8).ok and not asked(1.02 * rate, 10**6, seeds=8).ok
    # Small rates: two over the trace of the inputs.
    volterra = asked(1.5, 10**5, theory="power-law-volterra")
    assert f"below about {2.0 / (np.arange(1.0, 257.0) ** -2.0).sum():.3g}" in volterra.status
    tiny = limen.predict(limen.PowerLawFeatures(4.0, 5.0, 3000, 6000, rate=0.3), [1, 10**12])
    assert not tiny.ok and "rounding decides" in tiny.status


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


def test_the_figure_of_a_scaling_law_draws_only_what_is_trusted():
    """At alpha = 0.3 the line of d = 8 once plunged and stopped; near divergence a line is missing and says so."""

    def lines(**fields):
        experiment = ScalingLaw(**fields)
        panel = experiment.picture(None).panels[0]
        return experiment, {mark.label: np.asarray(mark.y) for mark in panel.marks if hasattr(mark, "dashed")}

    _, drawn = lines(alpha=0.3, beta=1.2, sizes=5)
    assert len(drawn) == 7
    for label, curve in drawn.items():
        # One step of the grid is 4%, and near the start one whole step of SGD.
        change = np.diff(np.log(curve))
        assert np.isfinite(curve).all() and change.max() < 0.01 and change.min() > -0.2, label
    experiment, drawn = lines(alpha=1.2, largest=16, sizes=2, ambient=100, rate=1.0, batch=1)
    assert np.isnan(drawn["$d=16$: theory not trusted"]).all() and np.isfinite(drawn["best size"]).all()
    found = experiment.predict(tuple(range(8)))
    assert not found.ok and "the risk diverges for 1 of 8 draws" in found.status


def test_slow_spectra_and_loud_labels_are_answered():
    """So many small eigenvalues that ten features have equal ones and see nothing of the target: the risk grows to what
    its own noise makes of it. And a risk that label noise alone makes grow."""
    slow = limen.predict(limen.PowerLawFeatures(0.1, 0.5, features=10, ambient=10**7, rate=1e-7), [1, 10])
    x = 1e-7 * (1e7**0.8 / 0.8) / 10
    rise = 1.0 + (1.0 - (1.0 - 2 * x + 2 * x**2) ** np.array([1, 10])) * 10 * x / (2.0 - 2 * x)
    assert slow.ok and slow.dataset.test_loss[1] / slow.dataset.test_loss[0] == pytest.approx(
        rise[1] / rise[0], abs=1e-5
    )
    loud = limen.PowerLawFeatures(1.0, 0.5, features=50, ambient=500, rate=0.1, noise=1e8)
    found, half = (limen.predict(one, [10, 100]).dataset for one in (loud, loud.model_copy(update={"noise": 5e7})))
    # Far above the start the risk is in proportion to the noise.
    np.testing.assert_allclose(found.test_loss / half.test_loss, 2.0, rtol=1e-6)
