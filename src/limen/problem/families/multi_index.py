r"""Online SGD of several orthonormal vectors in $\mathbb R^N$: multi-index losses on the Stiefel manifold."""

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from limen.problem.families.effective_models import SQUARE
from limen.problem.losses import Loss, as_loss
from limen.problem.spec import InputError, Spec
from limen.problem.starts import OverlapStart, RandomStart, Start, overlap_matrix
from limen.problem.targets import Target, as_target

MOST_DIRECTIONS = 4


class MultiIndex(Spec):
    r"""A teacher $y=h(\Theta a)+\sqrt{\text{noise}}\,\varepsilon$ of $k$ orthonormal directions, learnt by as many.

    $a\sim N(0,I_N)$; $\Theta,X\in\mathbb R^{k\times N}$ have orthonormal rows, the loss is $L=\ell(y,h(Xa))$, by
    default $(y-h)^2$ (no factor ½), one sample a step: $\tilde X=X-\frac\delta N\nabla L$ along the Stiefel manifold,
    back to it by $X\leftarrow(\tilde X\tilde X^\top)^{-1/2}\tilde X$. `target` is $h$ with its noise, a formula in
    `z1`..`zk`; the student has the same. `step` is $\delta$, the time is $t=\text{steps}\cdot\delta/N$, and the
    overlaps are $M=X\Theta^\top$ ($k\times k$). With $k=1$ it is `SingleIndex`.
    """

    target: Annotated[Target, BeforeValidator(as_target)] = Field(
        description="what is learnt, and the link of the student"
    )
    step: float = Field(0.05, gt=0.0, description="step times the dimension")
    start: Start = Field(RandomStart(), description="where training starts")
    loss: Annotated[Loss, BeforeValidator(as_loss)] = Field(
        Loss(SQUARE), description="loss: a name, or a formula in the label y and the output f"
    )

    @model_validator(mode="after")
    def _check(self) -> "MultiIndex":
        if self.directions > MOST_DIRECTIONS:
            raise InputError(f"target must have at most {MOST_DIRECTIONS} directions, got {self.directions}.")
        if self.target.uses_inner_noise:
            raise InputError("target must not use e: the student has the same link and cannot see it.")
        if self.target.entries != "gaussian":
            raise InputError(f"entries must be gaussian, got {self.target.entries!r}: rotations change nothing here.")
        if isinstance(self.start, OverlapStart):
            if self.start.gram is not None:
                raise InputError("gram must be left out: the vectors stay orthonormal.")
            overlap = np.asarray(self.start.overlap, dtype=float)
            if overlap.ndim and overlap.shape != (self.directions, self.directions):
                raise InputError(
                    f"overlap must have {self.directions} rows of {self.directions} numbers, got {overlap.shape}."
                )
            largest = float(np.linalg.norm(overlap_matrix(self.start, self.directions, self.directions), 2))
            if not largest <= 1.0 + 1e-12:
                raise InputError(f"overlap must have singular values of at most 1, got {largest:.4g}.")
        return self

    @property
    def directions(self) -> int:
        """Number $k$ of directions."""
        return self.target.latents
