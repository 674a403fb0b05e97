"""A healthy store: results packed and found again exactly, damage found, rubbish removed, claims of the dead void."""

import os
import time

import numpy as np
import pytest
import xarray as xr

from limen.result import Result
from limen.storage import FileStore
from limen.storage.claims import SILENCE, WATCHED, Claims, living_drivers
from limen.storage.pack import pack, signature, unpack
from limen.storage.upkeep import collect_garbage, info, verify


def result(number: int, times: float = 1.0, ok: bool = True) -> Result:
    data = xr.Dataset(
        {"risk": (("seed", "time"), np.full((1, 3), number / 7.0)), "flag": ("time", [True, False, True])},
        {"time": times * np.arange(3.0), "seed": [number], "name": ("neuron", ["a", "bc"])},
        {"d": 10 * number, "rate": 0.1},
    )
    return Result(
        data, {"type": "test", "x": number}, "simulation", ok, f"{number}.", {"seconds": 0.1 * number}, (number,)
    )


def key(number: int) -> str:
    return f"{number:064x}"


def test_packed_results_come_back_exactly(tmp_path):
    store = FileStore(tmp_path)
    results = {key(i): result(i, times=1.0 + i % 2, ok=i != 3) for i in range(6)}
    store.put(results)
    assert len(list((tmp_path / "results").rglob("*.nc"))) == 1, "one file for one shape"
    for name, found in store.get(results).items():
        expected = results[name]
        xr.testing.assert_identical(found.dataset, expected.dataset)
        for field in ("spec", "kind", "ok", "status", "statistics", "seeds", "citations", "versions"):
            assert getattr(found, field) == getattr(expected, field)


def test_results_of_different_shape_are_not_packed_together():
    one, other = result(1), result(2)
    assert signature(one) == signature(other)
    longer = Result(other.dataset.isel(time=slice(2)), other.spec, "simulation", seeds=(2,))
    assert signature(longer) != signature(one)
    at = unpack(pack([one, other]))
    assert at(1).dataset.attrs == other.dataset.attrs


def test_replaced_files_are_removed(tmp_path):
    store = FileStore(tmp_path)
    store.put({key(1): result(1), key(2): result(2)})
    store.put({key(1): result(1, times=2.0)})
    assert len(list((tmp_path / "results").rglob("*.nc"))) == 2
    store.put({key(2): result(2, times=2.0)})
    assert len(list((tmp_path / "results").rglob("*.nc"))) == 2, "the first file has no result left"
    assert verify(store).damaged == ()


@pytest.mark.filterwarnings("ignore:a stored result was damaged")
def test_verification_finds_damage(tmp_path):
    store = FileStore(tmp_path)
    store.put({key(1): result(1), key(2): result(2)})
    store.put({key(3): result(3)})
    file = store.files_of([key(1)])[0]
    store.path(file).write_bytes(store.path(file).read_bytes()[:-1])
    found = verify(store)
    assert (found.files, found.lost_results, found.damaged) == (2, 2, (file,))
    assert store.keys() == [key(3)]
    assert (info(store).quarantined, info(store).results) == (1, 1)
    assert verify(store).damaged == ()


def test_rubbish_is_removed_and_nothing_else(tmp_path):
    store = FileStore(tmp_path)
    store.put({key(1): result(1)})
    store.put({key(2): result(2)})
    outdated = store.files_of([key(2)])[0]
    with store.index.write() as index:
        index.execute("UPDATE files SET sources = 'older' WHERE name = ?", (outdated,))
    old, new = (tmp_path / "results" / f".limen-{name}.nc" for name in ("old", "new"))
    for stray in (old, new):
        stray.write_text("half a file")
    hours_ago = time.time() - 7200.0
    os.utime(old, (hours_ago, hours_ago))
    assert info(store).outdated == 1
    planned = collect_garbage(store, dry_run=True)
    assert store.keys() == [key(1), key(2)]
    assert collect_garbage(store, keep_outdated=True).results == 0
    assert store.keys() == [key(1), key(2)]
    done = collect_garbage(store)
    assert (planned.results, planned.files, done.results, done.files) == (1, 2, 1, 1)
    assert store.keys() == [key(1)]
    assert new.exists() and not old.exists()
    assert verify(store).damaged == ()


def test_claims_keep_others_out_until_their_owner_is_gone(tmp_path):
    index = FileStore(tmp_path).index
    with Claims(index) as first, Claims(index) as second:
        assert first.take(["a", "b"]) == ({"a", "b"}, set(), set())
        assert second.take(["b", "c"]) == ({"c"}, set(), {"b"})
        first.release(["b"])
        assert second.take(["b"]) == ({"b"}, set(), set())
        # A driver that was killed: its process number belongs to nobody.
        with index.write() as connection:
            connection.execute("UPDATE drivers SET pid = ? WHERE owner = ?", (2**22 + 1, first.owner))
        assert second.take(["a"]) == ({"a"}, set(), set())
    with index.read() as connection:
        assert connection.execute("SELECT count(*) FROM claims").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM drivers").fetchone() == (0,)


@pytest.mark.parametrize("shift", [0.0, -1e6, 1e6])
def test_a_driver_elsewhere_is_judged_by_its_silence_whatever_its_clock_says(tmp_path, monkeypatch, shift):
    index = FileStore(tmp_path).index
    clock = [1000.0]
    monkeypatch.setattr("limen.storage.claims.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("limen.storage.claims.time.time", lambda: 1e9 + clock[0])

    def beat_of_far():
        with index.write() as connection:
            # No process of this number runs here, but that says nothing of another machine.
            row = ("elsewhere", 2**22 + 1, 1e9 + clock[0] + shift, far.owner)
            connection.execute("UPDATE drivers SET host = ?, pid = ?, beat = ? WHERE owner = ?", row)

    with Claims(index) as mine, Claims(index) as far:
        far.take(["a"])
        beat_of_far()
        assert living_drivers(index) == (2 if shift == 0.0 else 1)
        for _ in range(20):
            clock[0] += 3.0
            beat_of_far()
            assert mine.take(["a"]) == (set(), set(), {"a"}), "whoever beats lives"
        clock[0] += SILENCE - 1.0
        assert mine.take(["a"]) == (set(), set(), {"a"})
        mine.release(["a"])
        assert held(index) == {"a": far.owner}, "nobody gives back what another holds"
        clock[0] += 1.0
        assert mine.take(["a"]) == ({"a"}, set(), set()), "silent for too long"


@pytest.mark.parametrize("shift", [-1e6, 1e6])
def test_a_dead_driver_whose_clock_was_wrong_blocks_nobody_for_long(tmp_path, monkeypatch, shift):
    index = FileStore(tmp_path).index
    clock = [1000.0]
    monkeypatch.setattr("limen.storage.claims.time.monotonic", lambda: clock[0])
    with index.write() as connection:
        connection.execute("INSERT INTO drivers VALUES ('far', 'elsewhere', 7, ?)", (time.time() + shift,))
        connection.execute("INSERT INTO claims VALUES ('a', 'far')")
    with Claims(index) as mine:
        assert mine.take(["a"]) == (set(), set(), {"a"})
        clock[0] += WATCHED
        assert mine.take(["a"]) == ({"a"}, set(), set())
    collect_garbage(FileStore(tmp_path))
    with index.read() as connection:
        assert connection.execute("SELECT count(*) FROM drivers").fetchone() == (0,)


def held(index) -> dict[str, str]:
    with index.read() as connection:
        return dict(connection.execute("SELECT key, owner FROM claims"))


def test_garbage_is_weighed_and_the_claims_and_failures_of_nobody_go(tmp_path):
    store = FileStore(tmp_path)
    store.put({key(1): result(1)})
    store.put({key(2): result(2)})
    kept, outdated = (store.path(store.files_of([key(number)])[0]).stat().st_size for number in (1, 2))
    assert info(store).bytes == kept + outdated
    with store.index.write() as index:
        index.execute("UPDATE files SET sources = 'older' WHERE name = ?", tuple(store.files_of([key(2)])))
        index.execute("INSERT INTO claims VALUES ('left behind', 'nobody')")
        index.execute("INSERT INTO failures VALUES ('wanted', 'why', 0), ('unwanted', 'why', 0)")
        index.execute("INSERT INTO members VALUES ('sweep', 0, 'wanted', 0)")
    with Claims(store.index) as alive:
        alive.take(["under way"])
        assert collect_garbage(store).bytes == outdated
        assert held(store.index) == {"under way": alive.owner}
    with store.index.read() as index:
        assert index.execute("SELECT key FROM failures").fetchall() == [("wanted",)]
    assert info(store).bytes == kept


def test_a_stored_result_needs_no_claim(tmp_path):
    store = FileStore(tmp_path)
    store.put({key(1): result(1)})
    with Claims(store.index) as claims:
        assert claims.take([key(1), key(2)]) == ({key(2)}, {key(1)}, set())
        store.put({key(2): result(2)})
        with store.index.read() as index:
            assert index.execute("SELECT count(*) FROM claims").fetchone() == (0,)
