"""Results: saved as one netCDF that anybody can open, read back the same, merged seed by seed."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import limen
from limen.method import Method, answers
from limen.result import Findings, Result, merge


def result(seed: int = 0, ok: bool = True) -> Result:
    data = xr.Dataset(
        {"risk": (("seed", "time"), np.full((1, 3), float(seed)))}, {"time": [0.0, 1.0, 2.0], "seed": [seed]}
    )
    status = "fine." if ok else "diverged."
    return Result(
        data,
        {"type": "test", "nested": [1, None]},
        "simulation",
        ok,
        status,
        {"steps": 1.0},
        (seed,),
        ("saad1995",),
        "a-method",
        {"d": 3},
        1.0,
    )


def test_a_saved_result_comes_back_whole(tmp_path):
    path = result().save(tmp_path / "one.nc")
    back = limen.load(path)
    xr.testing.assert_identical(back.dataset, result().dataset)
    for name in ("spec", "kind", "ok", "status", "statistics", "seeds", "citations", "versions"):
        assert getattr(back, name) == getattr(result(), name)
    with xr.open_dataset(path) as opened:
        assert opened.risk.dims == ("seed", "time")
    beside = tmp_path.parent / "plain"
    beside.write_text("")
    assert path.stat().st_mode == beside.stat().st_mode, "readable by whom any file of this user is"
    assert [file.name for file in tmp_path.iterdir()] == ["one.nc"], "no temporary file is left"


def test_merging_seeds():
    merged = merge([result(0), result(1, ok=False), result(2)])
    assert merged.seeds == (0, 1, 2)
    assert merged.dataset.risk.values[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert (merged.ok, merged.status) == (False, "1 of 3 seeds: diverged.")
    assert merged.seconds == 3.0
    assert "3 seeds: NOT OK, 1 of 3 seeds: diverged." in repr(merged)


def test_unreadable_files_are_one_sentence(tmp_path):
    with pytest.raises(limen.InputError, match="there is no result"):
        limen.load(tmp_path / "missing.nc")
    (tmp_path / "bad.nc").write_bytes(b"not netcdf")
    with pytest.raises(limen.InputError, match="not a readable limen result"):
        limen.load(tmp_path / "bad.nc")


def test_a_value_that_is_not_finite_is_never_exact():
    @answers("theory")
    def law(value, meaning=None):
        marked = {} if meaning is None else {"undefined": meaning}
        data = xr.Dataset({"risk": (("time", "neuron"), [[1.0, 2.0], [3.0, value]], marked)}, {"time": [0.0, 0.5]})
        return Findings(data, True, "exact.")

    assert law(4.0).ok
    for value in (np.nan, np.inf, -np.inf):
        found = law(value)
        assert not found.ok
        assert found.status == "risk is not finite at time 0.5, neuron 1; elsewhere: exact."
    assert law(np.inf, "never reached").ok

    def solve(problem, times, d, seed):
        data = xr.Dataset({"loss": (("seed", "time"), [[np.nan] * times.size])}, {"time": times, "seed": [seed]})
        return Findings(data, True, "trained.")

    broken = Method("broken", "simulation", (), lambda problem: None, solve)
    many = replace(broken, solve_seeds=lambda problem, times, d, seeds: [solve(problem, times, d, s) for s in seeds])
    for method in (broken, many):
        run = limen.simulate(limen.Ridge(ratio=0.5), [1.0], d=5, seeds=2, simulator=method)
        assert not run.ok
        assert run.status.startswith("loss is not finite at seed 0, time 1")
