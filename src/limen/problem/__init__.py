"""What a learning problem is: frozen specifications, checked when they are made. Nothing here computes."""

from limen.problem.activations import Activation, activation
from limen.problem.algorithms import (
    Adam,
    Algorithm,
    EntrywiseDescent,
    GradientDescent,
    GradientFlow,
    OnePassSGD,
    SignDescent,
    SphericalSGD,
)
from limen.problem.families.effective_models import BinaryMixture, OnlinePCA, SingleIndex, SpikedTensor
from limen.problem.families.linear_models import RandomFeatures, Ridge
from limen.problem.families.mixtures import GaussianMixture, XorMixture
from limen.problem.families.multi_index import MultiIndex
from limen.problem.families.power_law_features import PowerLawFeatures
from limen.problem.families.self_attention import FeedForward, SelfAttention
from limen.problem.families.two_layer import TwoLayer
from limen.problem.files.reading import load_problem
from limen.problem.inputs import Inputs
from limen.problem.losses import Loss
from limen.problem.networks import Network, network
from limen.problem.spec import InputError, Spec, from_description
from limen.problem.starts import OverlapStart, RandomStart, Start
from limen.problem.targets import Target, target

__all__ = [
    "Activation",
    "Adam",
    "Algorithm",
    "BinaryMixture",
    "EntrywiseDescent",
    "FeedForward",
    "GaussianMixture",
    "GradientDescent",
    "GradientFlow",
    "InputError",
    "Inputs",
    "Loss",
    "MultiIndex",
    "Network",
    "OnePassSGD",
    "OnlinePCA",
    "OverlapStart",
    "PowerLawFeatures",
    "RandomFeatures",
    "RandomStart",
    "Ridge",
    "SelfAttention",
    "SignDescent",
    "SingleIndex",
    "Spec",
    "SphericalSGD",
    "SpikedTensor",
    "Start",
    "Target",
    "TwoLayer",
    "XorMixture",
    "activation",
    "from_description",
    "load_problem",
    "network",
    "target",
]
