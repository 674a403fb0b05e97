"""Every experiment of the gallery by name. Classes are imported when asked for, so that listing names is instant."""

import difflib
from importlib import import_module
from threading import RLock

PLACES = {
    "learning-curve-data": "kernel.learning_curve_data:LearningCurveData",
    "scaling-law": "kernel.scaling_law:ScalingLaw",
    "scaling-phases": "kernel.scaling_phases:ScalingPhases",
    "uniform-gap": "kernel.uniform_gap:UniformConvergence",
    "nearest-neighbours": "kernel.nearest_neighbours:NearestNeighbours",
    "interpolating-smoother": "kernel.interpolating_smoother:InterpolatingSmoother",
    "max-margin": "kernel.max_margin:MaxMarginFlow",
    "benign-overfitting": "kernel.interpolation.benign_overfitting:BenignOverfitting",
    "min-norm": "kernel.min_norm:MinNorm",
    "perceptron": "kernel.perceptron:Perceptron",
    "bbp-transition": "spectra.bbp_transition:BBPTransition",
    "double-descent": "kernel.double_descent:DoubleDescent",
    "universality": "spectra.universality:Universality",
    "marchenko-pastur": "spectra.marchenko_pastur:MarchenkoPasturBulk",
    "random-features": "kernel.random_features:RandomFeaturesPeak",
    "random-features-flow": "kernel.random_features_flow:RandomFeaturesFlow",
    "ridge-early-stopping": "kernel.ridge_early_stopping:RidgeEarlyStopping",
    "neural-tangent": "kernel.tangent.neural_tangent:NeuralTangent",
    "ntk-convergence": "kernel.tangent.ntk_convergence:NTKConvergence",
    "linearized-training": "kernel.tangent.linearized_training:LinearizedTraining",
    "lazy-constants": "kernel.tangent.lazy_constants:LazyConstantsExperiment",
    "lazy-training": "kernel.tangent.lazy_training:LazyTraining",
    "gd-dmft": "descent.gd_dmft:GradientDescentMeanField",
    "hard-directions": "thresholds.hard_directions:HardDirections",
    "hessian-spectrum": "thresholds.hessian_spectrum:HessianSpectrum",
    "sharpness": "thresholds.sharpness:Sharpness",
    "feature-threshold": "thresholds.feature_threshold:FeatureThreshold",
    "grokking": "descent.grokking:Grokking",
    "modular-addition": "descent.modular_addition:ModularAddition",
    "momentum": "descent.momentum:Momentum",
    "batch-size": "descent.batch_size:BatchSize",
    "adam-vs-sgd": "descent.adam_vs_sgd:AdamVersusSGD",
    "epochs": "descent.epochs:Epochs",
    "activation-effect": "thresholds.activation_effect:ActivationEffect",
    "learning-transition": "thresholds.learning_transition:LearningTransition",
    "phase-retrieval-sgd": "one_pass.phase_retrieval_sgd:PhaseRetrievalSGD",
    "escape-mediocrity": "one_pass.escape_mediocrity:EscapeMediocrity",
    "sgd-noise": "one_pass.sgd_noise:SGDNoise",
    "committee-sgd": "one_pass.committee_sgd:CommitteeSGD",
    "sgd-regimes": "one_pass.sgd_regimes:SGDRegimes",
    "mean-field-committee": "one_pass.mean_field_committee:MeanFieldCommittee",
    "incremental-learning": "one_pass.incremental_learning:IncrementalLearning",
    "overparametrized-committee": "one_pass.overparametrized_committee:OverparametrizedCommittee",
    "learn-then-overfit": "flow.learn_then_overfit:LearnThenOverfit",
    "lazy-vs-feature": "flow.lazy_vs_feature:LazyVersusFeature",
    "sgd-beside-flow": "flow.sgd_beside_flow:SGDBesideFlow",
    "large-networks": "flow.large_networks:LargeNetworks",
    "mean-field-flow": "flow.mean_field_flow:MeanFieldFlow",
    "unlearning": "flow.unlearning:Unlearning",
    "interpolation-threshold": "flow.interpolation_threshold:InterpolationThreshold",
    "interpolation-diagram": "flow.interpolation_diagram:InterpolationDiagram",
    "complexity-growth": "flow.complexity_growth:ComplexityGrowth",
    "overfitting-bound": "flow.overfitting_bound:OverfittingBound",
    "attention-clustering": "attention.attention_clustering:AttentionClustering",
    "attention-phase-diagram": "attention.attention_phase_diagram:AttentionPhaseDiagram",
    "attention-layers": "attention.attention_layers:AttentionLayers",
    "attention-metastability": "attention.attention_metastability:AttentionMetastability",
    "attention-random-qkv": "attention.attention_random_qkv:AttentionRandomQKV",
    "neural-ode": "attention.neural_ode:NeuralODE",
    "attention-modes": "attention.attention_modes:AttentionModes",
    "attention-mean-field": "attention.attention_mean_field:AttentionMeanField",
    "effective-dynamics": "effective.effective_dynamics:EffectiveDynamicsCheck",
    "weak-recovery": "effective.weak_recovery:WeakRecovery",
    "multi-index": "effective.multi_index:MultiIndexLosses",
    "online-pca": "effective.online_pca:OnlinePCATraining",
    "binary-mixture": "effective.binary_mixture:BinaryMixtureTraining",
    "spiked-tensor": "effective.spiked_tensor:SpikedTensorFlow",
    "bbp-diffusion": "effective.bbp_diffusion:BBPDiffusion",
    "xor-mixture": "effective.xor_mixture:XorTraining",
    "xor-lottery": "effective.xor_lottery:XorLottery",
    "spectral-alignment": "effective.spectral_alignment:SpectralAlignment",
    "spectral-alignment-xor": "effective.spectral_alignment_xor:SpectralAlignmentXor",
    "outlier-emergence": "effective.outlier_emergence:OutlierEmergence",
    "double-descent-digits": "kernel.double_descent_digits:DoubleDescentDigits",
    "hessian-digits": "effective.hessian_digits:HessianDigits",
    "jamming-digits": "kernel.jamming_digits:JammingDigits",
    "random-labels": "kernel.random_labels:RandomLabels",
}

# An experiment that is no phenomenon of the gallery: a problem of the user's own.
OWN = {"problem": "own_problem:OwnProblem"}

# Packages that name each other's modules may be found half-made when two threads import them at once.
_IMPORTING = RLock()


def experiment_class(name: str) -> type:
    """The class of an experiment; an unknown name is refused with the nearest known one."""
    places = PLACES | OWN
    if name not in places:
        # Here: names and places must be had without numpy.
        from limen.problem.spec import InputError

        near = difflib.get_close_matches(name, PLACES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see `limen list`."
        raise InputError(f"there is no experiment {name!r}: {hint}")
    module, _, attribute = places[name].partition(":")
    with _IMPORTING:
        return getattr(import_module(f"limen.experiments.{module}"), attribute)
