r"""What the inputs look like: the law of their entries and the spectrum of their covariance, or rows of data."""

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from limen.problem.input_rows import InputRows, eigenspaces, principal_rows
from limen.problem.spec import InputError, Spec, nested_tuple

Numbers = Annotated[tuple[float, ...], BeforeValidator(nested_tuple)]
Shares = tuple[float, ...] | tuple[tuple[float, ...], ...]
Law = Literal["gaussian", "rademacher", "student-t"]


class InputVariances(NamedTuple):
    r"""Eigenvalues $s$ of the covariance of the inputs and their fractions $w_s$; shapes (S,)."""

    values: np.ndarray
    fractions: np.ndarray

    @property
    def isotropic(self) -> bool:
        """Whether there is one eigenvalue only."""
        return self.values.size == 1


def _held_rows(value: Any) -> Any:
    if isinstance(value, dict):
        raise InputError(
            f"rows of {value.get('name', 'data')} are not in a description: make the inputs again by Inputs.from_data."
        )
    return value


class Inputs(Spec):
    r"""Inputs $x=\Sigma^{1/2}g$, the entries of $g$ independent of mean 0 and variance 1.

    `law` is the law of those entries: normal, ±1 (`rademacher`) or Student's t with 8 degrees of freedom.
    $\Sigma$ has the eigenvalues `variances` on `fractions` of the dimensions. Two-layer networks want
    $\sum_bw_bs_b=1$. `target_shares` says where their targets live: the part of the variance of a latent coordinate
    that comes from each eigenspace, one number per variance, or such a row per latent direction; by default
    $w_bs_b$, directions spread evenly. `rows` are there after `from_data`: training takes them for inputs, theory the
    spectrum.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    law: Law = Field("gaussian", description="law of the independent entries")
    variances: Numbers = Field((1.0,), description="eigenvalues of the covariance")
    fractions: Numbers = Field((1.0,), description="part of the dimensions that has each eigenvalue")
    target_shares: Annotated[Shares | None, BeforeValidator(nested_tuple)] = Field(
        None, description="part of the target's variance in each eigenspace; by default spread evenly"
    )
    rows: Annotated[InputRows | None, BeforeValidator(_held_rows)] = Field(
        None, description="rows of data, from Python"
    )

    @model_validator(mode="after")
    def _check(self) -> "Inputs":
        s, w = self.variances, self.fractions
        if not s or len(s) != len(w):
            raise InputError(f"variances and fractions must be lists of one length, got {len(s)} and {len(w)}.")
        if min(s) < 0.0 or max(s) == 0.0 or min(w) <= 0.0:
            raise InputError(f"variances must not be negative nor all 0, fractions positive, got {s} and {w}.")
        if abs(sum(w) - 1.0) > 1e-9:
            raise InputError(f"fractions must sum to 1, got {sum(w):.6g}.")
        if self.law != "gaussian" and len(s) > 1:
            raise InputError(f"law must be gaussian with several variances, got {self.law!r}.")
        if self.target_shares is not None:
            shares = np.asarray(self.target_shares, dtype=float)
            if shares.shape[-1] != len(s):
                raise InputError(f"target_shares must have {len(s)} entries, one per variance, or rows of them.")
            if shares.min() < 0.0 or np.abs(shares.sum(axis=-1) - 1.0).max() > 1e-9:
                raise InputError(f"target_shares must not be negative and sum to 1, got {self.target_shares}.")
        return self

    @staticmethod
    def power_law(exponent: float, blocks: int) -> "Inputs":
        r"""Gaussian inputs whose $i$-th of $d$ eigenvalues falls as $i^{-a}$, $a$ = `exponent`, in `blocks` steps.

        Block $b$ holds the ranks $i/d$ between $e^{-b}$ and $e^{-b-1}$ (the last block the rest down to 0) at
        the mean of $u^{-a}$ over them, so that the trace is exact; scaled to mean eigenvalue one. Exponents below 1.
        """
        if not 0.0 <= exponent < 1.0:
            raise InputError(f"exponent must be from 0 to below 1 (a finite mean eigenvalue), got {exponent!r}.")
        if isinstance(blocks, bool) or int(blocks) != blocks or blocks < 1:
            raise InputError(f"blocks must be a whole number of at least 1, got {blocks!r}.")
        edges = np.append(np.exp(-np.arange(float(blocks))), 0.0)
        fractions = -np.diff(edges)
        # The mean of u^-a over all ranks is 1/(1-a): the variances average to one as they stand.
        variances = -np.diff(edges ** (1.0 - exponent)) / fractions
        return Inputs(variances=variances[::-1], fractions=fractions[::-1] / fractions.sum())

    @staticmethod
    def from_data(X: ArrayLike, name: str = "data", blocks: int = 12) -> "Inputs":
        r"""Inputs that are rows of data: training draws them without replacement, theory takes Gaussian inputs of their
        covariance, so that a comparison looks at universality.

        `X` (N, d) is centred, turned to its principal axes and scaled to variance 1 on average (over all directions,
        each keeps its own). The theory sees at most `blocks` eigenspaces, of equal ranges in $\log s$, four directions
        or more each. `name` stands in descriptions, which hold a digest of the rows and not the rows.
        """
        if isinstance(blocks, bool) or int(blocks) != blocks or blocks < 1:
            raise InputError(f"blocks must be a whole number of at least 1, got {blocks!r}.")
        held = principal_rows(X, name)
        variances, fractions = eigenspaces(held.variances, int(blocks))
        return Inputs(variances=variances, fractions=fractions, rows=held)

    @property
    def d(self) -> int | None:
        """The dimension, where rows of data have one."""
        return None if self.rows is None else self.rows.rows.shape[1]

    @property
    def spectrum(self) -> InputVariances:
        """Eigenvalues and fractions as arrays."""
        return InputVariances(np.asarray(self.variances), np.asarray(self.fractions))

    @property
    def isotropic(self) -> bool:
        """Whether the inputs are drawn and all directions have one variance."""
        return len(set(self.variances)) == 1 and self.rows is None

    def latent_blocks(self, latents: int) -> np.ndarray:
        r"""Squared lengths $|\theta_{*r}|^2$ of the target's directions inside each eigenspace, shape (S, latents)."""
        s, w = self.spectrum
        shares = s * w if self.target_shares is None else np.asarray(self.target_shares)
        return np.broadcast_to(shares, (latents, s.size)).T / s[:, None]

    def universality(self) -> str | None:
        r"""What a theory of Gaussian inputs is for entries of another law, None where they are Gaussian.

        Target and neurons have entries of order $d^{-1/2}$ all over the inputs, so that fields are sums of many small
        independent parts: normal as $d\to\infty$, with a part of order $1/d$ from the fourth cumulant of the entries.
        Gradients of a fixed sample have the Gaussian limit too (Celentano, Cheng & Montanari 2021).
        """
        if self.law == "gaussian":
            return None
        return (
            f"Inputs of law {self.law} have the limit of Gaussian ones; at finite d they differ by a part of order 1/d."
        )

    def unlike_gaussian(self) -> str | None:
        """Why what holds for Gaussian inputs at every d does not apply, or None."""
        return None if self.law == "gaussian" else f"it needs Gaussian inputs, and these are {self.law}."

    def unlike_isotropic(self) -> str | None:
        """Why a theory of inputs of one variance does not apply, or None; their law does not matter as d grows."""
        if self.isotropic:
            return None
        if self.rows is not None:
            return "it needs isotropic inputs, and these are rows of data."
        return f"it needs inputs of one variance, and these have {len(set(self.variances))}."
