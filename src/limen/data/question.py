"""What is asked of a learning curve: data, model, sizes, ridge, stopping times, checked."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.checks import integer, positive
from limen.data.arrays import Arrays, checked_arrays
from limen.problem.spec import InputError
from limen.theory.kernel import ntk

Floats = NDArray[np.float64]
Model = Literal["ridge", "kernel", "random-features", "ntk"]
MODELS = ("ridge", "kernel", "random-features", "ntk")
# Kernel matrices of more rows than this are not formed.
MOST_ROWS = 4000


class Question(NamedTuple):
    """Data, model, sizes, ridge, stopping times (None: trained to the end), number of random features, depth of the
    network, kernel width."""

    data: Arrays
    model: str
    sizes: NDArray[np.int64]
    ridge: float
    times: Floats | None
    features: int | None
    depth: int
    width: float

    def spec(self) -> dict[str, Any]:
        """The JSON form, the same for prediction and training."""
        own = {"features": self.features, "depth": self.depth, "width": self.width}
        used = {"random-features": ("features",), "ntk": ("depth",), "kernel": ("width",)}.get(self.model, ())
        spec = {
            "type": "data.learning_curve",
            "data": self.data.digest,
            "model": self.model,
            "sizes": self.sizes.tolist(),
            "ridge": self.ridge,
        }
        stopped = {} if self.times is None else {"times": self.times.tolist()}
        return spec | stopped | {name: own[name] for name in used}

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the curve."""
        return ("samples",) if self.times is None else ("samples", "time")

    @property
    def coordinates(self) -> dict[str, Any]:
        """Coordinates of the curve."""
        return {"samples": self.sizes} | ({} if self.times is None else {"time": self.times})

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
    ridge: float,
    times: ArrayLike | None,
    features: int | None,
    depth: int,
    width: float,
) -> Question:
    """Arguments checked; data standardised."""
    if model not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {model!r}.")
    if not (np.isfinite(ridge) and (ridge > 0.0 or (ridge == 0.0 and times is not None))):
        raise InputError(f"ridge must be positive and finite (0 only with times), got {ridge!r}.")
    if (features is not None) != (model == "random-features"):
        raise InputError(f"features must be given with random-features and only there, got {features!r} for {model!r}.")
    if features is not None:
        features = integer("features", features, 1)
    if times is not None and model == "random-features":
        raise InputError("times must be left out with random-features, whose training is answered to its end only.")
    width = positive("width", width)
    data = checked_arrays(X, y)
    rows = len(data.inputs)
    if sizes is None:
        sizes = np.unique(np.geomspace(max(2.0, rows / 20), rows / 2, 8).astype(int))
    counts = np.atleast_1d(np.asarray(sizes, dtype=float))
    if counts.ndim != 1 or not counts.size or (counts != np.round(counts)).any() or (np.diff(counts) <= 0).any():
        raise InputError("sizes must be an increasing list of whole numbers.")
    if counts[0] < 2 or counts[-1] >= rows:
        raise InputError(
            f"sizes must lie between 2 and the {rows} rows less one, which are left for testing; got {counts[0]:g} to "
            f"{counts[-1]:g}."
        )
    stops = None if times is None else np.atleast_1d(np.asarray(times, dtype=float))
    if stops is not None and not (
        stops.ndim == 1 and stops.size and np.isfinite(stops).all() and stops[0] > 0.0 and (np.diff(stops) > 0.0).all()
    ):
        raise InputError("times must be an increasing list of positive numbers.")
    return Question(
        data, model, counts.astype(np.int64), float(ridge), stops, features, integer("depth", depth, 2), width
    )
