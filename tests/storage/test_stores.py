"""The same tests for the store in memory and the store on disk; and what only a disk can do wrong."""

import sqlite3
import threading

import numpy as np
import pytest
import xarray as xr

from limen.problem import InputError
from limen.result import Result
from limen.storage import FileStore, MemoryStore, address
from limen.storage.index import INDEX


def result(seed: int, ok: bool = True, value: float = 1.0) -> Result:
    data = xr.Dataset(
        {"risk": (("seed", "time"), np.full((1, 4), value + seed))}, {"time": np.arange(4.0), "seed": [seed]}
    )
    return Result(data, {"type": "test"}, "simulation", ok, "ok." if ok else "diverged.", {"seconds": 0.1}, (seed,))


def key(seed: int) -> str:
    return address({"type": "test"}, "simulation", (seed,))


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path)


def test_what_is_put_is_got(store):
    store.put({key(seed): result(seed) for seed in range(5)})
    assert store.keys() == sorted(key(seed) for seed in range(5))
    found = store.get([key(3), key(9)])
    assert list(found) == [key(3)]
    xr.testing.assert_identical(found[key(3)].dataset, result(3).dataset)
    assert found[key(3)].seeds == (3,)


def test_a_failed_seed_does_not_taint_its_neighbours(store):
    store.put({key(0): result(0), key(1): result(1, ok=False)})
    found = store.get([key(0), key(1)])
    assert (found[key(0)].ok, found[key(1)].ok) == (True, False)


def test_theory_without_seeds(store):
    data = xr.Dataset({"risk": ("time", np.ones(3))}, {"time": np.arange(3.0)})
    store.put({"ab12": Result(data, {"type": "test"}, "theory")})
    xr.testing.assert_identical(store.get(["ab12"])["ab12"].dataset, data)


def test_a_later_put_replaces(store):
    store.put({key(0): result(0)})
    store.put({key(0): result(0, value=5.0)})
    assert store.get([key(0)])[key(0)].dataset.risk.values[0, 0] == 5.0


def test_addresses_depend_on_everything():
    spec = {"type": "test", "rate": 0.1}
    addresses = {
        address(spec, "theory", ()),
        address(spec, "simulation", ()),
        address(spec, "simulation", (1,)),
        address({**spec, "rate": 0.2}, "theory", ()),
    }
    assert len(addresses) == 4
    assert address({"rate": 0.1, "type": "test"}, "theory", ()) in addresses, "the order of fields does not matter"


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_file_is_reported_and_never_used(tmp_path, damage):
    store = FileStore(tmp_path)
    store.put({key(seed): result(seed) for seed in range(3)})
    (path,) = (tmp_path / "results").rglob("*.nc")
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
        assert store.get([key(1)]) == {}
    else:
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content[: len(content) // 3] if damage == "truncated" else content)
        with pytest.warns(UserWarning, match="damaged"):
            assert store.get([key(1)]) == {}
        assert len(list((tmp_path / "quarantine").iterdir())) == 1
    assert store.get([key(0), key(1), key(2)]) == {}
    store.put({key(1): result(1)})
    assert key(1) in store.get([key(1)])


def test_nothing_is_indexed_before_it_is_written(tmp_path, monkeypatch):
    store = FileStore(tmp_path)

    def full_disk(self, path, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", full_disk)
    with pytest.raises(OSError, match="No space"):
        store.put({key(0): result(0)})
    assert store.keys() == []
    assert not list(tmp_path.rglob("*.nc"))


def test_several_writers(tmp_path):
    def work(first: int) -> None:
        store = FileStore(tmp_path)
        for seed in range(first, first + 8):
            store.put({key(seed): result(seed)})

    threads = [threading.Thread(target=work, args=(8 * i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(FileStore(tmp_path).get([key(seed) for seed in range(24)])) == 24


def test_a_store_that_cannot_be_used_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        FileStore(tmp_path / "file")
    (tmp_path / INDEX).write_bytes(b"not a database, but longer than a header would be" * 10)
    with pytest.raises(InputError, match="cannot be used"):
        FileStore(tmp_path)


def test_runs_are_found_by_their_beginning(tmp_path):
    store = FileStore(tmp_path)
    run = {"experiment": "x", "parameters": {"d": 3}, "seeds": [0], "theory": "aa", "simulations": ["bb"]}
    store.put_run("abcdef", run)
    name, found = store.find_run("abc")
    assert name == "abcdef"
    assert {part: found[part] for part in run} == run
    with pytest.raises(InputError, match="no stored run"):
        store.find_run("zzz")
    with sqlite3.connect(tmp_path / INDEX) as index:
        assert index.execute("PRAGMA journal_mode").fetchone() == ("wal",)
