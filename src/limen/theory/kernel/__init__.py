"""Ridge regression, random features and kernels in the proportional limit: closed forms, and risk at every time."""

from limen.theory.kernel.activation_moments import ActivationMoments, activation_moments
from limen.theory.kernel.classification.capacity import (
    finite_class_bound,
    gaussian_linear_rademacher,
    half_space_bound,
    linear_rademacher_bound,
    rademacher_gap_bound,
    two_layer_rademacher_bound,
    vc_rate,
)
from limen.theory.kernel.classification.logistic_flow import (
    direction_error,
    log_logistic_loss,
    logistic_flow,
    normalized_margin,
)
from limen.theory.kernel.classification.max_margin import (
    MarginAsymptotics,
    MaxMargin,
    margin_asymptotics,
    max_margin,
)
from limen.theory.kernel.classification.separability import (
    capacity_transition,
    log_half_space_labelings,
    log_separable_probability,
    perceptron_mistake_bound,
    separable_probability,
)
from limen.theory.kernel.classification.uniform_gap import (
    FitGap,
    UniformGap,
    least_squares_gap,
    uniform_gap,
)
from limen.theory.kernel.effective_ranks import (
    BenignOverfitting,
    EffectiveRanks,
    benign_overfitting,
    effective_ranks,
)
from limen.theory.kernel.filters import (
    gradient_descent_risk,
    optimal_stopping_time,
    ridge_by_contour,
    ridge_flow,
)
from limen.theory.kernel.finite_population import PopulationRisk, finite_population_risk
from limen.theory.kernel.interpolating_smoother import (
    SmootherRisk,
    nearest_neighbour_risk,
    neighbour_squared_distance,
    singular_smoother_bandwidth,
    singular_smoother_risk,
)
from limen.theory.kernel.min_norm import (
    DescentLimit,
    covariance_error,
    descent_limit,
    interpolator_risk,
    largest_stable_step,
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
from limen.theory.kernel.tangent.lazy import (
    LazyBounds,
    largest_second_derivative,
    lazy_bounds,
    two_layer_lipschitz,
)
from limen.theory.kernel.tangent.lazy_constants import LazyConstants, lazy_constants
from limen.theory.kernel.tangent.linearized import (
    LinearizedTraining,
    linearized_descent,
    linearized_training,
    nearest_interpolator,
)
from limen.theory.kernel.tangent.neural_tangent import (
    ntk,
)
from limen.theory.kernel.tangent.sphere_kernel import (
    SphereKernel,
    sphere_kernel,
)
from limen.theory.kernel.tangent.tangent_model import (
    tangent_kernel,
    tangent_model,
)

__all__ = [
    "ActivationMoments",
    "BenignOverfitting",
    "DescentLimit",
    "EffectiveRanks",
    "FilterRisk",
    "FitGap",
    "LazyBounds",
    "LazyConstants",
    "LinearizedTraining",
    "MarginAsymptotics",
    "MaxMargin",
    "PopulationRisk",
    "RandomFeaturesRisk",
    "RidgeRisk",
    "SmootherRisk",
    "SphereKernel",
    "UniformGap",
    "activation_moments",
    "benign_overfitting",
    "capacity_transition",
    "covariance_error",
    "descent_limit",
    "direction_error",
    "effective_ranks",
    "finite_class_bound",
    "finite_population_risk",
    "gaussian_linear_rademacher",
    "gradient_descent_risk",
    "half_space_bound",
    "interpolator_risk",
    "kernel_flow",
    "largest_second_derivative",
    "largest_stable_step",
    "lazy_bounds",
    "lazy_constants",
    "least_squares_gap",
    "linear_rademacher_bound",
    "linearized_descent",
    "linearized_training",
    "log_half_space_labelings",
    "log_logistic_loss",
    "log_separable_probability",
    "logistic_flow",
    "margin_asymptotics",
    "max_margin",
    "nearest_interpolator",
    "nearest_neighbour_risk",
    "neighbour_squared_distance",
    "normalized_margin",
    "ntk",
    "optimal_ridge",
    "optimal_stopping_time",
    "perceptron_mistake_bound",
    "rademacher_gap_bound",
    "random_features",
    "random_features_flow",
    "random_features_from_moments",
    "random_features_optimal_ridge",
    "random_features_spectrum",
    "random_features_spectrum_flow",
    "ridge",
    "ridge_by_contour",
    "ridge_flow",
    "separable_probability",
    "singular_smoother_bandwidth",
    "singular_smoother_risk",
    "sphere_kernel",
    "tangent_kernel",
    "tangent_model",
    "two_layer_lipschitz",
    "two_layer_rademacher_bound",
    "uniform_gap",
    "vc_rate",
]
