"""The theory of gradient descent: processor time against width, dimension and number of runs.

Times are of one process on one thread; `make bench` sets the threads. Ratios hold on a busy machine too.
"""

import time
from collections.abc import Callable

import numpy as np

import limen


def hard(width: int) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("z**2"),
        limen.network(width, "gelu"),
        limen.GradientDescent(1.2 * width),
        samples_per_dim=10.0,
        loss="huber:1",
    )


def equal(width: int) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("tanh(2*z) + 0.4*(z**2 - 1)", noise=0.1),
        limen.network(width, "tanh", 2.0),
        limen.GradientDescent(0.4 * width),
        samples_per_dim=2.0,
    )


def processor_time(run: Callable[[], limen.Result]) -> float:
    """Seconds of one call."""
    began = time.process_time()
    found = run()
    assert np.isfinite(found.dataset.train_loss.values).all()
    return time.process_time() - began


def test_runs_side_by_side():
    """50 steps on 4096 paths: at most a quarter of a second per run of one neuron when 32 go together, whatever the
    dimension, and no more when fewer go; several neurons cost no more than the square of their number."""
    cases = {(1, 320, 32), (1, 320, 4), (1, 320, 64), (1, 10**5, 32), (3, 320, 8), (6, 320, 4)}
    seconds = {}
    for width, d, seeds in sorted(cases):
        options = {"d": d, "seeds": seeds, "paths": 4096}
        limen.predict(hard(width), 2, **options)
        taken = processor_time(lambda width=width, options=options: limen.predict(hard(width), 50, **options))
        seconds[width, d, seeds] = taken / seeds
        print(f"width {width}, d = {d}, {seeds} runs: {taken / seeds:.3f} s a run")
    one = seconds[1, 320, 32]
    assert one <= 0.25
    assert seconds[1, 10**5, 32] <= 1.5 * one and seconds[1, 320, 64] <= 1.5 * one
    assert seconds[3, 320, 8] <= 1.5 * 9 * one and seconds[6, 320, 4] <= 1.5 * 36 * one


def test_wide_networks_cost_what_ten_neurons_do():
    """16 steps at default paths: a hundred, a thousand and (nearly) infinitely many neurons in three times that."""
    seconds = {}
    for width in (10, 100, 1000, 10**6):
        limen.predict(equal(width), [1], theory="equal-neurons")
        seconds[width] = processor_time(lambda width=width: limen.predict(equal(width), [16], theory="equal-neurons"))
        print(f"width {width}: {seconds[width]:.2f} s, {seconds[width] / seconds[10]:.2f} times that of 10")
    assert max(seconds[width] for width in (100, 1000, 10**6)) <= 3.0 * seconds[10]
