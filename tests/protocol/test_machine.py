"""What limen knows of the machine and of time: memory from the system's own files, time left from what has come."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from limen.machine import interruption, memory, memory_maps
from limen.machine.pace import Pace
from limen.problem import InputError


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Files of a system that the test writes."""
    for name, place in (("MACHINE", "meminfo"), ("OWN_GROUP", "own"), ("CONTROL_GROUP", "cgroup")):
        monkeypatch.setattr(memory, name, tmp_path / place)
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable:    12000000 kB\n")
    return tmp_path


def test_the_machine_without_control_groups(machine):
    assert memory.available_memory() == 12e6 * 1024


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_control_group_counts(machine, version):
    (machine / "own").write_text("0::/user/job\n" if version == 2 else "5:memory:/user/job\n3:cpu:/\n")
    root = machine / "cgroup" / ("memory" if version == 1 else "")
    limit, used = (
        ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    for place, most in (("user", "3000000000"), ("user/job", "max" if version == 2 else "9223372036854771712")):
        folder = root / place
        folder.mkdir(parents=True)
        (folder / limit).write_text(f"{most}\n")
        (folder / used).write_text("1000000000\n")
        (folder / "memory.stat").write_text("anon 7\ninactive_file 500000000\n")
    assert memory.available_memory() == 2.5e9
    memory.check_memory("a sample", 2.4e9, "take a smaller d")
    with pytest.raises(InputError, match=r"a sample needs 2.6 GB of memory, and 2.5 GB are free: take a smaller d\."):
        memory.check_memory("a sample", 2.6e9, "take a smaller d")


def test_a_system_that_says_nothing(machine, monkeypatch):
    (machine / "meminfo").unlink()
    assert memory.available_memory() > 0.0
    monkeypatch.setattr(memory.os, "sysconf", lambda name: int("unknown"))
    assert memory.available_memory() == memory.ASSUMED


def test_start_up_and_compilation_are_not_pace():
    clock = [0.0]
    pace = Pace(2, lambda: clock[0])
    clock[0] = 60.0
    pace.arrived()
    assert pace.seconds_left(100) is None
    clock[0] = 61.0
    pace.arrived()
    assert pace.seconds_left(100) is None
    for _ in range(10):
        clock[0] += 0.1
        pace.arrived()
    assert pace.seconds_left(100) == pytest.approx(10.0)
    assert pace.seconds_left(0) == 0.0
    clock[0] += 9.0
    assert pace.seconds_left(100) == pytest.approx(100.0), "a stop is noticed"


LOST_IN_A_CALLBACK = """
import gc, os, signal, sys, time
from limen.machine.interruption import listen

listen()
if "plain" in sys.argv:
    sys.unraisablehook = sys.__unraisablehook__
sent = []

def callback(phase, told):
    # Python cannot raise from here: an exception is dropped.
    if not sent:
        sent.append(phase)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

gc.callbacks.append(callback)
gc.collect()
assert sent
try:
    time.sleep(2.0)
    print("went on")
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize(("words", "said"), [([], "stopped"), (["plain"], "went on")])
def test_a_wish_to_stop_that_python_drops_is_said_again(words, said):
    command = [sys.executable, "-c", LOST_IN_A_CALLBACK, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60.0)
    assert done.stdout.strip() == said and ("Exception ignored" in done.stderr) == bool(words)


def test_compiled_code_that_drops_a_wish_to_stop_prints_nothing(capsys):
    interruption._uncaught(interruption.Stopped, interruption.Stopped(2), None)
    assert capsys.readouterr().err == ""
    interruption._uncaught(ValueError, ValueError("two"), None)
    assert capsys.readouterr().err == "ValueError: two\n"


def test_little_memory_is_given_without_asking(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 0.0)
    memory.check_memory("a small sample", memory.UNASKED, "take a smaller d")
    with pytest.raises(InputError, match=r"needs 0\.0301 GB of memory, and 0 GB are free"):
        memory.check_memory("a sample", 1.003 * memory.UNASKED, "take a smaller d")


@pytest.fixture
def maps(tmp_path, monkeypatch):
    """A process with 70 memory maps of 100."""
    (tmp_path / "maps").write_text("7f00 r--p\n" * 70)
    (tmp_path / "most").write_text("100\n")
    monkeypatch.setattr(memory_maps, "MAPS", tmp_path / "maps")
    monkeypatch.setattr(memory_maps, "MOST", tmp_path / "most")
    return tmp_path


def test_compiled_programs_are_dropped_where_they_crowd(maps, monkeypatch):
    dropped = []
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(clear_caches=lambda: dropped.append(1)))
    for _ in range(2 * memory_maps.EVERY):
        memory_maps.make_room()
    assert len(dropped) == 2
    (maps / "most").write_text("200\n")
    assert not memory_maps.crowded()


def test_where_the_system_does_not_say_nothing_is_dropped(maps):
    (maps / "maps").unlink()
    assert not memory_maps.crowded()
    (maps / "maps").write_text("one\n")
    (maps / "most").write_text("many\n")
    assert not memory_maps.crowded()
