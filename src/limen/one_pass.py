"""One-pass SGD in raw order parameters: overlap equations, their noise, plateaus and regimes."""

from limen.simulation.one_pass.exit_times import simulated_exit_times
from limen.simulation.one_pass.overlap_chain import chain
from limen.theory.one_pass.diffusion import sphere_diffusion, sphere_drift_correction, sphere_volatility
from limen.theory.one_pass.exit_time import exit_time, exit_times
from limen.theory.one_pass.flow import flow, flows, noise_dominated_flow
from limen.theory.one_pass.fluctuations import fluctuations
from limen.theory.one_pass.incremental import incremental_learning
from limen.theory.one_pass.incremental_width import incremental_network
from limen.theory.one_pass.mean_field import mean_field
from limen.theory.one_pass.overlap_diffusion import diffusion
from limen.theory.one_pass.plateaus import (
    best_rate,
    largest_stable_rate,
    noise_plateau,
    phase_retrieval_growth,
    regime,
    sample_budget,
    single_neuron_plateau,
    unconstrained_plateau,
)
from limen.theory.one_pass.right_hand_side import right_hand_side
from limen.theory.one_pass.success import success_probability

__all__ = [
    "best_rate",
    "chain",
    "diffusion",
    "exit_time",
    "exit_times",
    "flow",
    "flows",
    "fluctuations",
    "incremental_learning",
    "incremental_network",
    "largest_stable_rate",
    "mean_field",
    "noise_dominated_flow",
    "noise_plateau",
    "phase_retrieval_growth",
    "regime",
    "right_hand_side",
    "sample_budget",
    "simulated_exit_times",
    "single_neuron_plateau",
    "sphere_diffusion",
    "sphere_drift_correction",
    "sphere_volatility",
    "success_probability",
    "unconstrained_plateau",
]
