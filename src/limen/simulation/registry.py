"""Every simulator, in the order in which they are tried."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from limen.gaussian.start_weights import LARGEST_D_WITH_WEIGHTS
from limen.method import Method
from limen.simulation.attention.self_attention import attention_particles
from limen.simulation.descent.gradient_descent import gradient_descent
from limen.simulation.effective.mixture_training import mixture_chain, mixture_sgd, xor_chain, xor_sgd
from limen.simulation.effective.spherical_chain import spherical_chain
from limen.simulation.effective.spherical_sgd import spherical_sgd
from limen.simulation.effective.tensor_chain import tensor_chain
from limen.simulation.effective.tensor_sgd import largest_dimension, tensor_sgd
from limen.simulation.flow.gaussian_model import sampled_gaussian_model
from limen.simulation.flow.gradient_flow import gradient_flow
from limen.simulation.kernel.regression_flow import random_features_simulation, ridge_flow_simulation
from limen.simulation.one_pass.one_pass_sgd import one_pass_sgd
from limen.simulation.one_pass.overlap_chain import overlap_chain

# An exact chain answers the same problems as the training it reduces and stands after it: by name, or where d is too
# large (REDUCTIONS).
# sampled_gaussian_model answers problems of gradient_flow and gradient_descent, stands after both and is used by name.
SIMULATORS: tuple[Method, ...] = (
    one_pass_sgd,
    overlap_chain,
    gradient_descent,
    gradient_flow,
    sampled_gaussian_model,
    ridge_flow_simulation,
    random_features_simulation,
    attention_particles,
    spherical_sgd,
    spherical_chain,
    tensor_sgd,
    tensor_chain,
    xor_sgd,
    xor_chain,
    mixture_sgd,
    mixture_chain,
)


@dataclass(frozen=True)
class Reduction:
    """An exact chain of a few numbers that takes over from training in d dimensions above d = `largest(problem)`."""

    chain: Method
    largest: Callable[[Any], int]


# By the name of the simulator that is tried first.
REDUCTIONS: dict[str, Reduction] = {
    one_pass_sgd.name: Reduction(overlap_chain, lambda problem: LARGEST_D_WITH_WEIGHTS),
    spherical_sgd.name: Reduction(spherical_chain, lambda problem: LARGEST_D_WITH_WEIGHTS),
    tensor_sgd.name: Reduction(tensor_chain, largest_dimension),
    xor_sgd.name: Reduction(xor_chain, lambda problem: LARGEST_D_WITH_WEIGHTS),
    mixture_sgd.name: Reduction(mixture_chain, lambda problem: LARGEST_D_WITH_WEIGHTS),
}
