"""Every experiment of the gallery by name. Classes are imported when asked for, so that listing names is instant."""

import difflib
from importlib import import_module
from threading import RLock

from limen.problem.spec import InputError

PLACES = {
    "uniform-gap": "uniform_gap:UniformConvergence",
    "nearest-neighbours": "nearest_neighbours:NearestNeighbours",
    "interpolating-smoother": "interpolating_smoother:InterpolatingSmoother",
    "max-margin": "max_margin:MaxMarginFlow",
    "min-norm": "min_norm:MinNorm",
    "perceptron": "perceptron:Perceptron",
    "bbp-transition": "bbp_transition:BBPTransition",
    "double-descent": "double_descent:DoubleDescent",
    "marchenko-pastur": "marchenko_pastur:MarchenkoPasturBulk",
    "random-features": "random_features:RandomFeaturesPeak",
    "random-features-flow": "random_features_flow:RandomFeaturesFlow",
    "ridge-early-stopping": "ridge_early_stopping:RidgeEarlyStopping",
    "neural-tangent": "neural_tangent:NeuralTangent",
    "ntk-convergence": "ntk_convergence:NTKConvergence",
    "linearized-training": "linearized_training:LinearizedTraining",
    "lazy-training": "lazy_training:LazyTraining",
    "gd-dmft": "gd_dmft:GradientDescentMeanField",
    "hard-directions": "hard_directions:HardDirections",
    "hessian-spectrum": "hessian_spectrum:HessianSpectrum",
    "feature-threshold": "feature_threshold:FeatureThreshold",
    "grokking": "grokking:Grokking",
    "learning-transition": "learning_transition:LearningTransition",
    "phase-retrieval-sgd": "phase_retrieval_sgd:PhaseRetrievalSGD",
    "escape-mediocrity": "escape_mediocrity:EscapeMediocrity",
    "sgd-noise": "sgd_noise:SGDNoise",
    "committee-sgd": "committee_sgd:CommitteeSGD",
    "sgd-regimes": "sgd_regimes:SGDRegimes",
    "mean-field-committee": "mean_field_committee:MeanFieldCommittee",
    "incremental-learning": "incremental_learning:IncrementalLearning",
    "overparametrized-committee": "overparametrized_committee:OverparametrizedCommittee",
    "learn-then-overfit": "learn_then_overfit:LearnThenOverfit",
    "lazy-vs-feature": "lazy_vs_feature:LazyVersusFeature",
    "mean-field-flow": "mean_field_flow:MeanFieldFlow",
    "unlearning": "unlearning:Unlearning",
    "interpolation-threshold": "interpolation_threshold:InterpolationThreshold",
    "interpolation-diagram": "interpolation_diagram:InterpolationDiagram",
    "complexity-growth": "complexity_growth:ComplexityGrowth",
    "overfitting-bound": "overfitting_bound:OverfittingBound",
    "attention-clustering": "attention_clustering:AttentionClustering",
    "attention-layers": "attention_layers:AttentionLayers",
    "attention-metastability": "attention_metastability:AttentionMetastability",
    "attention-random-qkv": "attention_random_qkv:AttentionRandomQKV",
    "neural-ode": "neural_ode:NeuralODE",
    "attention-modes": "attention_modes:AttentionModes",
    "attention-mean-field": "attention_mean_field:AttentionMeanField",
    "effective-dynamics": "effective_dynamics:EffectiveDynamicsCheck",
    "weak-recovery": "weak_recovery:WeakRecovery",
    "online-pca": "online_pca:OnlinePCATraining",
    "binary-mixture": "binary_mixture:BinaryMixtureTraining",
    "spiked-tensor": "spiked_tensor:SpikedTensorFlow",
    "bbp-diffusion": "bbp_diffusion:BBPDiffusion",
    "xor-mixture": "xor_mixture:XorTraining",
    "xor-lottery": "xor_lottery:XorLottery",
    "spectral-alignment": "spectral_alignment:SpectralAlignment",
    "spectral-alignment-xor": "spectral_alignment_xor:SpectralAlignmentXor",
    "outlier-emergence": "outlier_emergence:OutlierEmergence",
    "double-descent-digits": "double_descent_digits:DoubleDescentDigits",
    "hessian-digits": "hessian_digits:HessianDigits",
    "random-labels": "random_labels:RandomLabels",
}

# Packages that name each other's modules may be found half-made when two threads import them at once.
_IMPORTING = RLock()


def experiment_class(name: str) -> type:
    """The class of an experiment; an unknown name is refused with the nearest known one."""
    if name not in PLACES:
        near = difflib.get_close_matches(name, PLACES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see `limen list`."
        raise InputError(f"there is no experiment {name!r}: {hint}")
    module, _, attribute = PLACES[name].partition(":")
    with _IMPORTING:
        return getattr(import_module(f"limen.experiments.{module}"), attribute)
