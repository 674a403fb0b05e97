r"""Learning curves of regression on your own data: predicted from the rows, and trained on real subsets of them.

Both minimise $\frac1n\sum_i\frac12|y_i-f(x_i)|^2+\frac\lambda2\|f\|^2$ over $n$ rows and report half mean squares, on
those rows (`train_loss`) and on the rows left out (`test_loss`).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from limen.checks import seed_list
from limen.data.arrays import Arrays, checked_arrays
from limen.gaussian.sobol import sobol_normals
from limen.problem.spec import InputError
from limen.result import Result, merge
from limen.simulation.generators import numpy_generator
from limen.simulation.kernel.subsets import subset_errors
from limen.theory.kernel import ntk
from limen.theory.kernel.finite_population import finite_population_risk
from limen.theory.kernel.subsets import SubsetRisk, subset_risk

Floats = NDArray[np.float64]
Model = Literal["ridge", "kernel", "random-features", "ntk"]
MODELS = ("ridge", "kernel", "random-features", "ntk")
CITATIONS = ("soven1967", "canatar2021", "simon2023", "wei2022")
# Kernel matrices of more rows than this are not formed.
MOST_ROWS = 4000
# Two-sided 99% of the normal law.
NORMAL_99 = 2.5758
# What replacing random features by their spectrum is known to miss on real data, as a part of the error.
FEATURES_ERROR = 0.07
POINTS = 256


class Curve(NamedTuple):
    """What is asked for: data, model, sizes, ridge, number of random features, depth of the network, kernel width."""

    data: Arrays
    model: str
    sizes: NDArray[np.int64]
    ridge: float
    features: int | None
    depth: int
    width: float

    def spec(self) -> dict[str, Any]:
        """The JSON form, the same for prediction and training."""
        own = {"features": self.features, "depth": self.depth, "width": self.width}
        used = {"random-features": ("features",), "ntk": ("depth",), "kernel": ("width",)}.get(self.model, ())
        return {
            "type": "data.learning_curve",
            "data": self.data.digest,
            "model": self.model,
            "sizes": self.sizes.tolist(),
            "ridge": self.ridge,
        } | {name: own[name] for name in used}

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


def learning_curve(
    X: ArrayLike,
    y: ArrayLike,
    model: Model = "ridge",
    sizes: ArrayLike | None = None,
    ridge: float = 0.01,
    features: int | None = None,
    depth: int = 3,
    width: float = 1.0,
) -> Result:
    r"""Predicted train and test loss against the number of samples $n$, from the data themselves, without training.

    Args:
        X, y: inputs (N, d) and labels (N,); columns are scaled to variance 1, classes become coordinates, numbers are
            divided by their standard deviation, both centred over all rows.
        model: `ridge`, linear; `kernel`, $e^{-|x-x'|^2/(2w^2d)}$ with $w$ = `width`; `random-features`, `features` many
            ReLU features; `ntk`, the tangent kernel of a ReLU network of `depth` weight layers.
        sizes: numbers of samples, below N; by default eight between N/20 and N/2.
        ridge: $\lambda>0$.

    Returns:
        `train_loss` and `test_loss` along `samples`, half mean squares: means over random subsets of the rows, tested
        on the rows left out (`subset_risk`; within about 2% of training where $n$ is at least twenty or so). For
        classes `test_error`, the share of wrong answers, from the Gaussian law of the outputs. `test_loss_low` and
        `test_loss_high`: 99% interval for data of the same source, of which N rows show no more; for random features it
        also holds the 7% by which a theory that sees only their spectrum may fail.

    Cost: `ridge` $O(Nd^2)$ per round, milliseconds per size for a thousand rows; kernels $O(N^3)$, up to 4000 rows.
    """
    began = time.perf_counter()
    curve = checked_curve(X, y, model, sizes, ridge, features, depth, width)
    kernel, labels = curve.kernel(), curve.data.labels
    inputs = curve.data.inputs if kernel is None else None
    rows: list[dict[str, float]] = []
    settled = True
    for n in curve.sizes:
        risk = subset_risk(inputs, kernel, labels, float(n), float(n) * curve.ridge)
        settled = settled and risk.settled
        rows.append(_numbers(curve, risk))
    dataset = xr.Dataset({name: ("samples", [row[name] for row in rows]) for name in rows[0]}, {"samples": curve.sizes})
    if curve.model == "random-features":
        assert kernel is not None and curve.features is not None
        dataset = _with_features(dataset, kernel, curve)
    status = f"predicted from {curve.data.said}."
    if not settled:
        status = f"the effective weights did not settle: take a larger ridge than {curve.ridge:g}."
    statistics = {"seconds": time.perf_counter() - began}
    return Result(dataset, curve.spec(), "theory", settled, status, statistics, citations=CITATIONS)


def training_curve(
    X: ArrayLike,
    y: ArrayLike,
    model: Model = "ridge",
    sizes: ArrayLike | None = None,
    ridge: float = 0.01,
    features: int | None = None,
    depth: int = 3,
    width: float = 1.0,
    seeds: int | Sequence[int] = 20,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Result:
    """The same losses measured: once per seed, the model is trained on a random part of the rows and tested on the
    rest. Arguments and variables as for `learning_curve`."""
    curve = checked_curve(X, y, model, sizes, ridge, features, depth, width)
    kernel, labels = curve.kernel(), curve.data.labels
    results = []
    for seed in progress(seed_list(seeds)):
        began = time.perf_counter()
        inputs, own = (curve.data.inputs, None) if kernel is None else (None, kernel)
        if curve.model == "random-features":
            inputs, own = _drawn_features(curve, seed), None
        runs = [subset_errors(inputs, own, labels, int(n), float(n) * curve.ridge, seed) for n in curve.sizes]
        variables = {
            "train_loss": (("seed", "samples"), [[0.5 * run.train for run in runs]]),
            "test_loss": (("seed", "samples"), [[0.5 * run.test for run in runs]]),
        }
        if curve.data.classes:
            variables["test_error"] = (("seed", "samples"), [[run.wrong for run in runs]])
        dataset = xr.Dataset(variables, {"samples": curve.sizes, "seed": [seed]}, attrs={"d": len(labels)})
        status = f"trained on parts of {curve.data.said}."
        statistics = {"seconds": time.perf_counter() - began}
        results.append(Result(dataset, curve.spec(), "simulation", True, status, statistics, (seed,)))
    return merge(results)


def checked_curve(
    X: ArrayLike,
    y: ArrayLike,
    model: str,
    sizes: ArrayLike | None,
    ridge: float,
    features: int | None,
    depth: int,
    width: float,
) -> Curve:
    """Arguments checked; data standardised."""
    if model not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {model!r}.")
    if not (np.isfinite(ridge) and ridge > 0.0):
        raise InputError(f"ridge must be positive and finite, got {ridge!r}.")
    if (features is not None) != (model == "random-features"):
        raise InputError(f"features must be given with random-features and only there, got {features!r} for {model!r}.")
    if features is not None and (int(features) != features or features < 1):
        raise InputError(f"features must be a whole number of at least 1, got {features!r}.")
    if not width > 0.0:
        raise InputError(f"width must be positive, got {width!r}.")
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
    return Curve(data, model, counts.astype(np.int64), float(ridge), features, int(depth), float(width))


def _numbers(curve: Curve, risk: SubsetRisk) -> dict[str, float]:
    """Means over the rows, and a 99% interval of the test loss from how much rows differ."""
    test = 0.5 * risk.test
    half = NORMAL_99 * float(test.std(ddof=1)) / np.sqrt(test.size)
    mean = float(test.mean())
    numbers = {
        "train_loss": 0.5 * float(risk.train.mean()),
        "test_loss": mean,
        "test_loss_low": max(mean - half, 0.0),
        "test_loss_high": mean + half,
    }
    if curve.data.classes:
        numbers["test_error"] = _wrong_answers(curve.data, risk)
    return numbers


def _wrong_answers(data: Arrays, risk: SubsetRisk) -> float:
    """Probability that the largest output is not the right one, outputs on a row left out taken as Gaussian."""
    means, covariances = risk.outputs_left_out(data.labels)
    values, vectors = np.linalg.eigh(covariances)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    right = data.labels.argmax(axis=1)
    wrong = 0.0
    for point in sobol_normals(POINTS, data.labels.shape[1], 0):
        wrong += float(np.mean((means + roots @ point).argmax(axis=1) != right))
    return wrong / POINTS


def _with_features(dataset: xr.Dataset, kernel: Floats, curve: Curve) -> xr.Dataset:
    """The curve of finitely many features, from the kernel's spectrum; the interval widened by what that may miss."""
    rows = len(kernel)
    values, vectors = np.linalg.eigh(kernel / rows)
    energies = ((vectors.T @ curve.data.labels) ** 2).sum(axis=1) / rows
    sizes, penalty = curve.sizes.astype(float), curve.sizes * curve.ridge
    assert curve.features is not None
    risk = finite_population_risk(values, energies, sizes, float(curve.features), penalty)
    test, train = 0.5 * np.asarray(risk.test), 0.5 * np.asarray(risk.train)
    relative = (dataset.test_loss_high - dataset.test_loss).values / dataset.test_loss.values + FEATURES_ERROR
    return xr.Dataset(
        {
            "train_loss": ("samples", train),
            "test_loss": ("samples", test),
            "test_loss_low": ("samples", test * np.maximum(1.0 - relative, 0.0)),
            "test_loss_high": ("samples", test * (1.0 + relative)),
        },
        {"samples": curve.sizes},
    )


def _drawn_features(curve: Curve, seed: int) -> Floats:
    inputs, count = curve.data.inputs, curve.features
    assert count is not None
    weights = numpy_generator(seed, count, "data features").standard_normal((count, inputs.shape[1]))
    return np.maximum(inputs @ weights.T / np.sqrt(inputs.shape[1]), 0.0) / np.sqrt(count)
