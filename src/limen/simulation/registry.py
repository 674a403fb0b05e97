"""Every simulator, in the order in which they are tried; beside each, the problems or algorithms it is about."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from limen.method import Method
from limen.registry import Registry, method_at

ONE_PASS = ("OnePassSGD", "SphericalSGD")
DESCENT = ("GradientDescent", "EntrywiseDescent", "SignDescent", "Adam")
SPHERICAL = ("SingleIndex", "OnlinePCA", "BinaryMixture")
OVERLAP_CHAIN = "limen.simulation.one_pass.overlap_chain:overlap_chain"
SPHERICAL_CHAIN = "limen.simulation.effective.spherical_chain:spherical_chain"
TENSOR_CHAIN = "limen.simulation.effective.tensor_chain:tensor_chain"
XOR_CHAIN = "limen.simulation.effective.mixture_training:xor_chain"
MIXTURE_CHAIN = "limen.simulation.effective.mixture_training:mixture_chain"

# An exact chain answers the same problems as the training it reduces and stands after it: by name, or where d is too
# large (REDUCTIONS).
# sampled_gaussian_model answers problems of gradient_flow and gradient_descent, stands after both and is used by name.
SIMULATORS = Registry(
    ("limen.simulation.one_pass.one_pass_sgd:one_pass_sgd", ONE_PASS),
    (OVERLAP_CHAIN, ONE_PASS),
    ("limen.simulation.descent.gradient_descent:gradient_descent", DESCENT),
    ("limen.simulation.flow.gradient_flow:gradient_flow", ("GradientFlow",)),
    ("limen.simulation.flow.gaussian_model:sampled_gaussian_model", ("GradientFlow", "GradientDescent")),
    ("limen.simulation.kernel.regression_flow:ridge_flow_simulation", ("Ridge",)),
    ("limen.simulation.kernel.regression_flow:random_features_simulation", ("RandomFeatures",)),
    ("limen.simulation.kernel.power_law_sgd:power_law_sgd", ("PowerLawFeatures",)),
    ("limen.simulation.attention.self_attention:attention_particles", ("SelfAttention",)),
    ("limen.simulation.effective.spherical_sgd:spherical_sgd", SPHERICAL),
    (SPHERICAL_CHAIN, SPHERICAL),
    ("limen.simulation.effective.stiefel_sgd:stiefel_sgd", ("MultiIndex",)),
    ("limen.simulation.effective.tensor_sgd:tensor_sgd", ("SpikedTensor",)),
    (TENSOR_CHAIN, ("SpikedTensor",)),
    ("limen.simulation.effective.mixture_training:xor_sgd", ("XorMixture",)),
    (XOR_CHAIN, ("XorMixture",)),
    ("limen.simulation.effective.mixture_training:mixture_sgd", ("GaussianMixture",)),
    (MIXTURE_CHAIN, ("GaussianMixture",)),
)


@dataclass(frozen=True)
class Reduction:
    """An exact chain of a few numbers that takes over from training in d dimensions above d = `largest(problem)`."""

    place: str
    largest: Callable[[Any], int]

    @property
    def chain(self) -> Method:
        """The simulator that takes over."""
        return method_at(self.place)


def _with_weights(problem: Any) -> int:
    from limen.gaussian.starts.start_weights import LARGEST_D_WITH_WEIGHTS

    return LARGEST_D_WITH_WEIGHTS


def _with_samples(problem: Any) -> int:
    from limen.simulation.effective.tensor_sgd import largest_dimension

    return largest_dimension(problem)


# By the name of the simulator that is tried first.
REDUCTIONS: dict[str, Reduction] = {
    "one-pass-sgd": Reduction(OVERLAP_CHAIN, _with_weights),
    "spherical-sgd": Reduction(SPHERICAL_CHAIN, _with_weights),
    "tensor-sgd": Reduction(TENSOR_CHAIN, _with_samples),
    "xor-sgd": Reduction(XOR_CHAIN, _with_weights),
    "mixture-sgd": Reduction(MIXTURE_CHAIN, _with_weights),
}
