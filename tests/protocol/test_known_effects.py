"""What a theory knows that it leaves out is said where a comparison does not agree."""

import numpy as np

import limen


def from_random_starts(
    target: str, rate: float | str = "0.2/(1+t)", activation: str = "square"
) -> tuple[limen.Result, limen.Result]:
    posed = limen.TwoLayer(target, limen.network(1, activation), limen.SphericalSGD(rate))
    times = np.linspace(0.0, 2.0, 5)
    asked = {"d": 40, "seeds": 8}
    return limen.predict(posed, times, theory="overlap-ode", **asked), limen.simulate(posed, times, **asked)


def test_escapes_from_a_saddle_say_that_noise_is_left_out():
    theory, run = from_random_starts("z**2")
    said = limen.compare(theory, run)
    assert said.verdict != "agrees"
    assert "the noise of SGD moves the escape from a saddle" in said.sentence


def test_easy_targets_and_constant_rates_have_no_such_word():
    for theory, _ in (from_random_starts("z + z**2", activation="tanh"), from_random_starts("z**2", 0.2)):
        assert "caveat" not in theory.dataset.attrs
