"""The experiments of committees under one-pass SGD at reduced size, each with a twin that carries a planted error."""

import re
from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.one_pass import committee_sgd
from limen.experiments.one_pass.committee_sgd import CommitteeSGD
from limen.experiments.one_pass.sgd_regimes import SGDRegimes
from limen.problem import InputError
from limen.result import merge
from limen.theory.one_pass.alike_students import alike_flows


@pytest.mark.slow
def test_specialisation_and_a_rate_a_tenth_off(monkeypatch):
    """40 seeds may not be enough to agree; a rate a tenth off is what they see."""
    # Without the covariance equation, whose compilation would be half of the test.
    monkeypatch.setattr(committee_sgd, "WIDEST_BAND", 0)
    experiment = CommitteeSGD(d=400, horizon=20.0, rate=4.0, noise=0.3, advantage=0.4)
    seeds = tuple(range(40))
    simulation = merge([experiment.simulate(seed) for seed in seeds])
    theory = experiment.theory(seeds)
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict != "disagrees", str(comparison)
    twin = experiment.model_copy(update={"rate": 4.4}).theory(seeds)
    assert experiment.compare(replace(twin, spec=simulation.spec), simulation).verdict == "disagrees"
    own, other = (theory.dataset[name].mean("seed").values for name in ("own_overlap", "other_overlap"))
    assert own[0] == pytest.approx(0.4) and other[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_specialisation_is_found_and_the_noise_plateau_reached():
    """A long and gentle flow: after the symmetric plateau the risk ends within 10% of the first-order plateau."""
    experiment = CommitteeSGD(rate=0.3, horizon=400.0, advantage=0.3)
    numbers = experiment.headline(experiment.theory((0,)))["theory"]
    assert 30.0 < numbers["specialisation_time"] < 120.0
    assert numbers["final_own_overlap"] == pytest.approx(1.0, abs=0.02)
    assert numbers["final_risk"] == pytest.approx(numbers["noise_plateau"], rel=0.1)


def test_one_teacher_leaves_nothing_to_specialise_for(monkeypatch):
    monkeypatch.setattr(committee_sgd, "WIDEST_BAND", 0)
    experiment = CommitteeSGD(teachers=1, students=1, horizon=2.0, d=60)
    theory = experiment.theory((0, 1))
    assert np.isinf(experiment.headline(theory)["theory"]["specialisation_time"])
    assert len(experiment.figure(theory).panels[0].marks) == 1
    with pytest.raises(InputError, match="name or a formula in z"):
        CommitteeSGD(activation="hermite:3")
    assert CommitteeSGD(activation="tanh(2*z)", teachers=2).problem().target.latents == 2


@pytest.mark.slow
def test_a_batch_that_grows_with_the_dimension_divides_the_noise():
    """Twin: noise four times too large."""
    experiment = SGDRegimes(kappa=0.0, d=1500, mu=0.2, horizon=3.0)
    assert experiment.batch() == 4
    simulation = merge([experiment.simulate(seed) for seed in range(32)])
    comparison = experiment.compare(experiment.theory(), simulation)
    assert comparison.verdict == "agrees", str(comparison)
    # the noise of single samples at the same rate
    single = experiment.theory().dataset
    shifted = alike_flows(*experiment._alike(), experiment.rates(single.total.values) * 4, 0.2, experiment.times())
    wrong = replace(
        experiment.theory(),
        dataset=single.assign(excess_risk=single.excess_risk.copy(data=shifted.dataset.excess_risk.values)),
    )
    assert experiment.compare(wrong, simulation).verdict == "disagrees"


@pytest.mark.parametrize(("mu", "d"), [(0.3, 100), (0.5, 400), (0.2, 40), (0.4, 2000)])
def test_a_batch_too_large_is_told_the_largest_and_the_dimension_for_it(mu, d):
    with pytest.raises(InputError, match=f"mu must be at most .* at d = {d}, .* got {mu}: take a smaller mu") as error:
        SGDRegimes(mu=mu, d=d)
    most = float(re.search(r"at most ([\d.]+)", str(error.value))[1])
    assert SGDRegimes(mu=most, d=d).mu == most
    with pytest.raises(InputError):
        SGDRegimes(mu=min(0.5, most + 0.02), d=d)
    if larger := re.search(r"or d = (\d+)", str(error.value)):
        assert SGDRegimes(mu=mu, d=int(larger[1])).batch() > 1


@pytest.mark.slow
def test_regimes_and_dropped_label_noise():
    """Twin: the label noise left out."""
    experiment = SGDRegimes(kappa=0.0, d=150, horizon=3.0)
    simulation = merge([experiment.simulate(seed) for seed in range(256)])
    theory = experiment.theory()
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict == "agrees", str(comparison)
    twin = experiment.model_copy(update={"noise": 0.0}).theory()
    assert experiment.compare(replace(twin, spec=simulation.spec), simulation).verdict == "disagrees"
    final = theory.dataset.final_risk.values
    assert (np.diff(final) < 0).all(), "more noise, more risk"
    assert final[-1] > theory.dataset.gradient_flow_risk.values[-1]
    # At larger d the two sides move to their limits.
    sharper, scanned = theory.dataset.final_risk_larger_d.values, theory.dataset.scanned.values
    assert (sharper[scanned > 0.01] < final[scanned > 0.01]).all()
    assert (sharper[scanned < -0.01] > final[scanned < -0.01]).all()
