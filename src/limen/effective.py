"""Effective dynamics: what summary statistics of online SGD do in high dimension, derived or in closed form."""

from limen.problem.updates import clipping, momentum, preconditioner, sign
from limen.simulation.effective.generic_sgd import run
from limen.simulation.effective.mixture_blocks import measure_block, measure_second_layer
from limen.simulation.effective.overlap_hitting import simulated_hitting_times
from limen.simulation.effective.xor_clusters import occupied_clusters
from limen.theory.effective.derive import EffectiveDynamics, derive
from limen.theory.effective.equilibria import FixedPoint
from limen.theory.effective.estimates import Estimate
from limen.theory.effective.fixed_point import fixed_point
from limen.theory.effective.hitting import (
    critical_samples_per_dim,
    hitting_probability,
    hitting_time,
    information_exponent,
    search_fraction,
)
from limen.theory.effective.mixtures.block_spectrum import SpectralBlock
from limen.theory.effective.mixtures.blocks import (
    SecondLayerBlock,
    block_path,
    gradient_block,
    hessian_block,
    samples_for_outlier,
    second_layer_block,
)
from limen.theory.effective.mixtures.xor_drift import xor_drift
from limen.theory.effective.mixtures.xor_fixed_points import (
    FixedPointSets,
    cluster_mass,
    fixed_point_sets,
    success_probability,
)
from limen.theory.effective.scaling import Scaling
from limen.theory.effective.search_phase import search_diffusion, stationary_variance
from limen.theory.effective.sphere_population import gradient_noise, population_loss, population_slope
from limen.theory.effective.tensor_flow import (
    critical_signal,
    gradient_covariance_trace,
    tensor_fixed_points,
    tensor_flow,
)

__all__ = [
    "EffectiveDynamics",
    "Estimate",
    "FixedPoint",
    "FixedPointSets",
    "Scaling",
    "SecondLayerBlock",
    "SpectralBlock",
    "block_path",
    "clipping",
    "cluster_mass",
    "critical_samples_per_dim",
    "critical_signal",
    "derive",
    "fixed_point",
    "fixed_point_sets",
    "gradient_block",
    "gradient_covariance_trace",
    "gradient_noise",
    "hessian_block",
    "hitting_probability",
    "hitting_time",
    "information_exponent",
    "measure_block",
    "measure_second_layer",
    "momentum",
    "occupied_clusters",
    "population_loss",
    "population_slope",
    "preconditioner",
    "run",
    "samples_for_outlier",
    "search_diffusion",
    "search_fraction",
    "second_layer_block",
    "sign",
    "simulated_hitting_times",
    "stationary_variance",
    "success_probability",
    "tensor_fixed_points",
    "tensor_flow",
    "xor_drift",
]
