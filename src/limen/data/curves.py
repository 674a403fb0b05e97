r"""Learning curves of regression on your own data: predicted from the rows, and trained on real subsets of them.

Both minimise $\frac1n\sum_i\frac12|y_i-f(x_i)|^2+\frac\lambda2\|f\|^2$ over $n$ rows, to the end or by gradient flow
for a time, and report half mean squares, on those rows (`train_loss`) and on the rows left out (`test_loss`).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from limen.checks import integer, seed_list
from limen.data.arrays import Arrays
from limen.data.question import Model, Question, checked_question
from limen.gaussian.sobol import sobol_normals
from limen.result import Result
from limen.simulation.generators import numpy_generator
from limen.simulation.kernel.subsets import SubsetErrors, row_orders, subset_errors, subset_flow_errors
from limen.theory.kernel.rows.flow import subset_flow
from limen.theory.kernel.rows.subsets import RandomFeatures, SubsetRisk, subset_risk

Floats = NDArray[np.float64]
CITATIONS = ("soven1967", "canatar2021", "simon2023", "wei2022")
# Two-sided 99% of the normal law.
NORMAL_99 = 2.5758
POINTS = 256
# Random features from which the law of their leverages is taken.
EXAMPLES = 256


def learning_curve(
    X: ArrayLike,
    y: ArrayLike,
    model: Model = "ridge",
    sizes: ArrayLike | None = None,
    ridge: ArrayLike = 0.01,
    times: ArrayLike | None = None,
    features: ArrayLike | None = None,
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
        ridge: $\lambda>0$; with `times` also 0. A list of them adds a dimension `ridge`, a list of `features` one too.
        times: early stopping: gradient flow $\dot f=-\nabla$ of the loss from $f=0$ is looked at at these times, and
            the curves have a dimension `time`. Up to 4000 rows.

    Returns:
        `train_loss` and `test_loss` along `samples`, half mean squares: means over random subsets of the rows, tested
        on the rows left out (`subset_risk`; within about 2% of training where $n$ is at least twenty or so). For
        classes `test_error`, the share of wrong answers, from the Gaussian law of the outputs. `test_loss_low` and
        `test_loss_high`: 99% interval for data of the same source, of which N rows show no more (measured: about 96%).

    Cost: `ridge` $O(Nd^2)$ per round, milliseconds per size for a thousand rows; kernels $O(N^3)$, up to 4000 rows.
    """
    began = time.perf_counter()
    asked = checked_question(X, y, model, sizes, ridge, times, features, depth, width)
    found = [_numbers(asked.data, risk) | {"settled": risk.settled} for risk in _risks(asked)]
    settled = all(point.pop("settled") for point in found)
    shape = tuple(np.size(values) for values in asked.coordinates.values())
    dataset = xr.Dataset(
        {name: (asked.dims, np.reshape([point[name] for point in found], shape)) for name in found[0]},
        asked.coordinates,
    )
    status = f"predicted from {asked.data.said}."
    if not settled:
        status = f"the effective weights did not settle: take a larger ridge than {asked.ridges[0]:g}."
    statistics = {"seconds": time.perf_counter() - began}
    return Result(dataset, asked.spec(), "theory", settled, status, statistics, citations=CITATIONS)


def training_curve(
    X: ArrayLike,
    y: ArrayLike,
    model: Model = "ridge",
    sizes: ArrayLike | None = None,
    ridge: ArrayLike = 0.01,
    times: ArrayLike | None = None,
    features: ArrayLike | None = None,
    depth: int = 3,
    width: float = 1.0,
    seeds: int | Sequence[int] = 20,
    draws: int = 1,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Result:
    """The same losses measured: for each seed, the mean over `draws` trainings, each on a random part of the rows and
    tested on the rest. Other arguments and variables as for `learning_curve`."""
    began = time.perf_counter()
    asked = checked_question(X, y, model, sizes, ridge, times, features, depth, width)
    kernel, chosen, draws = asked.kernel(), seed_list(seeds), integer("draws", draws, 1)
    measured = np.array([_trained(asked, kernel, seed, draws) for seed in progress(chosen)])
    shape = (len(chosen), *(np.size(values) for values in asked.coordinates.values()))
    names = ["train_loss", "test_loss"] + (["test_error"] if asked.data.classes else [])
    dataset = xr.Dataset(
        {name: (("seed", *asked.dims), measured[..., place].reshape(shape)) for place, name in enumerate(names)},
        {**asked.coordinates, "seed": list(chosen)},
        attrs={"d": len(asked.data.labels)},
    )
    status = f"trained on parts of {asked.data.said}."
    statistics = {"seconds": time.perf_counter() - began}
    return Result(dataset, asked.spec(), "simulation", True, status, statistics, tuple(chosen))


def _risks(asked: Question) -> Iterator[SubsetRisk]:
    """Moments of the residuals at every point of the curve."""
    kernel, labels = asked.kernel(), asked.data.labels
    inputs, rows, examples = (asked.data.inputs if kernel is None else None), None, None
    if asked.times is not None:
        rows = asked.data.inputs if kernel is None else _rows_of(kernel)
    if asked.features is not None:
        examples = asked.random_features(sobol_normals(EXAMPLES, asked.data.inputs.shape[1], 0))
    for n, ridge, features, stop in asked.points():
        if rows is not None and stop is not None:
            yield subset_flow(rows, labels, float(n), stop, ridge)
        else:
            law = None if features is None else RandomFeatures(features, examples)
            yield subset_risk(inputs, kernel, labels, float(n), n * ridge, law)


def _rows_of(kernel: Floats) -> Floats:
    """Features whose products are the kernel."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > 1e-12 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def _trained(asked: Question, kernel: Floats | None, seed: int, draws: int) -> Floats:
    """Train loss, test loss and share of wrong answers, means over draws, at every point of the curve."""
    inputs, labels = (asked.data.inputs if kernel is None else None), asked.data.labels
    most = 0 if asked.features is None else int(asked.features[-1])
    drawn = numpy_generator(seed, most, "data features") if most else None
    total = 0.0
    for order in row_orders(seed, len(labels), draws):
        if drawn is not None:
            # Fewer features are the first of the most.
            inputs = asked.random_features(drawn.standard_normal((most, asked.data.inputs.shape[1])))
        errors: list[SubsetErrors] = []
        for n, ridge, features, stop in asked.points():
            if asked.times is not None:
                # All times at once: they share a diagonalisation.
                if stop == asked.times[0]:
                    errors += subset_flow_errors(inputs, kernel, labels, order, n, asked.times, ridge)
            elif inputs is not None and features is not None:
                own = inputs[:, :features] / np.sqrt(features)
                errors.append(subset_errors(own, None, labels, order, n, n * ridge))
            else:
                errors.append(subset_errors(inputs, kernel, labels, order, n, n * ridge))
        total = total + np.array([(0.5 * error.train, 0.5 * error.test, error.wrong) for error in errors])
    return np.asarray(total) / draws


def _numbers(data: Arrays, risk: SubsetRisk) -> dict[str, float]:
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
    if data.classes:
        numbers["test_error"] = _wrong_answers(data, risk)
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
