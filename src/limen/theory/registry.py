"""Every theory, in the order in which they are tried; beside each, the problems or algorithms it is about."""

from limen.registry import Registry

THEORIES = Registry(
    ("limen.theory.one_pass.phase_retrieval:phase_retrieval", ("SphericalSGD",)),
    ("limen.theory.one_pass.overlap_equations.overlap_ode:overlap_ode", ("OnePassSGD", "SphericalSGD")),
    ("limen.theory.one_pass.blocks.block_ode:block_overlap_ode", ("OnePassSGD", "SphericalSGD")),
    ("limen.theory.descent.solve:descent", ("GradientDescent",)),
    ("limen.theory.descent.equal_neurons:equal_neurons", ("GradientDescent",)),
    ("limen.theory.descent.entrywise:entrywise", ("GradientDescent", "EntrywiseDescent", "SignDescent", "Adam")),
    ("limen.theory.flow.exact.small_steps:small_steps", ("GradientFlow",)),
    ("limen.theory.flow.exact.equal_small_steps:equal_small_steps", ("GradientFlow",)),
    ("limen.theory.flow.solve:gaussian_model_flow", ("GradientFlow",)),
    ("limen.theory.kernel.ridge_problem:ridge_problem", ("Ridge",)),
    ("limen.theory.kernel.random_features_problem:random_features_problem", ("RandomFeatures",)),
    ("limen.theory.kernel.scaling.power_law_problem:power_law", ("PowerLawFeatures",)),
    ("limen.theory.kernel.scaling.power_law_problem:power_law_volterra", ("PowerLawFeatures",)),
    ("limen.theory.attention.equiangular_problem:equiangular_tokens", ("SelfAttention",)),
    ("limen.theory.attention.free_matrices:free_matrices", ("SelfAttention",)),
    (
        "limen.theory.effective.effective_ode:effective_ode",
        ("SingleIndex", "OnlinePCA", "BinaryMixture", "SpikedTensor"),
    ),
    ("limen.theory.effective.stiefel_flow:stiefel_flow", ("MultiIndex",)),
    ("limen.theory.effective.mixtures.xor_flow:xor_flow", ("XorMixture",)),
    ("limen.theory.effective.mixtures.mixture_flow:mixture_flow", ("GaussianMixture",)),
)
