"""Runs of the theory of gradient descent at finite dimension: cost against width, dimension and number of runs."""

import numpy as np
import pytest

import limen


def problem(width: int) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("z**2"),
        limen.network(width, "gelu"),
        limen.GradientDescent(1.2 * width),
        samples_per_dim=10.0,
        loss="huber:1",
    )


@pytest.mark.parametrize(
    ("width", "d", "seeds"), [(1, 320, 32), (1, 320, 4), (1, 10**5, 32), (3, 320, 8)], ids=lambda value: str(value)
)
def test_runs_side_by_side(benchmark, width, d, seeds):
    """50 steps on 4096 paths; at most a quarter of a second per run of one neuron when 32 go together."""
    options = {"d": d, "seeds": seeds, "paths": 4096}
    limen.predict(problem(width), 2, **options)
    found = benchmark.pedantic(lambda: limen.predict(problem(width), 50, **options), rounds=2)
    assert np.isfinite(found.dataset.train_loss.values).all()
