"""Does SGD succeed as often as gradient flow at p = k = 8? `python benchmarks/zero_risk.py D SEEDS [PART] [END]`.

Fresh starts (seeds from 1000 on), as many students as ReLU teachers, no spare ones. Prints how often flow and SGD reach
zero risk from the same starts, their binomial errors, how many pairs end differently, and by McNemar's exact test
whether one is the likelier to succeed. PART multiplies the rate of the experiment; END is the last time of SGD, 8000 by
default: at the 2000 of the experiment some runs are still falling. About ten minutes for 64 seeds at d = 48.
"""

import sys

import numpy as np
from scipy.stats import binomtest

from limen.experiments.one_pass.overparametrized_committee import OverparametrizedCommittee
from limen.problem import OnePassSGD, TwoLayer

FIRST_SEED = 1000
EARLY = 2000.0


class Slower(OverparametrizedCommittee):
    """The experiment with a part of its rate."""

    part: float = 1.0

    def problem(self, width: int) -> TwoLayer:
        """The learning problem with the smaller rate."""
        rate = f"{self.part * width}*min(0.01 + 0.001*t, 1)"
        return super().problem(width).model_copy(update={"algorithm": OnePassSGD(rate=rate)})


def main(d: int, count: int, part: float = 1.0, end: float = 8000.0) -> None:
    """One line of the table."""
    posed = Slower(ratios=(1.0,), d=d, horizon=end, part=part)
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + count))
    theory = posed.predict(seeds)
    flow = theory.dataset.reached.values[:, 0] > 0.5
    rows = []
    for seed, reached in zip(seeds, flow, strict=True):
        rows.append(posed.train(seed).dataset.excess_risk.values[0, 0])
        print(
            f"  start {seed}: flow {int(reached)}, SGD {int(rows[-1][-1] < posed.tolerance * rows[-1][0])}", flush=True
        )
    risks = np.stack(rows)
    sgd = risks[:, -1] < posed.tolerance * risks[:, 0]
    early = int(np.searchsorted(posed.times(), min(EARLY, end), side="right")) - 1
    soon = risks[:, early] < posed.tolerance * risks[:, 0]
    only_flow, only_sgd = int((flow & ~sgd).sum()), int((sgd & ~flow).sum())
    different = only_flow + only_sgd
    chance = binomtest(only_flow, different).pvalue if different else 1.0
    error = np.sqrt(max(flow.mean() * (1.0 - flow.mean()), 0.25 / count) / count)
    print(f"d = {d}, {count} starts, rate x {part:g}, SGD to t = {end:g}: {theory.status}")
    print(f"  flow {flow.sum()}, SGD {sgd.sum()} ({soon.sum()} by t = {posed.times()[early]:.0f}); +- {error:.3f}")
    print(f"  only flow {only_flow}, only SGD {only_sgd}: p = {chance:.2g}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *(float(word) for word in sys.argv[3:]))
