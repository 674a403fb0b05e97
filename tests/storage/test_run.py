"""Running an experiment: what is stored is not computed again, and an interruption loses nothing finished."""

from typing import ClassVar

import numpy as np
import pytest
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.result import Findings
from limen.storage import FileStore, MemoryStore, run

CALLS: list[object] = []


class Counting(Experiment):
    """A stand-in that remembers what was asked of it."""

    name: ClassVar[str] = "counting"
    d: int = Field(10, description="size")

    def predict(self, seeds=()):
        CALLS.append("theory")
        return Findings(xr.Dataset({"risk": ("time", np.zeros(3))}, {"time": np.arange(3.0)}))

    def train(self, seed):
        if seed == 99:
            raise KeyboardInterrupt
        CALLS.append(seed)
        values = np.random.default_rng(seed).standard_normal((1, 3))
        data = xr.Dataset({"risk": (("seed", "time"), values)}, {"time": np.arange(3.0), "seed": [seed]}, {"d": self.d})
        return Findings(data)

    def headline(self, theory, simulation=None):
        return {"theory": {}}


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    CALLS.clear()
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path)


def test_the_second_run_computes_nothing(store):
    first = run(Counting(), range(6), store)
    assert sorted(map(str, CALLS)) == sorted(["theory", *map(str, range(6))])
    CALLS.clear()
    second = run(Counting(), range(6), store)
    assert CALLS == []
    assert second.identifier == first.identifier
    xr.testing.assert_identical(first.simulation.dataset, second.simulation.dataset)
    run(Counting(), range(8), store)
    assert sorted(CALLS) == [6, 7], "only what is missing is computed"
    CALLS.clear()
    run(Counting(), range(6), store, fresh=True)
    assert len(CALLS) == 7
    run(Counting(d=11), range(1), store)
    assert CALLS[-2:] == ["theory", 0], "other parameters are another result"


def test_an_interruption_keeps_what_is_finished(store):
    with pytest.raises(KeyboardInterrupt):
        run(Counting(), [0, 1, 2, 99], store, workers=1)
    assert sorted(map(str, CALLS)) == ["0", "1", "2", "theory"]
    CALLS.clear()
    run(Counting(), [0, 1, 2], store)
    assert CALLS == []


def test_theory_alone(store):
    alone = run(Counting(), [], store)
    assert (alone.simulation, alone.comparison) == (None, None)
    assert CALLS == ["theory"]


class Paired(Counting):
    """Its theory starts from the seeds it is given."""

    name: ClassVar[str] = "paired"
    paired: ClassVar[bool] = True

    def predict(self, seeds=()):
        CALLS.append(tuple(seeds))
        data = xr.Dataset({"risk": (("seed", "time"), np.ones((len(seeds), 3)) * np.array(seeds)[:, None])})
        data = data.assign_coords(time=np.arange(3.0), seed=list(seeds))
        return Findings(data)


def test_a_paired_theory_belongs_to_its_seeds(store):
    few, more = run(Paired(), [1, 2], store), run(Paired(), [1, 2, 3], store)
    assert [call for call in CALLS if isinstance(call, tuple)] == [(1, 2), (1, 2, 3)]
    assert (few.theory.dataset.sizes["seed"], more.theory.dataset.sizes["seed"]) == (2, 3)
    CALLS.clear()
    assert run(Paired(), [1, 2], store).theory.dataset.sizes["seed"] == 2
    assert CALLS == []


def test_runs_with_other_seeds_have_other_names_and_seeds_keep_their_order(store):
    runs = [run(Counting(), seeds, store) for seeds in ([], [5], [5, 2], [2, 5])]
    assert len({found.identifier for found in runs}) == 4
    assert runs[2].simulation.seeds == (5, 2)
    np.testing.assert_array_equal(runs[2].simulation.dataset.risk.sel(seed=5), runs[1].simulation.dataset.risk[0])
