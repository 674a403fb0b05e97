"""The index can be lost: files, runs and sweeps say what they are, and no file is deleted because nobody knows it."""

import contextlib
import errno
import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from limen.problem import InputError
from limen.result import Result
from limen.storage import FileStore
from limen.storage.index import INDEX
from limen.storage.sweep_table import find_sweep, put_sweep, stored_sweeps
from limen.storage.upkeep import collect_garbage, info, repair, verify

RUN = {"experiment": "x", "parameters": {"d": 3}, "seeds": [0], "theory": "aa", "simulations": ["bb"]}
SWEEP = {"experiment": "m:X", "fixed": {}, "grid": {"axes": [["d", [1, 2]]], "zipped": False}, "seeds": [0]}


def result(number: int) -> Result:
    data = xr.Dataset(
        {"risk": (("seed", "time"), np.full((1, 3), number / 7.0))}, {"time": np.arange(3.0), "seed": [number]}
    )
    return Result(data, {"type": "test", "x": number}, "simulation", seeds=(number,))


def key(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture
def store(tmp_path) -> FileStore:
    made = FileStore(tmp_path / "store")
    made.put({key(0): result(0)})
    made.put({key(i): result(i) for i in range(1, 6)})
    made.put_run("abcdef", RUN, "agrees")
    put_sweep(made.index, "fedcba", SWEEP, [(key(0), 0), (key(1), 1)])
    return made


def assert_whole(store: FileStore) -> None:
    found = store.get([key(i) for i in range(6)])
    assert len(found) == 6
    for i in range(6):
        xr.testing.assert_identical(found[key(i)].dataset, result(i).dataset)
        assert found[key(i)].spec == result(i).spec
    name, run = store.find_run("abc")
    assert (name, run["parameters"], run["verdict"]) == ("abcdef", {"d": 3}, "agrees")
    assert find_sweep(store.index, "fed").record["grid"] == SWEEP["grid"]


def lose_index(root: Path) -> None:
    for path in root.glob(f"{INDEX}*"):
        path.unlink()


def test_a_deleted_index_is_made_again_by_itself(store):
    lose_index(store.root)
    assert_whole(store)
    lose_index(store.root)
    assert_whole(FileStore(store.root))
    assert verify(store).files == 2


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty"])
def test_a_damaged_index_is_set_aside_and_made_again(store, damage):
    index = store.root / INDEX
    content = index.read_bytes()
    new = {"truncated": content[:5000], "garbage": random.Random(0).randbytes(len(content)), "empty": b""}[damage]
    for path in store.root.glob(f"{INDEX}-*"):
        path.unlink()
    index.write_bytes(new)
    expected = contextlib.nullcontext() if damage == "empty" else pytest.warns(UserWarning, match="was damaged")
    with expected:
        again = FileStore(store.root)
    assert_whole(again)
    assert info(again).quarantined == (0 if damage == "empty" else 1)
    collect_garbage(again)
    assert_whole(again)
    assert info(again).quarantined == 0


@pytest.mark.filterwarnings("ignore:the index of the store was damaged")
@pytest.mark.filterwarnings("ignore:a stored result was damaged")
def test_flipped_bytes_of_the_index_are_one_sentence_at_most_and_repaired(store):
    whole = (store.root / INDEX).read_bytes()
    for seed in range(12):
        content, chance = bytearray(whole), random.Random(seed)
        for _ in range(400):
            content[chance.randrange(100 if seed % 2 else 0, len(content))] ^= 1 << chance.randrange(8)
        for path in store.root.glob(f"{INDEX}*"):
            path.unlink()
        (store.root / INDEX).write_bytes(content)
        with contextlib.suppress(InputError):
            damaged = FileStore(store.root)
            for ask in (info, verify, lambda s: stored_sweeps(s.index), lambda s: s.find_run("abc"), FileStore.keys):
                with contextlib.suppress(InputError):
                    ask(damaged)
            with contextlib.suppress(InputError):
                damaged.get([key(i) for i in range(6)])
        again = FileStore(store.root)
        assert repair(again).results == 6
        assert_whole(again)


def test_two_processes_that_find_the_index_damaged_make_it_once(store):
    for path in store.root.glob(f"{INDEX}*"):
        path.unlink()
    (store.root / INDEX).write_bytes(b"not a database, but longer than a header would be" * 100)
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from limen.storage import FileStore\n"
        "print(len(FileStore(sys.argv[1]).keys()))"
    )
    ask = [sys.executable, "-c", code, str(store.root)]
    asked = [subprocess.Popen(ask, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in asked] == ["6", "6"]
    assert len(list(store.root.glob("index-*.damaged"))) == 1


def test_a_file_whose_place_in_the_index_is_unknown_is_never_deleted(store):
    hours_ago = time.time() - 7200.0
    mute = store.root / "results" / "aa" / f"{'a' * 64}.nc"
    mute.parent.mkdir(exist_ok=True)
    xr.Dataset({"x": 1.0}).to_netcdf(mute, engine="h5netcdf")
    (packed,) = store.files_of([key(1)])
    with store.index.write() as index:
        index.execute("DELETE FROM results WHERE file = ?", (packed,))
        index.execute("DELETE FROM files WHERE name = ?", (packed,))
    for path in (mute, store.path(packed)):
        os.utime(path, (hours_ago, hours_ago))
    assert collect_garbage(store, dry_run=True).unknown == 1
    removal = collect_garbage(store)
    assert (removal.files, removal.unknown) == (0, 1)
    assert mute.exists()
    assert_whole(store)


def test_what_a_newer_file_replaced_is_rubbish(store):
    (old,) = store.files_of([key(0)])
    content = store.path(old).read_bytes()
    changed = Result(result(0).dataset + 1.0, result(0).spec, "simulation", seeds=(0,))
    store.put({key(0): changed})
    # As after a death between the new entry and the removal of the old file.
    store.path(old).write_bytes(content)
    os.utime(store.path(old), (time.time() - 7200.0,) * 2)
    lose_index(store.root)
    again = FileStore(store.root)
    assert float(again.get([key(0)])[key(0)].dataset.risk[0, 0]) == 1.0
    with again.index.write() as index:
        index.execute("DELETE FROM files WHERE name = ?", (old,))
    assert collect_garbage(again).files == 1
    assert not store.path(old).exists()


def test_quarantine_may_be_somebody_elses_file(store):
    (store.root / "quarantine").write_text("mine")
    (file,) = store.files_of([key(0)])
    store.path(file).write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="damaged"):
        assert store.get([key(0)]) == {}
    assert (store.root / "quarantine").read_text() == "mine"
    assert store.path(file).with_suffix(".damaged").exists()


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="needs POSIX users")
def test_a_read_only_store_can_be_read(store):
    code = (
        "import os, sys, warnings\n"
        "from limen.storage import FileStore\n"
        "from limen.storage.upkeep import info, verify\n"
        # Python itself may be out of reach for others: whatever is imported must be there before.
        "first = FileStore(sys.argv[1]); first.get(first.keys()); verify(first)\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "store = FileStore(sys.argv[1])\n"
        "keys = store.keys(); results = store.get(keys)\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    store.put({'new': results[keys[0]]})\n"
        "    store.put({'new': results[keys[0]]})\n"
        "store.put_run('new', {})\n"
        "print(len(results), info(store).runs, len(verify(store).damaged), store.find_run('abc')[0])\n"
        "print(len(said), said[0].message)"
    )
    reachable = [store.root, *store.root.rglob("*")]
    modes = {path: path.stat().st_mode for path in reachable}
    for path in reachable:
        path.chmod(0o555 if path.is_dir() else 0o444)
    parents = [path for path in store.root.parents if path.stat().st_mode & 0o055 != 0o055]
    parent_modes = {path: path.stat().st_mode for path in parents}
    for path in parents:
        path.chmod(path.stat().st_mode | 0o055)
    try:
        ask = [sys.executable, "-c", code, str(store.root)]
        asked = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False)
    finally:
        for path, mode in {**modes, **parent_modes}.items():
            path.chmod(mode)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith("6 1 0 abcdef\n1 the store")
    assert "read-only" in asked.stdout
    assert_whole(store)


def test_a_file_that_cannot_grow_is_an_error_of_the_system_not_of_sqlite(tmp_path):
    index = FileStore(tmp_path / "store").index
    with pytest.raises(OSError, match="index") as caught, index.write():
        raise sqlite3.OperationalError("disk I/O error")
    assert caught.value.errno == errno.EIO
