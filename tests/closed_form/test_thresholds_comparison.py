"""Algorithmic and information-theoretic thresholds and Bayes overlaps against closed forms and direct quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import k0, k1, ndtr

from limen.link import hard_subspace, leap
from limen.problem.spec import InputError
from limen.problem.targets import target
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.bayes import bayes_overlap
from limen.theory.thresholds.information_theoretic import information_theoretic
from limen.theory.thresholds.label_channel import target_channel
from limen.theory.thresholds.overlap_curve import information_and_slope, overlap_curve
from limen.theory.thresholds.spectral_estimator import spectral_overlap, spectral_weight


def density(x: float) -> float:
    return float(np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi))


def binary_fisher(threshold: float) -> float:
    r"""$y=\mathrm{sign}(|z|-c)$: $E[(z^2-1)1_{|z|>c}]=2c\varphi(c)$."""
    above = 2.0 * ndtr(-threshold)
    return (2.0 * threshold * density(threshold)) ** 2 / (above * (1.0 - above))


def noisy_square_fisher(variance: float) -> float:
    r"""$E_y[(E[z^2-1\mid y])^2]$ for $y=z^2+\sqrt v\,\varepsilon$ by two nested sums on a fine grid."""
    z = np.linspace(-9.0, 9.0, 6001)
    y = np.linspace(-4.0, 60.0, 2500)
    joint = np.exp(-0.5 * z**2 - (y[:, None] - z**2) ** 2 / (2.0 * variance))
    mass, moment = joint.sum(1), (joint * (z**2 - 1.0)).sum(1)
    return float((moment**2 / np.maximum(mass, 1e-300)).sum() / mass.sum())


def product_fisher() -> float:
    r"""$E[(a-1)^2]$ for $y=z_1z_2$: $E[z_1^2\mid y]=a=|y|K_1(|y|)/K_0(|y|)$, $p(y)=K_0(|y|)/\pi$."""

    def integrand(y: float) -> float:
        return float((y * k1(y) / k0(y) - 1.0) ** 2 * k0(y) * 2.0 / np.pi)

    return quad(integrand, 0.0, 1.0, limit=200)[0] + quad(integrand, 1.0, 100.0, limit=200)[0]


# Algorithmic


def test_phase_retrieval_is_one_half() -> None:
    assert algorithmic("phase-retrieval") == pytest.approx(0.5, rel=1e-5)
    # An increasing function of the label is the same label.
    assert algorithmic("abs(z)") == pytest.approx(0.5, rel=1e-5)


def test_noisy_phase_retrieval() -> None:
    found = algorithmic(target("z**2", noise=0.25))
    assert found == pytest.approx(1.0 / noisy_square_fisher(0.25), rel=1e-4)
    assert found == pytest.approx(0.5416, abs=1e-4)
    assert algorithmic(target("z**2 + 0.5*e")) == pytest.approx(found, rel=1e-3)


def test_noise_too_small_for_the_grid_is_continuous_with_none() -> None:
    assert algorithmic(target("z**2", noise=1e-8)) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("threshold", [0.3, 1.0])
def test_binary_labels(threshold: float) -> None:
    assert algorithmic(f"sign(abs(z) - {threshold})") == pytest.approx(1.0 / binary_fisher(threshold), rel=1e-4)


def test_many_branches() -> None:
    # Poisson summation over the branches of cos(3z): E[T^2] = (18 e^{-9/2})^2/2 (1 + O(e^{-9/2})).
    assert algorithmic("cos(3*z)") == pytest.approx(np.exp(9.0) / 162.0, rel=1e-3)


def test_products_by_bessel_functions() -> None:
    fisher = product_fisher()
    assert algorithmic("z1*z2") == pytest.approx(1.0 / (1.0 + fisher), rel=5e-4)
    assert algorithmic("z1*z2") == pytest.approx(0.59375, rel=5e-4)
    # With the second factor unknown noise, only the even part of T is left.
    assert algorithmic("z*e") == pytest.approx(1.0 / fisher, rel=2e-3)


def test_sum_of_squares_is_one() -> None:
    # y is twice an exponential variable, T = (y/2 - 1) I, Var(y/2) = 1.
    assert algorithmic("z1**2 + z2**2") == pytest.approx(1.0, rel=3e-3)


def test_easy_directions_are_known_at_any_number_of_samples() -> None:
    assert algorithmic("z1 + z2**2") == pytest.approx(0.5, rel=1e-4)
    assert algorithmic("z1 + z2*z3") == pytest.approx(1.0 / (1.0 + product_fisher()), rel=3e-3)


def test_no_hard_direction_is_zero_and_hidden_ones_infinite() -> None:
    assert algorithmic("z + z**2") == 0.0
    for formula in ("sign(z1*z2*z3)", "z**2*exp(-z**2)"):
        assert algorithmic(formula) == np.inf and leap(formula, "generative") >= 3
    assert algorithmic("z1 + 0*z2") == np.inf and hard_subspace("z1 + 0*z2").dimension == 1


# Information


def test_information_of_a_linear_label() -> None:
    channel, variance = target_channel(target("z", noise=0.5), 1 << 11, 256), 0.5
    for q in (0.1, 0.5, 0.95):
        information, slope = information_and_slope(channel, q)
        assert information == pytest.approx(0.5 * np.log((1.0 + variance) / (1.0 - q + variance)), rel=1e-3)
        assert slope == pytest.approx(1.0 / (1.0 - q + variance), rel=1e-3)


def test_information_of_a_binary_label() -> None:
    channel, q = target_channel(target("sign(abs(z) - 1)"), 1 << 11, 512), 0.5

    def integrand(known: float) -> float:
        inside = ndtr((1.0 - q**0.5 * known) / (1.0 - q) ** 0.5) - ndtr((-1.0 - q**0.5 * known) / (1.0 - q) ** 0.5)
        total = 1.0 - 2.0 * ndtr(-1.0)
        return density(known) * (inside * np.log(inside / total) + (1 - inside) * np.log((1 - inside) / (1 - total)))

    exact = quad(integrand, -8.0, 8.0)[0]
    assert information_and_slope(channel, q)[0] == pytest.approx(exact, rel=2e-4)


@pytest.mark.parametrize("formula, noise", [("z**2", 0.0), ("z**2", 0.25), ("sign(z**2 - 1)", 0.0)])
def test_slope_is_twice_the_derivative_of_information(formula: str, noise: float) -> None:
    channel = target_channel(target(formula, noise=noise), 1 << 11, 256)
    above, below = (information_and_slope(channel, 0.4 + step)[0] for step in (1e-3, -1e-3))
    assert information_and_slope(channel, 0.4)[1] == pytest.approx((above - below) / 1e-3, rel=1e-4)


@pytest.mark.slow
def test_information_theoretic_thresholds() -> None:
    assert information_theoretic("z**2") == pytest.approx(0.5, rel=1e-5)
    noisy = target("z**2", noise=0.25)
    assert information_theoretic(noisy) == pytest.approx(algorithmic(noisy), rel=1e-12)
    # One continuous label per unknown is enough in principle, far below what is efficient.
    assert information_theoretic("cos(3*z)") == pytest.approx(1.0, abs=1e-3)
    assert information_theoretic("z + z**2") == 0.0


# Bayes-optimal overlaps


def test_overlap_of_a_linear_label_solves_a_quadratic() -> None:
    variance = 0.5
    for delta in (0.3, 0.8, 3.0):
        half = 0.5 * (1.0 + variance + delta)
        exact = half - np.sqrt(half**2 - delta)
        found = bayes_overlap(target("z", noise=variance), delta)
        assert found.algorithmic == pytest.approx(exact, abs=1e-3)
        assert found.information_theoretic == found.algorithmic


def test_overlaps_of_phase_retrieval() -> None:
    curve = overlap_curve(target("z**2"))
    # Message passing recovers exactly from 1.128 on, the posterior from 1 (Barbier et al. 2019, real phase retrieval).
    assert curve.samples_per_dim.max() == pytest.approx(1.128, abs=2e-3)
    assert bayes_overlap("z**2", 0.49).information_theoretic == 0.0
    between = bayes_overlap("z**2", 1.05)
    assert between.information_theoretic == 1.0 and 0.5 < between.algorithmic < 0.6
    assert bayes_overlap("z**2", 1.2).algorithmic == 1.0


@pytest.mark.parametrize("formula, noise", [("z**2", 0.25), ("z**2", 0.0), ("cos(3*z)", 0.0), ("sign(z**2-1)", 0.0)])
def test_overlaps_grow_with_samples_and_vanish_below_the_thresholds(formula: str, noise: float) -> None:
    link = target(formula, noise=noise)
    found = [bayes_overlap(link, delta) for delta in np.geomspace(0.1, 80.0, 60)]
    best, efficient = (np.array([getattr(o, name) for o in found]) for name in ("information_theoretic", "algorithmic"))
    assert (np.diff(best) >= 0).all() and (np.diff(efficient) >= 0).all()
    assert (best >= efficient).all()
    low, high = information_theoretic(link), algorithmic(link)
    assert (
        bayes_overlap(link, 0.99 * low).information_theoretic
        == 0.0
        < bayes_overlap(link, 1.02 * low).information_theoretic
    )
    assert bayes_overlap(link, 0.99 * high).algorithmic == 0.0 < bayes_overlap(link, 1.02 * high).algorithmic


def test_the_spectral_estimator_leaves_the_bulk_at_the_algorithmic_threshold() -> None:
    link = target("z**2", noise=0.25)
    threshold = algorithmic(link)
    assert spectral_overlap(link, 0.99 * threshold) == 0.0 < spectral_overlap(link, 1.02 * threshold)
    # Efficient, hence never better than message passing.
    for delta in (0.8, 1.0, 2.0, 4.0):
        assert spectral_overlap(link, delta) < bayes_overlap(link, delta).algorithmic
    weight = spectral_weight("z**2", regularisation=0.1)
    labels = np.array([0.5, 1.0, 3.0])
    np.testing.assert_allclose(weight(labels), (labels - 1.0) / (labels + 0.1), atol=1e-3)


def test_bad_input_is_refused_in_a_sentence() -> None:
    for delta in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="samples_per_dim must be positive, got"):
            bayes_overlap("z**2", delta)
    with pytest.raises(InputError, match="samples_per_dim must be positive, got -2"):
        spectral_overlap("z**2", -2.0)
    with pytest.raises(InputError, match="regularisation must be positive, got 0"):
        spectral_weight("z**2", 0.0)
    for verb in (information_theoretic, lambda link: bayes_overlap(link, 1.0)):
        with pytest.raises(InputError, match=r"for 2 latent directions, and 'z1\*z2' has noise 0"):
            verb("z1*z2")
    with pytest.raises(InputError, match=r"only hard or only easy directions here, and 'z1 \+ z2\*z3' has 2 hard"):
        information_theoretic(target("z1 + z2*z3", noise=0.1))
    with pytest.raises(InputError, match=r"at most 3 latent directions here, and 'z1\*z2\*z3\*z4' has 4"):
        bayes_overlap(target("z1*z2*z3*z4", noise=0.1), 1.0)
    with pytest.raises(InputError, match="finite mean square label"):
        algorithmic("exp(z**2)")
