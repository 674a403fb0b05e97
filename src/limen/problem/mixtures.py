"""Gaussian mixtures learned by online SGD: XOR with a two-layer ReLU network, k classes with logistic regression."""

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from limen.problem.spec import InputError, Spec, nested_tuple

MOST_CLASSES = 64
MOST_WIDTH = 256
SUM_TOLERANCE = 1e-8
# Means this close to linearly dependent leave no basis of their span.
DEPENDENT = 1e-10


class XorMixture(Spec):
    r"""Four clouds $\pm\mu$ (label 1), $\pm\nu$ (label 0), $\mu\perp\nu$ of norm one, noise $I_N/\lambda$, learned by

    $$h=v\cdot g(WX),\qquad L=-yh+\log(1+e^h)+\tfrac\alpha2\big(\|v\|^2+\|W\|_F^2\big),\qquad g(u)=\max(u,0),$$
    with one fresh sample a step and step $\delta=c/N$ (Ben Arous, Gheissari & Jagannath 2022). Time is $t=\ell\delta$.

    `width` is the number $K$ of neurons, `sharpness` $\lambda$ (may be `inf`), `penalty` $\alpha$, `step` $c$.
    Simulations start from $W_{ij}\sim N(0,1/N)$, $v_i\sim N(0,1)$.
    """

    width: int = Field(ge=1, le=MOST_WIDTH)
    sharpness: float = Field(gt=0.0, allow_inf_nan=True)
    penalty: float = Field(ge=0.0)
    step: float = Field(gt=0.0)


class GaussianMixture(Spec):
    r"""Classes $a$ of probability $p_a$, inputs $Y=\mu_a+N(0,I_d/\lambda)$, learned by multiclass logistic regression

    $$L=-x^a\cdot Y+\log\sum_ce^{x^c\cdot Y},\qquad x\leftarrow x-\delta(\nabla L+\beta x),\qquad\delta=c/d,$$
    one fresh sample a step (Ben Arous, Gheissari, Huang & Jagannath 2023). Time is $t=\ell\delta$.

    `classes` is $k$, `sharpness` $\lambda$ (may be `inf`), `penalty` $\beta$, `step` $c$. `probabilities` are the
    $p_a$, equal if not given; `mean_gram` is the matrix $\langle\mu_a,\mu_b\rangle$, the identity if not given.
    Simulations start from independent $x^c\sim N(0,I_d/d)$.
    """

    classes: int = Field(ge=2, le=MOST_CLASSES)
    sharpness: float = Field(gt=0.0, allow_inf_nan=True)
    penalty: float = Field(ge=0.0)
    step: float = Field(gt=0.0)
    probabilities: Annotated[tuple[float, ...] | None, BeforeValidator(nested_tuple)] = None
    mean_gram: Annotated[tuple[tuple[float, ...], ...] | None, BeforeValidator(nested_tuple)] = None

    @model_validator(mode="after")
    def _check(self) -> "GaussianMixture":
        k = self.classes
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
