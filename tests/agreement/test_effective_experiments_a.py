"""Experiments on search, recovery and spiked tensors at reduced size: not contradicted, and planted errors are seen."""

from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.effective.bbp_diffusion import BBPDiffusion
from limen.experiments.effective.binary_mixture import BinaryMixtureTraining
from limen.experiments.effective.effective_dynamics import EffectiveDynamicsCheck
from limen.experiments.effective.online_pca import OnlinePCATraining
from limen.experiments.effective.spiked_tensor import SpikedTensorFlow
from limen.experiments.effective.weak_recovery import WeakRecovery
from limen.problem import BinaryMixture, SpikedTensor
from limen.result import Result, merge
from limen.simulation.effective.spherical_chain import solve_seeds
from limen.theory.effective.mixtures.mixture_fluctuations import overlap_fluctuations
from limen.theory.effective.search.search_moments import search_moments

pytestmark = pytest.mark.slow


def ran(experiment, seeds: int) -> tuple[Result, Result]:
    return experiment.theory(), merge([experiment.simulate(seed) for seed in range(seeds)])


def planted(theory: Result, **wrong: np.ndarray) -> Result:
    changed = {name: theory.dataset[name].copy(data=values) for name, values in wrong.items()}
    return replace(theory, dataset=theory.dataset.assign(changed))


def values(theory: Result, name: str) -> np.ndarray:
    return theory.dataset[name].values


def test_online_pca():
    """Twin: the limit of small steps, without the corrector."""
    experiment = OnlinePCATraining(d=1000, runs=64)
    theory, simulation = ran(experiment, 128)
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    wrong = planted(theory, square_overlap=values(theory, "small_step_square_overlap"))
    assert experiment.compare(wrong, simulation).verdict == "disagrees"


def test_bbp_diffusion():
    """Twins: the noise of SGD 30% too weak; a memory that does not fade."""
    experiment = BBPDiffusion(d=1700, runs=200, horizon=0.3)
    theory, simulation = ran(experiment, 256)
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    variance = values(theory, "spread") ** 2
    wrong = planted(theory, spread=np.sqrt(variance[:, :1] + 0.7 * (variance - variance[:, :1])))
    assert experiment.compare(wrong, simulation)["spread"].verdict == "disagrees"
    wrong = planted(theory, memory=np.sqrt(values(theory, "memory")))
    assert experiment.compare(wrong, simulation)["memory"].verdict == "disagrees"


def test_spiked_tensor():
    """Twins: the corrector that holds r at c 3% off; a clock 5% fast."""
    experiment = SpikedTensorFlow(d=4000, runs=4, horizon=0.6)
    theory, simulation = ran(experiment, 20)
    assert experiment.compare(theory, simulation).verdict == "agrees"
    other = SpikedTensorFlow(d=4000, runs=4, horizon=0.6, step=0.515)
    wrong = planted(theory, orthogonal_square=values(other.theory(), "orthogonal_square"))
    assert experiment.compare(wrong, simulation).verdict == "disagrees"
    fast = SpikedTensorFlow(d=4000, runs=4, horizon=0.63).theory()
    assert experiment.compare(planted(theory, overlap=values(fast, "overlap")), simulation).verdict == "disagrees"


@pytest.mark.slow
def test_binary_mixture():
    """Twins: fluctuations without the noise of SGD; recovery 10% early."""
    experiment = BinaryMixtureTraining(d=800, runs=160)
    theory, simulation = ran(experiment, 192)
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    times, spread = experiment.times(), values(theory, "overlap_spread")
    limit = values(theory, "limiting_overlap")
    # Without noise a start's deviation moves in proportion to the speed of the path.
    quiet = np.gradient(limit, times) / np.gradient(limit, times)[0]
    assert np.abs(quiet - spread).max() > 0.1
    assert experiment.compare(planted(theory, overlap_spread=quiet), simulation).verdict == "disagrees"
    late, law = experiment.balanced_times(), values(theory, "recovered")
    early = planted(theory, recovered=np.interp(1.1 * late, late, law))
    assert experiment.compare(early, simulation)["recovered"].verdict == "disagrees"


@pytest.mark.slow
def test_the_mean_overlap_has_its_shift():
    """N = 100: the mean over runs with the shift of order 1/N and not without; what is left is about 33/N^2."""
    problem, times, size, count = BinaryMixture(weight=0.8, step=1.0), np.array([0.0, 1.0, 2.0, 4.0]), 100, 20_000
    limit, shift, _ = overlap_fluctuations(problem, times)
    paths = solve_seeds(problem, times, size, range(count))[0].dataset.overlap.values
    error = paths.std(axis=0) / count**0.5
    with_shift, without = (np.abs(paths.mean(axis=0) - one) for one in (limit + shift / size, limit))
    within = 4.0 * error + 40.0 / size**2
    assert (with_shift < within).all()
    assert without[2] > 2.0 * within[2]


@pytest.mark.slow
def test_weak_recovery():
    """24 seeds see that every time is a quarter too long. To agree a run of tensors of order three would need 384 seeds
    of a second each."""
    experiment = WeakRecovery(d=3200, runs=21)
    theory, simulation = ran(experiment, 24)
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict != "disagrees" and comparison["weak_recovery_time_2"].band < 0.15, comparison
    wrong = planted(theory, log_samples=values(theory, "log_samples") + np.log10(1.25))
    assert experiment.compare(wrong, simulation).verdict == "disagrees"


@pytest.mark.slow
@pytest.mark.parametrize("model, d, step, seeds", [("spiked-matrix", 40, 0.25, 128), ("xor-mixture", 300, 1.0, 24)])
def test_effective_dynamics(model, d, step, seeds):
    """Twin: the corrector left out. Of the drift of XOR 24 seeds do not tell 5%, and no smaller error was tried; the
    corrector and the statistics agree."""
    experiment = EffectiveDynamicsCheck(model=model, d=d, step=step, samples=256)
    theory, simulation = ran(experiment, seeds)
    comparison = experiment.compare(theory, simulation)
    if model == "spiked-matrix":
        assert comparison.verdict == "agrees", comparison
    assert comparison.verdict != "disagrees", comparison
    assert comparison["corrector"].verdict == comparison["statistics"].verdict == "agrees", comparison
    wrong = planted(theory, corrector=0.0 * values(theory, "corrector"))
    assert experiment.compare(wrong, simulation).verdict == "disagrees"


def test_moments_of_the_search_in_closed_form():
    """c = 1: V = c^2/(c - lambda) + (1 - ...) e^{8(lambda-c)t}, and growth e^{4(lambda-c)t}."""
    times = np.linspace(0.0, 1.0, 5)
    variance, growth = search_moments(SpikedTensor(order=2, signal=0.6, step=1.0), times)
    np.testing.assert_allclose(variance, 2.5 - 1.5 * np.exp(-3.2 * times), rtol=1e-7)
    np.testing.assert_allclose(growth, np.exp(-1.6 * times), rtol=1e-7)
    critical, _ = search_moments(SpikedTensor(order=2, signal=1.0, step=1.0), times)
    np.testing.assert_allclose(critical, 1.0 + 8.0 * times, rtol=1e-7)
