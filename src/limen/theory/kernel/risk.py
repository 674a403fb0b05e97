"""What the kernel chapter returns: test and training error in the limit, and a sentence about them."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from limen.checks import plain

FINITE = "All values are finite."


@dataclass(frozen=True)
class RidgeRisk:
    r"""Risk of a ridge estimator; numbers, or arrays of the broadcast shape of the arguments.

    `bias` is the excess risk without label noise and `variance` what the label noise adds, so that
    `test` $=$ `bias` $+$ `variance` is the excess risk (a mean square; the noise of a new label is not
    in it). `train` is the mean squared residual on the training set, `kappa` the effective ridge.
    """

    kappa: Any
    bias: Any
    variance: Any
    train: Any
    status: str = FINITE

    @property
    def test(self) -> Any:
        """Excess risk, the sum of bias and variance."""
        return self.bias + self.variance


@dataclass(frozen=True)
class RandomFeaturesRisk:
    r"""Risk of random features ridge regression; numbers, or arrays of the broadcast shape of the arguments.

    `bias` $=\mathcal B$ and `variance` $=\mathcal V$ are per unit of linear signal and of noise; `test` is the excess
    risk of the target at hand (a mean square), `train` the mean squared residual, `kappa` the effective ridge.
    """

    kappa: Any
    bias: Any
    variance: Any
    test: Any
    train: Any
    status: str = FINITE


@dataclass(frozen=True)
class FilterRisk:
    r"""Risk of an estimator stopped in time (or any other spectral filter), with the fields of `RidgeRisk` but
    no effective ridge: there is one for each point of the contour."""

    bias: Any
    variance: Any
    train: Any
    status: str = FINITE

    @property
    def test(self) -> Any:
        """Excess risk, the sum of bias and variance."""
        return self.bias + self.variance


def filter_risk(bias: ArrayLike, variance: ArrayLike, train: ArrayLike, status: str = FINITE) -> FilterRisk:
    """A `FilterRisk` with plain floats where there is one number only."""
    return FilterRisk(plain(bias), plain(variance), plain(train), status)  # pyright: ignore[reportArgumentType]
