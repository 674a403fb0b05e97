"""Escape times of the theory at finite d against trainings: `python benchmarks/escape_probability.py 1280 200`.

Prints for each case the part that has escaped at four times, quartiles of the escape time and the Kolmogorov-Smirnov
distance of the two laws, with those of planted errors: the fluctuation of the sample left out, √2 times as large, and a
step a tenth too long. About ten minutes a case at d = 1280 on one core.
"""

import sys
from collections.abc import Callable
from unittest import mock

import numpy as np
from scipy.stats import ks_2samp

import limen
from limen.link import hard_subspace
from limen.problem import GradientDescent, TwoLayer
from limen.simulation.descent.trained_weights import trained_weights
from limen.theory.descent import escape, finite_dimension

TIMES = np.arange(0.0, 41.0)


def posed(target: str, width: int, activation: str, step: float, samples_per_dim: float, **rule: float) -> TwoLayer:
    """A network with a hard target, Huber loss, random start."""
    return TwoLayer(
        limen.target(target),
        limen.network(width, activation),
        GradientDescent(step, **rule),
        samples_per_dim=samples_per_dim,
        loss="huber:1",
    )


CASES = {
    "gelu on z²": posed("z**2", 1, "gelu", 1.2, 10.0),
    "width 3 on z²": posed("z**2", 3, "gelu", 3.6, 10.0),
    "width 2 on z1 z2": posed("z1*z2", 2, "gelu", 2.4, 12.0),
    "relu on z²": posed("z**2", 1, "relu", 1.0, 8.0),
}


def trained_escapes(problem: TwoLayer, d: int, seeds: range) -> np.ndarray:
    """Escape times of trainings, infinite where there is none."""
    hard, cosines = hard_subspace(problem.target).basis, []
    for seed in seeds:
        run = trained_weights(problem, TIMES, d, seed)
        along = np.linalg.norm(run.first_layer @ run.directions.T @ hard, axis=-1)
        cosines.append((along / np.linalg.norm(run.first_layer, axis=-1)).max(axis=-1))
    return escape.first_passage(TIMES, np.array(cosines))


def predicted_escapes(problem: TwoLayer, d: int, rows: int, luck: float = 1.0) -> np.ndarray:
    """Escape times of runs of the theory, the fluctuation of the sample multiplied by `luck`."""
    right: Callable[..., finite_dimension.Runs] = finite_dimension.conditioned_pass

    def scaled(problem, points, start, steps, sampling, pinned):
        if sampling.luck is not None:
            sampling = sampling._replace(luck=np.float32(luck) * sampling.luck)
        return right(problem, points, start, steps, sampling, pinned)

    with mock.patch.object(finite_dimension, "conditioned_pass", scaled):
        return escape.escaping_runs(problem, TIMES, d, range(10_000, 10_000 + rows), 2048, 0).dataset.escape_time.values


def longer_step(problem: TwoLayer, factor: float) -> TwoLayer:
    """The problem with another step."""
    algorithm = problem.algorithm
    assert isinstance(algorithm, GradientDescent) and isinstance(algorithm.step, float)
    return problem.model_copy(update={"algorithm": GradientDescent(factor * algorithm.step)})


def distance(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Kolmogorov-Smirnov distance of two samples of escape times, and its p-value."""
    finite = [np.where(np.isfinite(part), part, 1e6) for part in (first, second)]
    found = ks_2samp(*finite)
    return float(found.statistic), float(found.pvalue)


def main(d: int, count: int) -> None:
    """All cases at one dimension."""
    for name, problem in CASES.items():
        trained = trained_escapes(problem, d, range(count))
        theories = {
            "theory": predicted_escapes(problem, d, 2 * count),
            "no fluctuation": predicted_escapes(problem, d, count, 0.0),
            "fluctuation √2": predicted_escapes(problem, d, count, 2.0**0.5),
            "step x 1.1": predicted_escapes(longer_step(problem, 1.1), d, count),
        }
        print(f"{name}, d = {d}, {count} trainings")
        for who, times in {"training": trained, **theories}.items():
            parts = [(times <= t).mean() for t in (10, 20, 30, 40)]
            quartiles = np.quantile(times, (0.25, 0.5, 0.75), method="nearest")
            apart = "" if who == "training" else "KS {:.3f}, p {:.1e}".format(*distance(trained, times))
            print(f"  {who:16s}", *(f"{part:.3f}" for part in parts), quartiles, apart, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
