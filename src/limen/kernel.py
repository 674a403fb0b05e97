"""Kernels: ridge regression, random features, neural tangents; theory and its simulators."""

from limen.simulation.least_squares import simulate_flow, simulate_gradient_descent, simulate_ridge
from limen.simulation.random_features import simulate_random_features, simulate_random_features_flow
from limen.theory.kernel import (
    ActivationMoments,
    FilterRisk,
    RandomFeaturesRisk,
    RidgeRisk,
    activation_moments,
    gradient_descent_risk,
    kernel_flow,
    optimal_ridge,
    optimal_stopping_time,
    random_features,
    random_features_flow,
    random_features_optimal_ridge,
    random_features_spectrum,
    random_features_spectrum_flow,
    ridge,
    ridge_flow,
)

__all__ = [
    "ActivationMoments",
    "FilterRisk",
    "RandomFeaturesRisk",
    "RidgeRisk",
    "activation_moments",
    "gradient_descent_risk",
    "kernel_flow",
    "optimal_ridge",
    "optimal_stopping_time",
    "random_features",
    "random_features_flow",
    "random_features_optimal_ridge",
    "random_features_spectrum",
    "random_features_spectrum_flow",
    "ridge",
    "ridge_flow",
    "simulate_flow",
    "simulate_gradient_descent",
    "simulate_random_features",
    "simulate_random_features_flow",
    "simulate_ridge",
]
