"""Ridge regression, random features and kernels in the proportional limit: closed forms, and risk at every time."""

from limen.theory.kernel.activation_moments import ActivationMoments, activation_moments
from limen.theory.kernel.filters import (
    gradient_descent_risk,
    optimal_stopping_time,
    ridge_by_contour,
    ridge_flow,
)
from limen.theory.kernel.random_features import (
    random_features,
    random_features_from_moments,
    random_features_optimal_ridge,
)
from limen.theory.kernel.random_features_flow import (
    kernel_flow,
    random_features_flow,
    random_features_spectrum_flow,
)
from limen.theory.kernel.random_features_spectrum import random_features_spectrum
from limen.theory.kernel.ridge import optimal_ridge, ridge
from limen.theory.kernel.risk import FilterRisk, RandomFeaturesRisk, RidgeRisk

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
    "random_features_from_moments",
    "random_features_optimal_ridge",
    "random_features_spectrum",
    "random_features_spectrum_flow",
    "ridge",
    "ridge_by_contour",
    "ridge_flow",
]
