"""Shortcuts of the simulators (bordered matrices, normal equations, shared draws) against the plain computation."""

import numpy as np
import pytest

from limen import InputError
from limen.experiments.number_list import number_list
from limen.simulation.kernel.least_squares import draw_least_squares, spectral_errors
from limen.simulation.kernel.random_features import draw_random_features, random_features_errors
from limen.simulation.kernel.random_features_ridge import ridge_errors_by_width
from limen.simulation.kernel.ridgeless import ridgeless_errors
from limen.simulation.kernel.spectral_estimators import ridge_shrinkages
from limen.simulation.spectra.random_matrices import draw_covariance
from limen.simulation.spectra.spiked_covariance import spiked_top


@pytest.mark.parametrize("samples", [25, 80])
def test_the_bordered_matrix_has_the_spectrum_of_the_covariance(samples):
    spikes = np.array([0.5, 1.0, 1.8, 5.0])
    found = spiked_top(spikes, 40, samples, seed=2)
    rows = draw_covariance(np.ones(40), samples, seed=2)
    for i, spike in enumerate(spikes):
        scaled = rows * np.sqrt(np.r_[spike, np.ones(39)])
        values, vectors = np.linalg.eigh(scaled.T @ scaled / samples)
        assert found.values[i] == pytest.approx(values[-1], rel=1e-12)
        assert found.overlaps[i] == pytest.approx(vectors[0, -1] ** 2, rel=1e-8)
    with pytest.raises(InputError, match="spikes must be positive"):
        spiked_top([-1.0], 40, samples, seed=0)


@pytest.mark.parametrize("samples", [20, 60])
def test_normal_equations_against_the_singular_values(samples):
    data = draw_least_squares(1, 40, samples, 0.3, signal=(2.0,))
    errors = ridgeless_errors(data)
    plain = spectral_errors(data, ridge_shrinkages([0.0]))
    assert errors.excess == pytest.approx(plain.test[0], rel=1e-9)
    assert errors.train == pytest.approx(plain.train[0], rel=1e-9, abs=1e-20)
    # Isotropic inputs: the signal is missed outside the row space only, the noise is fitted inside it.
    assert errors.excess == pytest.approx(errors.bias + errors.variance, rel=1e-9)
    with pytest.raises(InputError, match="ratio must differ from 1"):
        ridgeless_errors(draw_least_squares(1, 40, 40, 0.3))


def test_the_first_of_many_features_are_those_of_a_smaller_draw():
    target = {"nonlinear": 0.2, "noise": 0.1, "test_samples": 200}
    penalties = [0.01, 0.5]
    wide = draw_random_features(4, "relu", 15, 60, 30, **target)
    found = ridge_errors_by_width(wide, [10, 30, 60], penalties)
    for i, width in enumerate((10, 30, 60)):
        plain = random_features_errors(
            draw_random_features(4, "relu", 15, width, 30, **target), ridge_shrinkages(penalties)
        )
        np.testing.assert_allclose(found.test[i], plain.test, rtol=1e-8)
        np.testing.assert_allclose(found.train[i], plain.train, rtol=1e-8)
    with pytest.raises(InputError, match="ridge must be positive"):
        ridge_errors_by_width(wide, [10], [0.0])


def test_lists_of_numbers_on_the_command_line():
    assert number_list("1, 4 10") == (1.0, 4.0, 10.0)
    assert number_list([1, 2.5]) == (1, 2.5)
    with pytest.raises(InputError, match="must look like '1, 4, 10'"):
        number_list("1, x")
