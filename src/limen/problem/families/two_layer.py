"""The problem that four chapters share: a two-layer network learns a multi-index target."""

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from limen.problem.algorithms import Algorithm, Descent, GradientDescent, GradientFlow, OnePassSGD, SphericalSGD
from limen.problem.inputs import Inputs
from limen.problem.losses import Loss, as_loss
from limen.problem.networks import Network
from limen.problem.spec import InputError, Spec
from limen.problem.starts import OverlapStart, RandomStart, Start, overlap_matrix
from limen.problem.targets import Target, as_target


class TwoLayer(Spec):
    r"""A two-layer network learns $y=h(\Theta_*^\top x)+\text{noise}$ from inputs $x\sim N(0,\Sigma)$.

    `samples_per_dim` is $\delta=n/d$; one-pass algorithms see every sample once and take none. `inputs` are isotropic
    and Gaussian by default; $\Theta_*^\top\Sigma\Theta_*=I$ whatever their spectrum.
    """

    target: Annotated[Target, BeforeValidator(as_target)] = Field(description="what is learnt: a name or formula")
    network: Network = Field(description="the network that learns")
    algorithm: Algorithm = Field(description="how it learns, and the unit of time")
    samples_per_dim: float | None = Field(
        None, gt=0.0, description="samples per dimension n/d; left out by one-pass algorithms"
    )
    loss: Annotated[Loss, BeforeValidator(as_loss)] = Field(
        Loss(name="square"), description="loss: a name, or a formula in the label y and the output f"
    )
    start: Start = Field(RandomStart(), description="where training starts")
    inputs: Inputs = Field(Inputs(), description="law and covariance of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "TwoLayer":
        name = type(self.algorithm).__name__
        if self.one_pass and self.samples_per_dim is not None:
            raise InputError(f"samples_per_dim must be left out with {name}, which sees each sample once.")
        if not self.one_pass and self.samples_per_dim is None:
            raise InputError(f"samples_per_dim (n/d) is required with {name}.")
        if self.network.train_bias and not isinstance(self.algorithm, Descent):
            raise InputError(f"train_bias must be false with {name}: descent on a fixed sample trains biases.")
        ratio = self.algorithm.second_layer_ratio if isinstance(self.algorithm, GradientDescent) else 1.0
        if ratio != 1.0 and not self.network.train_second_layer:
            raise InputError(f"second_layer_ratio must be 1 where the second layer is not trained, got {ratio:g}.")
        if isinstance(self.algorithm, GradientFlow):
            _check_decay(self.algorithm, self.network)
        _check_inputs(self.inputs, self.target.latents)
        if isinstance(self.start, OverlapStart):
            _check_start(self.start, self.network, np.sqrt(self.inputs.latent_blocks(self.target.latents).sum(axis=0)))
        if self.target.entries != "gaussian" and not (self.inputs.isotropic and self.inputs.law == "gaussian"):
            raise InputError(
                f"entries must be gaussian unless inputs are isotropic and Gaussian, got {self.target.entries!r}."
            )
        return self

    @property
    def d(self) -> int | None:
        """The dimension, where the inputs are rows of data."""
        return self.inputs.d

    @property
    def start_lengths(self) -> tuple[float, ...]:
        r"""$|\theta_j(0)|$ of every neuron: from the diagonal of the start's `gram` where that is given, else
        `initial_norm`. Algorithms on the sphere keep each neuron at its own."""
        gram = getattr(self.start, "gram", None)
        if gram is None:
            return (self.network.initial_norm,) * self.network.width
        return tuple(float(np.sqrt(row[j])) for j, row in enumerate(gram))

    @property
    def one_pass(self) -> bool:
        """Whether every sample is used once."""
        return isinstance(self.algorithm, (OnePassSGD, SphericalSGD))

    @property
    def counts_steps(self) -> bool:
        """Whether time is a whole number of steps."""
        return isinstance(self.algorithm, Descent)


def _check_inputs(inputs: Inputs, latents: int) -> None:
    mean = float(inputs.spectrum.values @ inputs.spectrum.fractions)
    if min(inputs.variances) <= 0.0:
        raise InputError(f"variances must be positive for a two-layer network, got {inputs.variances}.")
    if abs(mean - 1.0) > 1e-9:
        raise InputError(f"variances must average to 1 for a two-layer network, got {mean:.6g}: rescale them.")
    shares = np.asarray(inputs.target_shares or (), dtype=float)
    if shares.ndim == 2 and len(shares) != latents:
        raise InputError(f"target_shares must have one row per latent direction ({latents}), got {len(shares)}.")


def _check_decay(flow: GradientFlow, network: Network) -> None:
    rows = flow.weight_decay
    if isinstance(rows, tuple) and len(rows) != network.width:
        raise InputError(f"weight_decay must have one row per neuron ({network.width}), got {len(rows)}.")
    if flow.second_layer_decay != 0.0 and not network.train_second_layer:
        raise InputError("second_layer_decay must be 0 where the second layer is not trained.")


def _check_start(start: OverlapStart, network: Network, lengths: np.ndarray) -> None:
    """Refuses overlaps that no neurons have, with target directions of these `lengths` (k,)."""
    try:
        overlap = overlap_matrix(start, network.width, lengths.size) / lengths
    except ValueError:
        raise InputError(f"overlap must be a number or have shape ({network.width}, {lengths.size}).") from None
    norm = network.initial_norm
    if start.gram is None:
        longest = float(np.sqrt((overlap**2).sum(axis=1)).max())
        if longest > norm:
            raise InputError(f"overlap must be at most initial_norm = {norm:g} in length, got {longest:g}.")
        return
    gram = np.asarray(start.gram, dtype=float)
    if gram.shape != (network.width, network.width) or not np.allclose(gram, gram.T):
        raise InputError(f"gram must be a symmetric matrix of shape ({network.width}, {network.width}).")
    if np.linalg.eigvalsh(gram - overlap @ overlap.T).min() < -1e-10:
        raise InputError("gram minus overlap overlap^T must be positive semidefinite.")
