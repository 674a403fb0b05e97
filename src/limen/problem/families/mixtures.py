"""Gaussian mixtures learnt by online SGD: XOR with a two-layer ReLU network, k classes with logistic regression."""

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from limen.problem.spec import InputError, Spec, nested_tuple
from limen.problem.starts import OverlapStart, RandomStart, Start, overlap_matrix

MOST_CLASSES = 64
MOST_WIDTH = 256
SUM_TOLERANCE = 1e-8
# Means this close to linearly dependent leave no basis of their span.
DEPENDENT = 1e-10


class XorMixture(Spec):
    r"""Four clouds $\pm\mu$ (label 1), $\pm\nu$ (label 0), $\mu\perp\nu$ of norm one, noise $I_N/\lambda$, learnt by

    $$h=v\cdot g(WX),\qquad L=-yh+\log(1+e^h)+\tfrac\alpha2\big(\|v\|^2+\|W\|_F^2\big),\qquad g(u)=\max(u,0),$$
    with one fresh sample a step and step $\delta=c/N$ (Ben Arous, Gheissari & Jagannath 2022). Time is $t=\ell\delta$.

    `width` is the number $K$ of neurons, `sharpness` $\lambda$ (may be `inf`), `penalty` $\alpha$, `step` $c$.
    A random start is $W_{ij}\sim N(0,1/N)$, $v_i\sim N(0,1)$; an `OverlapStart` has overlaps with $\mu$ and $\nu$,
    (width, 2), orthogonal parts orthonormal unless it gives the Gram matrix, and `second_layer` $v$, by default ones.
    """

    width: int = Field(ge=1, le=MOST_WIDTH, description="number of neurons")
    sharpness: float = Field(gt=0.0, allow_inf_nan=True, description="inverse variance of the clouds; may be inf")
    penalty: float = Field(ge=0.0, description="weight decay")
    step: float = Field(gt=0.0, description="step times the dimension")
    start: Start = Field(RandomStart(), description="where training starts")
    second_layer: Annotated[tuple[float, ...] | None, BeforeValidator(nested_tuple)] = Field(
        None, description="second layer at the start, one number per neuron; by default ones, or drawn"
    )

    @model_validator(mode="after")
    def _check(self) -> "XorMixture":
        _check_start(self.start, self.width, 2)
        if self.second_layer is None:
            return self
        if isinstance(self.start, RandomStart):
            raise InputError("second_layer must be left out with a RandomStart, which draws it.")
        if len(self.second_layer) != self.width:
            raise InputError(
                f"second_layer must be {self.width} numbers, one per neuron, got {len(self.second_layer)}."
            )
        return self


class GaussianMixture(Spec):
    r"""Classes $a$ of probability $p_a$, inputs $Y=\mu_a+N(0,I_d/\lambda)$, learnt by multiclass logistic regression

    $$L=-x^a\cdot Y+\log\sum_ce^{x^c\cdot Y},\qquad x\leftarrow x-\delta(\nabla L+\beta x),\qquad\delta=c/d,$$
    one fresh sample a step (Ben Arous, Gheissari, Huang & Jagannath 2023). Time is $t=\ell\delta$.

    `classes` is $k$, `sharpness` $\lambda$ (may be `inf`), `penalty` $\beta$, `step` $c$. `probabilities` are the
    $p_a$, equal if not given; `mean_gram` is the matrix $\langle\mu_a,\mu_b\rangle$, the identity if not given.
    A random start is independent $x^c\sim N(0,I_d/d)$; an `OverlapStart` has overlaps with the means, shape
    (classes, classes), orthogonal parts orthonormal unless it gives the Gram matrix.
    """

    classes: int = Field(ge=2, le=MOST_CLASSES, description="number of classes")
    sharpness: float = Field(gt=0.0, allow_inf_nan=True, description="inverse variance of the clouds; may be inf")
    penalty: float = Field(ge=0.0, description="weight decay")
    step: float = Field(gt=0.0, description="step times the dimension")
    probabilities: Annotated[tuple[float, ...] | None, BeforeValidator(nested_tuple)] = Field(
        None, description="probabilities of the classes; by default equal"
    )
    mean_gram: Annotated[tuple[tuple[float, ...], ...] | None, BeforeValidator(nested_tuple)] = Field(
        None, description="inner products of the means; by default orthonormal"
    )
    start: Start = Field(RandomStart(), description="where training starts")

    @model_validator(mode="after")
    def _check(self) -> "GaussianMixture":
        k = self.classes
        _check_start(self.start, k, k)
        if self.probabilities is not None:
            given = self.probabilities
            if len(given) != k or min(given) <= 0.0 or abs(sum(given) - 1.0) > SUM_TOLERANCE:
                raise InputError(f"probabilities must be {k} positive numbers that sum to 1, got {list(given)}.")
        if self.mean_gram is not None:
            if {len(self.mean_gram), *(len(row) for row in self.mean_gram)} != {k}:
                raise InputError(f"mean_gram must have shape ({k}, {k}), that of classes.")
            gram = np.asarray(self.mean_gram)
            if not np.allclose(gram, gram.T, rtol=0.0, atol=1e-12 * np.abs(gram).max()):
                raise InputError("mean_gram must be symmetric.")
            values = np.linalg.eigvalsh(gram)
            if values[0] <= DEPENDENT * max(values[-1], 0.0):
                raise InputError(
                    f"mean_gram must be positive definite (linearly independent means), got smallest eigenvalue "
                    f"{values[0]:.3g}."
                )
        return self

    @property
    def weights(self) -> np.ndarray:
        """The probabilities of the classes, shape (classes,)."""
        k = self.classes
        return np.full(k, 1.0 / k) if self.probabilities is None else np.asarray(self.probabilities)

    @property
    def means(self) -> np.ndarray:
        """The means in an orthonormal basis of their span, one per row: the Cholesky factor of their Gram matrix."""
        return np.eye(self.classes) if self.mean_gram is None else np.linalg.cholesky(np.asarray(self.mean_gram))


def _check_start(start: Start, rows: int, means: int) -> None:
    """Refuses overlaps of another shape."""
    if isinstance(start, OverlapStart):
        try:
            overlap_matrix(start, rows, means)
        except ValueError:
            raise InputError(f"overlap must be a number or have shape ({rows}, {means}).") from None
