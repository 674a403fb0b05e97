"""Attention as interacting particles: exact reductions, stability, metastability and the mean-field limit."""

from limen.theory.attention.circle.circle_density import quiet_angles, quiet_start
from limen.theory.attention.circle.circle_flow import circle_flow
from limen.theory.attention.circle.cluster_waits import merging_times
from limen.theory.attention.consensus import BipolarStability, bipolar_stability, consensus_rate
from limen.theory.attention.equiangular import (
    equiangular_cosine,
    equiangular_distance,
    finite_dimension_hitting_time,
    hitting_time,
    log_hitting_time,
    log_late_time_constant,
    transition_beta,
    unnormalized_hitting_time,
)
from limen.theory.attention.hemisphere import (
    ClusteringGuarantee,
    clustering_guarantee,
    hemisphere_probability,
    log_hemisphere_probability,
)
from limen.theory.attention.layers import (
    layer_map,
    layers_to_collapse,
    projected_layer_map,
    projected_layers_to_collapse,
)
from limen.theory.attention.mobius import cross_ratios, ott_antonsen, token_cross_ratios, zonal_shift
from limen.theory.attention.polygon import lifetime, log_lifetime, polygon_rates
from limen.theory.attention.stationary_law import stationary_law
from limen.theory.attention.two_clusters import log_two_cluster_time, two_cluster_cosine, two_cluster_time
from limen.theory.attention.uniform_stability import (
    cluster_count,
    critical_noise,
    discontinuous_transition_beta,
    fastest_degree,
    forming_time,
    growth_rates,
    mode_thresholds,
    uniform_is_stable,
)
from limen.theory.attention.zonal_flow import zonal_flow

__all__ = [
    "BipolarStability",
    "ClusteringGuarantee",
    "bipolar_stability",
    "circle_flow",
    "cluster_count",
    "clustering_guarantee",
    "consensus_rate",
    "critical_noise",
    "cross_ratios",
    "discontinuous_transition_beta",
    "equiangular_cosine",
    "equiangular_distance",
    "fastest_degree",
    "finite_dimension_hitting_time",
    "forming_time",
    "growth_rates",
    "hemisphere_probability",
    "hitting_time",
    "layer_map",
    "layers_to_collapse",
    "lifetime",
    "log_hemisphere_probability",
    "log_hitting_time",
    "log_late_time_constant",
    "log_lifetime",
    "log_two_cluster_time",
    "merging_times",
    "mode_thresholds",
    "ott_antonsen",
    "polygon_rates",
    "projected_layer_map",
    "projected_layers_to_collapse",
    "quiet_angles",
    "quiet_start",
    "stationary_law",
    "token_cross_ratios",
    "transition_beta",
    "two_cluster_cosine",
    "two_cluster_time",
    "uniform_is_stable",
    "unnormalized_hitting_time",
    "zonal_flow",
    "zonal_shift",
]
