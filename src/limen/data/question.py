"""What is asked of a learning curve: data, model, sizes, ridge, stopping times, checked."""

from collections.abc import Iterator
from itertools import product, starmap
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.checks import integer, integers, positive, positives, reals
from limen.data.arrays import Arrays, checked_arrays
from limen.problem.spec import InputError
from limen.theory.kernel import ntk

Floats = NDArray[np.float64]
Model = Literal["ridge", "kernel", "random-features", "ntk"]
MODELS = ("ridge", "kernel", "random-features", "ntk")
# Kernel matrices of more rows than this are not formed.
MOST_ROWS = 4000


class Point(NamedTuple):
    """One point of a curve: samples, ridge, random features, stopping time."""

    samples: int
    ridge: float
    features: int | None
    time: float | None


class Question(NamedTuple):
    """Data, model, sizes, ridges, numbers of random features and stopping times (None where there are none, trained to
    the end), which of ridge and features were given as lists, depth of the network, kernel width."""

    data: Arrays
    model: str
    sizes: NDArray[np.int64]
    ridges: Floats
    features: NDArray[np.int64] | None
    times: Floats | None
    listed: tuple[str, ...]
    depth: int
    width: float

    def spec(self) -> dict[str, Any]:
        """The JSON form, the same for prediction and training."""
        own = {"features": self._plain("features", self.features), "depth": self.depth, "width": self.width}
        used = {"random-features": ("features",), "ntk": ("depth",), "kernel": ("width",)}.get(self.model, ())
        spec = {
            "type": "data.learning_curve",
            "data": self.data.digest,
            "model": self.model,
            "sizes": self.sizes.tolist(),
            "ridge": self._plain("ridge", self.ridges),
        }
        stopped = {} if self.times is None else {"times": self.times.tolist()}
        return spec | stopped | {name: own[name] for name in used}

    @property
    def coordinates(self) -> dict[str, Any]:
        """Dimensions of the curve with their coordinates: samples, then what was given as a list."""
        own = {"ridge": self.ridges, "features": self.features}
        listed = {name: own[name] for name in self.listed}
        return {"samples": self.sizes} | listed | ({} if self.times is None else {"time": self.times})

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the curve."""
        return tuple(self.coordinates)

    def points(self) -> Iterator[Point]:
        """Every point of the curve, the last dimension fastest."""
        features: list[int | None] = [None] if self.features is None else self.features.tolist()
        times: list[float | None] = [None] if self.times is None else self.times.tolist()
        return starmap(Point, product(self.sizes.tolist(), self.ridges.tolist(), features, times))

    def _plain(self, name: str, values: NDArray[Any] | None) -> Any:
        """A list as a list, a single value as itself."""
        return None if values is None else values.tolist() if name in self.listed else values[0].item()

    def kernel(self) -> Floats | None:
        """The kernel matrix of all rows, or None for the linear model."""
        inputs = self.data.inputs
        if self.model == "ridge":
            return None
        if len(inputs) > MOST_ROWS:
            raise InputError(
                f"model {self.model!r} takes at most {MOST_ROWS} rows, got {len(inputs)}: take a part, or model ridge."
            )
        if self.model == "ntk":
            return ntk(inputs, None, "relu", self.depth)[1]
        if self.model == "random-features":
            return ntk(inputs, None, "relu", 2)[0]
        squares = (inputs**2).sum(axis=1)
        distance = np.maximum(squares[:, None] + squares - 2.0 * inputs @ inputs.T, 0.0)
        return np.exp(-distance / (2.0 * self.width**2 * inputs.shape[1]))

    def random_features(self, weights: Floats) -> Floats:
        r"""Features $\mathrm{relu}(\langle w_j,x\rangle/\sqrt d)$ on all rows (N, count), `weights` (count, d)."""
        inputs = self.data.inputs
        return np.maximum(inputs @ weights.T / np.sqrt(inputs.shape[1]), 0.0)


def checked_question(
    X: ArrayLike,
    y: ArrayLike,
    model: str,
    sizes: ArrayLike | None,
    ridge: ArrayLike,
    times: ArrayLike | None,
    features: ArrayLike | None,
    depth: int,
    width: float,
) -> Question:
    """Arguments checked; data standardised."""
    if model not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {model!r}.")
    ridges = _increasing("ridge", reals("ridge", ridge))
    if ridges[0] < 0.0 or (ridges[0] == 0.0 and times is None):
        raise InputError(f"ridge must be positive and finite (0 only with times), got {ridges[0]:g}.")
    if (features is not None) != (model == "random-features"):
        raise InputError(f"features must be given with random-features and only there, got {features!r} for {model!r}.")
    counts = None if features is None else _increasing("features", integers("features", features, 1))
    if times is not None and model == "random-features":
        raise InputError("times must be left out with random-features, whose training is answered to its end only.")
    stops = None if times is None else _increasing("times", positives("times", times))
    listed = tuple(
        name for name, given in (("ridge", ridge), ("features", features)) if given is not None and np.ndim(given)
    )
    width = positive("width", width)
    data = checked_arrays(X, y)
    rows = len(data.inputs)
    if sizes is None:
        sizes = np.unique(np.geomspace(max(2.0, rows / 20), rows / 2, 8).astype(int))
    samples = _increasing("sizes", integers("sizes", sizes, 2))
    if samples[-1] >= rows:
        raise InputError(f"sizes must be less than the {rows} rows, the rest is for testing; got {samples[-1]}.")
    return Question(data, model, samples, ridges, counts, stops, listed, integer("depth", depth, 2), width)


def _increasing(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """One number or an increasing list, as a list."""
    array = np.atleast_1d(values)
    if array.ndim != 1 or not array.size or (np.diff(array) <= 0).any():
        raise InputError(f"{name} must be one number or an increasing list of numbers, got {array.tolist()}.")
    return array
