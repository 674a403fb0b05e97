"""The same tests for the store in memory and the store on disk; and what only a disk can do wrong."""

import errno
import json
import os
import sqlite3
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from limen.problem import InputError
from limen.result import Result
from limen.storage import FileStore, MemoryStore, address
from limen.storage.address import spec_of
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


@pytest.mark.parametrize("part", ["source_digest", "_version"])
def test_other_code_has_other_addresses(monkeypatch, part):
    before = key(0)
    # By its module: the package has a function of the same name.
    monkeypatch.setattr(sys.modules["limen.storage.address"], part, lambda *of: "another")
    assert key(0) != before


def test_the_source_of_an_experiment_from_elsewhere_is_part_of_its_address(tmp_path, monkeypatch):
    specs = []
    for text in ("first", "second"):
        module = types.ModuleType(f"elsewhere_{text}")
        module.__file__ = str(tmp_path / f"{text}.py")
        (tmp_path / f"{text}.py").write_text(text)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        kind = type("Elsewhere", (), {"__module__": module.__name__, "describe": lambda self: {"type": "elsewhere"}})
        specs.append(spec_of(kind()))
    assert specs[0]["source"] and specs[1]["source"] and specs[0]["source"] != specs[1]["source"]


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


FULL = """
import json, resource, sys
import numpy as np, xarray as xr
from limen.result import Result
from limen.storage import FileStore

def result(numbers):
    data = xr.Dataset({"risk": ("time", np.random.default_rng(numbers).standard_normal(numbers))})
    return Result(data, {"type": "test"}, "theory")

store, told = FileStore(sys.argv[1]), {}
store.put({"before": result(10)})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for name, act in (
    ("put", lambda: store.put({"large": result(100_000)})),
    ("save", lambda: result(100_000).save(sys.argv[1] + "/saved.nc")),
    ("after", lambda: store.put({"after": result(20)})),
):
    try:
        act()
    except OSError as error:
        told[name] = error.errno
told["kept"] = {name: found.dataset.risk.size for name, found in store.get(["before", "large", "after"]).items()}
print(json.dumps(told))
"""


def test_a_write_that_the_disk_cuts_short_leaves_nothing_and_the_process_goes_on(tmp_path):
    """A real one, in a child: files may not grow beyond 100 kB, and the write fails in the middle."""
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60.0)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told == {"put": errno.EFBIG, "save": errno.EFBIG, "kept": {"before": 10, "after": 20}}
    assert len(list(tmp_path.rglob("*.nc"))) == 2
    assert not list(tmp_path.rglob(".limen-*"))


def test_a_file_is_flushed_before_it_takes_its_name_and_indexed_after(tmp_path, monkeypatch):
    store, order = FileStore(tmp_path), []
    flush, rename = os.fsync, os.replace

    def noted_flush(descriptor):
        order.append("flush")
        flush(descriptor)

    def noted_rename(here, there):
        assert Path(here).stat().st_size > 1000, "all of it is there"
        order.append("rename")
        rename(here, there)
        assert store.keys() == []

    monkeypatch.setattr(os, "fsync", noted_flush)
    monkeypatch.setattr(os, "replace", noted_rename)
    store.put({key(0): result(0)})
    assert order == ["flush", "rename", "flush"], "the file, its name, the folder"
    with store.index.write() as index:
        assert index.execute("PRAGMA synchronous").fetchone() == (2,), "on disk when it ends"


def test_more_results_than_one_statement_takes(tmp_path, monkeypatch):
    monkeypatch.setattr("limen.storage.index.VALUES_AT_ONCE", 3)
    store = FileStore(tmp_path)
    many = {key(seed): result(seed) for seed in range(8)}
    store.put(many)
    assert store.has(many) == set(many) == set(store.get(many))
    with store.index.write() as index:
        index.executemany("INSERT INTO failures VALUES (?, 'why', 0)", [(name,) for name in many])
        index.executemany("INSERT INTO claims VALUES (?, 'who')", [(name,) for name in many])
    store.put(many)
    with store.index.read() as index:
        for table in ("failures", "claims"):
            assert index.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), "what is stored has neither"


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
