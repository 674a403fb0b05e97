"""One experiment at several sizes, compared together."""

import pytest

from limen.experiments.registry import experiment_class
from limen.problem import InputError
from limen.storage import MemoryStore, run, run_sizes


def test_sizes_are_run_one_by_one_and_compared_together():
    experiment, store = experiment_class("marchenko-pastur")(), MemoryStore()
    small, large = run_sizes(experiment, [80, 40], range(6), store)
    assert (small.experiment.d, large.experiment.d) == (40, 80)
    assert small.comparison.sizes == (40,)
    assert large.comparison.sizes == (40, 80)
    alone = run(large.experiment, range(6), store)
    assert alone.identifier == large.identifier
    for name in ("distribution", "edge_eigenvalue"):
        assert (large.comparison[name].measured.deviation == alone.comparison[name].measured.deviation).all()


def test_bad_sizes_are_refused():
    experiment = experiment_class("marchenko-pastur")()
    with pytest.raises(InputError, match="at least two different ones, got 40, 40"):
        run_sizes(experiment, [40, 40], range(6), MemoryStore())
    with pytest.raises(InputError, match="at least one seed"):
        run_sizes(experiment, [40, 80], (), MemoryStore())
    with pytest.raises(InputError, match="other points at size"):
        run_sizes(experiment_class("perceptron")(), [4, 6], range(5), MemoryStore())
