"""Attention as interacting particles: exact laws of clustering, mean field, and the particles themselves."""

from limen.simulation.attention.layers import layer_path
from limen.simulation.attention.matrices import load_heads, random_matrix, value_matrix
from limen.simulation.attention.particles import simulate
from limen.simulation.attention.starts import uniform_tokens
from limen.theory.attention.circle_density import quiet_start
from limen.theory.attention.circle_flow import circle_flow
from limen.theory.attention.consensus import bipolar_stability, consensus_rate
from limen.theory.attention.equiangular import (
    equiangular_cosine,
    finite_dimension_hitting_time,
    hitting_time,
    log_hitting_time,
    transition_beta,
)
from limen.theory.attention.hemisphere import clustering_guarantee, hemisphere_probability
from limen.theory.attention.layers import layer_map, layers_to_collapse
from limen.theory.attention.mobius import cross_ratios, ott_antonsen
from limen.theory.attention.polygon import lifetime, polygon_rates
from limen.theory.attention.stationary_law import stationary_law
from limen.theory.attention.two_clusters import two_cluster_time
from limen.theory.attention.uniform_stability import (
    cluster_count,
    critical_noise,
    fastest_degree,
    growth_rates,
    mode_thresholds,
)
from limen.theory.attention.zonal_flow import zonal_flow

__all__ = [
    "bipolar_stability",
    "circle_flow",
    "cluster_count",
    "clustering_guarantee",
    "consensus_rate",
    "critical_noise",
    "cross_ratios",
    "equiangular_cosine",
    "fastest_degree",
    "finite_dimension_hitting_time",
    "growth_rates",
    "hemisphere_probability",
    "hitting_time",
    "layer_map",
    "layer_path",
    "layers_to_collapse",
    "lifetime",
    "load_heads",
    "log_hitting_time",
    "mode_thresholds",
    "ott_antonsen",
    "polygon_rates",
    "quiet_start",
    "random_matrix",
    "simulate",
    "stationary_law",
    "transition_beta",
    "two_cluster_time",
    "uniform_tokens",
    "value_matrix",
    "zonal_flow",
]
