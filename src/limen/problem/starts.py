"""Where training starts."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from limen.problem.spec import Spec, nested_tuple


class RandomStart(Spec):
    """Neurons independent and uniform on the sphere of radius `initial_norm`.

    Theory takes the overlap with the target as 0, unless it leaves a saddle: then it takes `d` and
    `seeds` and starts from the simulator's own overlaps.
    """


class OverlapStart(Spec):
    r"""Neurons with given overlaps $M_{jr}=\langle\theta_j,\theta_{*r}\rangle$ and Gram matrix
    $Q_{jl}=\langle\theta_j,\theta_l\rangle$.

    `overlap` is one number (every neuron, every latent direction), or a row per neuron. Without `gram`
    the parts orthogonal to the target are independent random directions and $Q_{jj}$ is `initial_norm`². With
    `gram` its diagonal says how long each neuron is, whatever `initial_norm`; algorithms on the sphere
    keep that length.
    """

    overlap: Annotated[float | tuple[tuple[float, ...], ...], BeforeValidator(nested_tuple)] = Field(
        description="overlaps with the target: one number, or a row per neuron"
    )
    gram: Annotated[tuple[tuple[float, ...], ...] | None, BeforeValidator(nested_tuple)] = Field(
        None, description="Gram matrix of the neurons; by default their free parts are random"
    )


Start = RandomStart | OverlapStart


def overlap_matrix(start: OverlapStart, width: int, latents: int) -> Any:
    """The start's overlaps as an array of shape (width, latents)."""
    import numpy as np

    return np.broadcast_to(np.asarray(start.overlap, dtype=float), (width, latents)).copy()
