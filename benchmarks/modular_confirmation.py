"""Random waves that add modulo p, at moduli and widths nobody chose: `python benchmarks/modular_confirmation.py SEED`.

The widths, draws and formula of `modular-addition` were settled while its verdicts were in view. This asks the same
question once more where nothing was looked at: six odd primes from 11 to 61 and for each four widths between 16 and 64,
the range of the experiment, drawn from SEED; seeds of the networks from 5000 on. For each prime the verdict of the
comparison, its deviation and its band, then the same with a planted error, waves 1.3 times as many.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import xarray as xr

from limen.comparison import compare
from limen.method import answered
from limen.result import Findings, Result, merge
from limen.simulation.descent.modular_training import random_waves_accuracy
from limen.theory.descent.modular_addition import random_solution_accuracy

PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
FIRST_SEED, SEEDS, NETWORKS = 5000, 48, 48
PLANTED = 1.3


def predicted(p: int, widths: np.ndarray, factor: float = 1.0) -> Findings:
    """The accuracy of the theory, with its own error, at `factor` times the widths."""
    values, errors = np.array([random_solution_accuracy(p, round(factor * n)) for n in widths]).T
    variables = {
        "random_accuracy": (("width",), values, {"error": "random_accuracy_spread", "error_part": 1.0}),
        "random_accuracy_spread": (("width",), errors),
    }
    return Findings(xr.Dataset(variables, coords={"width": widths}))


def drawn(p: int, widths: np.ndarray, seed: int) -> Findings:
    """The accuracy of drawn networks."""
    values = [random_waves_accuracy(p, int(n), seed, NETWORKS) for n in widths]
    dataset = xr.Dataset(
        {"random_accuracy": (("seed", "width"), np.array([values]))},
        coords={"seed": [seed], "width": widths},
        attrs={"d": p},
    )
    return Findings(dataset)


def result(find: Callable[[], Findings], p: int, widths: np.ndarray, seeds: tuple[int, ...] = ()) -> Result:
    """Findings with what they are of."""
    spec = {"modulus": p, "widths": widths.tolist()}
    return answered(find, spec, "simulation" if seeds else "theory", "modular-addition", (), seeds)


def main(seed: int) -> None:
    """Two lines and a table for each of six primes."""
    random = np.random.default_rng(seed)
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS)
    for p in sorted(int(q) for q in random.choice(PRIMES, 6, replace=False)):
        widths = np.unique(np.exp(random.uniform(np.log(16), np.log(64), 4)).round().astype(int))
        runs = merge([result(partial(drawn, p, widths, one), p, widths, (one,)) for one in seeds])
        right = result(partial(predicted, p, widths), p, widths)
        wrong = replace(right, dataset=predicted(p, widths, PLANTED).dataset)
        found, planted = (compare(one, runs, ("random_accuracy",)) for one in (right, wrong))
        means = runs.dataset.random_accuracy.mean("seed").values.round(3)
        print(f"p = {p}, N = {widths.tolist()}: theory {right.dataset.random_accuracy.values.round(3)}, drawn {means}")
        print(f"  {found.verdict}; planted {planted.verdict}\n  {found}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
