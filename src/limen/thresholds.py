"""Thresholds in samples per dimension: feature learning, its limits, and the Hessian along training."""

from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.along_training import hessian
from limen.theory.thresholds.bayes import bayes_overlap
from limen.theory.thresholds.feature_learning import feature_learning
from limen.theory.thresholds.hessian_law import hessian_law
from limen.theory.thresholds.information_theoretic import information_theoretic
from limen.theory.thresholds.report import report
from limen.theory.thresholds.spectral_estimator import spectral_overlap
from limen.theory.thresholds.success import escape_time, success_probabilities, success_probability

__all__ = [
    "algorithmic",
    "bayes_overlap",
    "escape_time",
    "feature_learning",
    "hessian",
    "hessian_law",
    "information_theoretic",
    "report",
    "spectral_overlap",
    "success_probabilities",
    "success_probability",
]
