"""Learning, then overfitting: gradient flow of wide two-layer networks, its regimes and its asymptotics."""

from limen.method import answers
from limen.theory.flow.adiabatic import adiabatic
from limen.theory.flow.bounds import (
    activation_bounds,
    bartlett_bound,
    generalization_bound,
    overfitting_bounds,
    overfitting_time_bound,
    second_layer_bound,
)
from limen.theory.flow.consistent_threshold import consistent_error, consistent_threshold
from limen.theory.flow.early_stopping import early_stopping
from limen.theory.flow.finite_step import finite_step
from limen.theory.flow.mean_field import mean_field
from limen.theory.flow.relaxation import lazy_relaxation_rate, relaxation_time
from limen.theory.flow.solve import gaussian_model_flow
from limen.theory.flow.threshold import (
    asymptotic_error,
    interpolation_ratio,
    interpolation_threshold,
    threshold_energy,
)

# The theory of `predict` by name, its result among those of the chapter.
solve = answers("theory", gaussian_model_flow.citations, gaussian_model_flow.name)(gaussian_model_flow.solve)

__all__ = [
    "activation_bounds",
    "adiabatic",
    "asymptotic_error",
    "bartlett_bound",
    "consistent_error",
    "consistent_threshold",
    "early_stopping",
    "finite_step",
    "generalization_bound",
    "interpolation_ratio",
    "interpolation_threshold",
    "lazy_relaxation_rate",
    "mean_field",
    "overfitting_bounds",
    "overfitting_time_bound",
    "relaxation_time",
    "second_layer_bound",
    "solve",
    "threshold_energy",
]
