"""Cubic splines: SciPy's to rounding, exact for cubics, of fourth order in the distance of the points."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from limen.theory.cubic_spline import spline_coefficients, spline_values


@pytest.mark.parametrize("count", [4, 5, 48])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_the_spline_of_scipy(count, shape):
    generator = np.random.default_rng(count)
    x, y = np.sort(generator.uniform(0.0, 7.0, count)), generator.standard_normal((count, *shape))
    at = np.linspace(x[0] - 0.1, x[-1] + 0.1, 77)
    wanted = CubicSpline(x, y)
    scale = np.abs(wanted.c).max(axis=(1, *range(2, wanted.c.ndim)), keepdims=True)
    np.testing.assert_allclose(spline_coefficients(x, y) / scale, wanted.c / scale, atol=1e-10)
    np.testing.assert_allclose(spline_values(x, y, at), wanted(at), atol=1e-10 * np.abs(wanted(at)).max())


def test_cubics_are_exact():
    x, at = np.array([0.0, 0.4, 1.0, 1.1, 3.0]), np.linspace(-1.0, 4.0, 11)
    cubic = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.25])
    np.testing.assert_allclose(spline_values(x, cubic(x), at), cubic(at), rtol=1e-12, atol=1e-12)


def test_error_falls_with_the_fourth_power():
    at = np.linspace(0.0, 3.0, 5001)
    errors = []
    for count in (81, 161, 321):
        x = np.linspace(0.0, 3.0, count)
        errors.append(np.abs(spline_values(x, np.sin(x), at) - np.sin(at)).max())
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(slopes, 4.0, atol=0.3)
