r"""Online SGD of one vector in $\mathbb R^N$: single-index losses on the sphere, and spiked matrices and tensors.

Every problem here is learnt from one fresh sample a step. The step is $\delta/N$ with the constant $\delta=$ `step`
of order one, where the noise of SGD first changes the limit; the time is $t=\text{steps}\cdot\delta/N$. In
simulations $N$ is `d`. `start` is where training starts: `RandomStart`, uniform on the unit sphere, or
`OverlapStart(m0)`.

Sources: Ben Arous, Gheissari & Jagannath 2021 (sphere), 2022 (effective dynamics).
"""

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from limen.problem.activations import Activation, as_activation
from limen.problem.losses import Loss, as_loss
from limen.problem.spec import InputError, Spec
from limen.problem.starts import OverlapStart, RandomStart, Start

HIGHEST_ORDER = 12
# Without the factor one half of the loss called `square`.
SQUARE = "(y - f)**2"
LinkFunction = Annotated[Activation, BeforeValidator(as_activation)]


class SingleIndex(Spec):
    r"""A teacher $y=f(\langle a,\theta\rangle)+\sqrt{\text{noise}}\,\varepsilon$ learnt on the sphere.

    $a\sim N(0,I_N)$, $\theta,x\in S^{N-1}$, loss $L=\ell(y,g(\langle a,x\rangle))$, by default $(y-g)^2$ (no factor ½),
    one sample a step: $\tilde x=x-\frac\delta N\nabla_{sph}L$, $x\leftarrow\tilde x/\|\tilde x\|$. `link` is $f$ and
    `student_link` is $g$ ($f$ itself if left out): a name, a formula in `z`, or an `Activation`. `noise` is the
    variance of the label noise. `loss` is a name (`logistic` and others, with labels $\pm1$ from the link `sign(z)`),
    or a formula in the label `y` and the output `f`.
    """

    link: LinkFunction = Field(description="link of the teacher: a name or a formula in z")
    student_link: LinkFunction | None = Field(None, description="link of the student; by default that of the teacher")
    noise: float = Field(0.0, ge=0.0, description="variance of the label noise")
    step: float = Field(0.05, gt=0.0, description="step times the dimension")
    start: Start = Field(RandomStart(), description="where training starts")
    loss: Annotated[Loss, BeforeValidator(as_loss)] = Field(
        Loss(SQUARE), description="loss: a name, or a formula in the label y and the output f"
    )

    @model_validator(mode="after")
    def _check(self) -> "SingleIndex":
        check_sphere_start(self.start)
        return self

    @property
    def student(self) -> Activation:
        """The student's link."""
        return self.link if self.student_link is None else self.student_link


class OnlinePCA(Spec):
    r"""The leading direction of $E\,YY^\top=I+\lambda\theta\theta^\top$ from one Gaussian sample a step.

    Loss $L=-\langle x,Y\rangle^2$ on the sphere, $\lambda=$ `signal`, step $\delta/N$ as in `SingleIndex`.
    """

    signal: float = Field(gt=0.0, description="strength of the spike")
    step: float = Field(gt=0.0, description="step times the dimension")
    start: Start = Field(RandomStart(), description="where training starts")

    @model_validator(mode="after")
    def _check(self) -> "OnlinePCA":
        check_sphere_start(self.start)
        return self


class BinaryMixture(Spec):
    r"""The mean direction of a mixture $Y=\varepsilon\theta+z$, $\varepsilon=\pm1$, $z\sim N(0,I_N)$.

    `weight` is $p=P(\varepsilon=1)=e^h/(e^h+e^{-h})$; maximum likelihood on the sphere,
    $L=-\log\cosh(\langle Y,x\rangle+h)$, step $\delta/N$ as in `SingleIndex`.
    """

    weight: float = Field(gt=0.0, lt=1.0, description="probability of the first cloud")
    step: float = Field(gt=0.0, description="step times the dimension")
    start: Start = Field(RandomStart(), description="where training starts")

    @model_validator(mode="after")
    def _check(self) -> "BinaryMixture":
        check_sphere_start(self.start)
        return self

    @property
    def field(self) -> float:
        r"""$h=\frac12\log\frac p{1-p}$."""
        return 0.5 * float(np.log(self.weight) - np.log1p(-self.weight))


class SpikedTensor(Spec):
    r"""A spike of strength $\lambda=$ `signal` in a Gaussian tensor of order $k=$ `order`, a fresh tensor every step.

    $Y=\lambda v^{\otimes k}+W$ with all $N^k$ entries of $W$ independent standard normals (not symmetrised),
    $L=\|Y-x^{\otimes k}\|^2$, $x\in\mathbb R^N$ free, step $c/N$ with $c=$ `step`. Order 2 is the spiked matrix.
    `OverlapStart(m0)` starts with $\|x\|=1$, `OverlapStart(m0, gram=[[R2]])` with $\|x\|^2=R_2$.
    """

    order: int = Field(ge=2, le=HIGHEST_ORDER, description="order of the tensor")
    signal: float = Field(gt=0.0, description="strength of the spike")
    step: float = Field(gt=0.0, description="step times the dimension")
    start: Start = Field(RandomStart(), description="where training starts")

    @model_validator(mode="after")
    def _check(self) -> "SpikedTensor":
        if isinstance(self.start, OverlapStart):
            tensor_start(self.start)
        return self


SphericalProblem = SingleIndex | OnlinePCA | BinaryMixture


def check_sphere_start(start: Start) -> None:
    """Refuses a start that is not one overlap between -1 and 1."""
    if isinstance(start, OverlapStart):
        if start.gram is not None:
            raise InputError("gram must be left out: the vector stays on the unit sphere.")
        sphere_start_overlap(start)


def sphere_start_overlap(start: OverlapStart) -> float:
    """The overlap of a start on the unit sphere."""
    overlap = _one_number(start)
    if not abs(overlap) <= 1.0:
        raise InputError(f"overlap must be between -1 and 1, got {overlap:g}.")
    return overlap


def tensor_start(start: OverlapStart) -> tuple[float, float]:
    r"""Overlap $m$ and $r=\|x\|^2-m^2$ of a start; $\|x\|^2$ is 1 without `gram`."""
    overlap = _one_number(start)
    square = 1.0
    if start.gram is not None:
        if np.shape(start.gram) != (1, 1):
            raise InputError(f"gram must be [[square norm]], one number, got shape {np.shape(start.gram)}.")
        square = float(start.gram[0][0])
    if not square >= overlap**2:
        raise InputError(f"overlap must be at most the norm {max(square, 0.0) ** 0.5:g} of the start, got {overlap:g}.")
    return overlap, square - overlap**2


def _one_number(start: OverlapStart) -> float:
    overlap = np.asarray(start.overlap, dtype=float)
    if overlap.size != 1:
        raise InputError(f"overlap must be one number, got shape {overlap.shape}.")
    return float(overlap.ravel()[0])
