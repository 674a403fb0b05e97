"""Gaussian expectations: quadrature, Hermite coefficients, dual activations, Sobol normals, Bartlett draws."""

from limen.gaussian.bartlett import bartlett_factor, bartlett_gram, sphere_gram
from limen.gaussian.covariance import covariance_dual, covariance_dual_prime
from limen.gaussian.duals import Dual, dual, tabulated_dual
from limen.gaussian.hermite import hermite_coefficients, hermite_coefficients_by_quadrature, hermite_polynomials
from limen.gaussian.keys import stream_key
from limen.gaussian.quadrature import Expectation, GaussianRule, expectation, gaussian_rule
from limen.gaussian.sobol import sobol_normals

__all__ = [
    "Dual",
    "Expectation",
    "GaussianRule",
    "bartlett_factor",
    "bartlett_gram",
    "covariance_dual",
    "covariance_dual_prime",
    "dual",
    "expectation",
    "gaussian_rule",
    "hermite_coefficients",
    "hermite_coefficients_by_quadrature",
    "hermite_polynomials",
    "sobol_normals",
    "sphere_gram",
    "stream_key",
    "tabulated_dual",
]
