# ruff: noqa: B023, E501
"""Injects faults into sweeps and their store, counts what is lost and what is computed twice, and writes the table.

`python benchmarks/faults.py docs/faults.md [SEED]`. Every sweep is of 40 points with theory and two seeds, 120 results of
a twentieth of a second, on two workers.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

TOY = Path(__file__).parents[1] / "tests" / "sweeps" / "toy"
sys.path.insert(0, str(TOY))

import limen  # noqa: E402
from limen.result import Result  # noqa: E402
from limen.storage import FileStore  # noqa: E402
from limen.storage.index import INDEX  # noqa: E402
from limen.storage.upkeep import repair  # noqa: E402
from limen.sweeps.sweep import Sweep, make_record  # noqa: E402
from limen.sweeps.sweep_record import make_plan  # noqa: E402

LIMEN = [sys.executable, "-W", "ignore", "-c", "from limen.cli.main import main; main()"]
POINTS, SEEDS, SECONDS = 40, 2, 0.05
ALL = POINTS * (SEEDS + 1)
PATIENCE = 300.0


@dataclass
class Row:
    """One kind of fault: how often, results lost that had been stored, results computed twice, oldest of these."""

    fault: str
    injected: int = 0
    lost: int = 0
    twice: int = 0
    oldest: float = 0.0
    identical: bool = True
    remark: str = ""


class Log:
    """What workers finished, and when, as seen from outside."""

    def __init__(self, path: Path) -> None:
        self.path, self.seen = path, []
        path.write_text("")
        self._over = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with open(self.path) as lines:
            while not self._over.is_set():
                if line := lines.readline():
                    self.seen.append((time.monotonic(), line.rpartition(" ")[0], int(line.split()[-1])))
                else:
                    time.sleep(0.005)

    def close(self) -> None:
        self._over.set()


class Place:
    """A store, a log, and drivers that sweep into it."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root, self.log = root, Log(root / "log")
        self.plan = make_plan(make_record("limen_toy:Toy", [f"slope=0:{POINTS - 1}:{POINTS}"], SEEDS))

    def drive(self, *options: str, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        environment = {
            **os.environ, "LIMEN_STORE": str(self.root / "store"), "LIMEN_TOY_LOG": str(self.log.path),
            "PYTHONPATH": os.pathsep.join([str(TOY), os.environ.get("PYTHONPATH", "")]),
        }  # fmt: skip
        command = [
            *LIMEN, "sweep", "limen_toy:Toy", "--grid", f"slope=0:{POINTS - 1}:{POINTS}", "--seeds", str(SEEDS),
            "--workers", "2", "--job-seconds", "1", "--seconds", str(SECONDS), "--out", str(self.root / "out"), *options,
        ]  # fmt: skip
        return subprocess.Popen(
            command, env=environment, text=True, preexec_fn=before, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def stored(self) -> set[str]:
        return set(FileStore(self.root / "store").keys())

    def finished(self) -> list[tuple[float, str]]:
        """Each result that was finished, when it was first."""
        first: dict[str, float] = {}
        for at, what, _ in list(self.log.seen):
            first.setdefault(what, at)
        return [(at, what) for what, at in first.items()]

    def twice(self) -> int:
        return len(self.log.seen) - len(self.finished())

    def complete(self) -> xr.Dataset:
        for _ in range(3):
            process = self.drive()
            _, errors = process.communicate(timeout=PATIENCE)
            if process.returncode == 0:
                break
        assert process.returncode == 0, errors
        record = make_record(_toy(), [f"slope=0:{POINTS - 1}:{POINTS}"], SEEDS)
        return Sweep(make_plan(record), FileStore(self.root / "store")).dataset


def _toy():
    from limen_toy import Toy

    return Toy(seconds=SECONDS)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.01)


def stops(folder: Path, chance: random.Random, row: Row, number: int, count: int) -> Row:
    """The driver is stopped by a signal at a random moment of its work, again and again; then the sweep is completed."""
    place, part = Place(folder / "0"), 0
    while row.injected < count:
        before = place.stored() if (place.root / "store").exists() else set()
        if len(before) > ALL - 30:
            row.identical &= place.complete().identical(REFERENCE[0])
            part += 1
            place = Place(folder / str(part))
            before = set()
        begun = len(place.log.seen)
        process = place.drive()
        wait_for(lambda: len(place.log.seen) > begun or process.poll() is not None)
        time.sleep(chance.uniform(0.0, 2.5))
        stopped = time.monotonic()
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
        time.sleep(1.5)
        after = place.stored()
        # Of this drive alone: what an earlier one lost is finished here for the second time.
        done = sorted(at for at, _, _ in place.log.seen[begun:] if at <= stopped)
        at_risk = done[len(after) - len(before) :]
        row.injected += 1
        row.lost += len(before - after)
        row.twice += len(at_risk)
        row.oldest = max([row.oldest, *(stopped - at for at in at_risk)])
    row.identical &= place.complete().identical(REFERENCE[0])
    return row


def killed_workers(folder: Path, chance: random.Random, row: Row, count: int) -> Row:
    while row.injected < count:
        place = Place(folder / str(row.injected))
        process = place.drive()
        for _ in range(2):
            seen = len(place.log.seen)
            wait_for(lambda seen=seen: len(place.log.seen) > seen or process.poll() is not None)
            time.sleep(chance.uniform(0.0, 0.8))
            if process.poll() is None:
                worker = place.log.seen[-1][2]
                try:
                    os.kill(worker, signal.SIGKILL)
                    row.injected += 1
                except ProcessLookupError:
                    pass
        process.communicate(timeout=PATIENCE)
        row.twice += place.twice()
        row.identical &= place.complete().identical(REFERENCE[0])
    return row


def damaged_index(folder: Path, chance: random.Random, row: Row, damage: str, count: int) -> Row:
    place = Place(folder)
    place.complete()
    for _ in range(count):
        before, done = place.stored(), len(place.log.seen)
        index = place.root / "store" / INDEX
        content = bytearray(index.read_bytes())
        for path in index.parent.glob(f"{INDEX}-*"):
            path.unlink()
        if damage == "deleted":
            index.unlink()
        elif damage == "truncated":
            index.write_bytes(content[: chance.randrange(1, len(content))])
        elif damage == "garbage":
            index.write_bytes(chance.randbytes(len(content)))
        else:
            for _ in range(400):
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            index.write_bytes(content)
        if damage == "400 bits flipped":
            # Flips inside a text are not a damage that sqlite sees.
            repair(FileStore(place.root / "store"))
        row.injected += 1
        row.lost += len(before - place.stored())
        row.identical &= place.complete().identical(REFERENCE[0])
        row.twice += len(place.log.seen) - done
    return row


def damaged_files(folder: Path, chance: random.Random, row: Row, damage: str, count: int) -> Row:
    place = Place(folder)
    place.complete()
    for _ in range(count):
        done = len(place.log.seen)
        path = chance.choice(sorted((place.root / "store" / "results").glob("*/*.nc")))
        content = bytearray(path.read_bytes())
        if damage == "deleted":
            path.unlink()
        elif damage == "truncated":
            path.write_bytes(content[: chance.randrange(1, len(content))])
        else:
            content[chance.randrange(len(content))] ^= 1
            path.write_bytes(content)
        row.injected += 1
        row.identical &= place.complete().identical(REFERENCE[0])
        row.twice += len(place.log.seen) - done
    row.remark = "the results of that file are found out and computed again"
    return row


def wrong_clock(folder: Path, row: Row, shift: float) -> Row:
    place = Place(folder)
    index = FileStore(place.root / "store").index
    with index.write() as connection:
        connection.execute("INSERT INTO drivers VALUES ('far', 'elsewhere', 7, ?)", (time.time() + shift,))
        rows = [(unit.key, "far") for unit in make_plan(make_record(_toy(), ["slope=0,1,2"], SEEDS)).units]
        connection.executemany("INSERT INTO claims VALUES (?, ?)", rows)
    row.injected = 1
    row.identical = place.complete().identical(REFERENCE[0])
    row.twice = place.twice()
    row.remark = "claims of a dead driver elsewhere are given up after ten seconds"
    return row


def two_drivers(folder: Path, chance: random.Random, row: Row, count: int) -> Row:
    while row.injected < count:
        place = Place(folder / str(row.injected))
        drivers = [place.drive()]
        time.sleep(chance.uniform(0.0, 3.0))
        drivers.append(place.drive())
        for process in drivers:
            process.communicate(timeout=PATIENCE)
        row.injected += 1
        row.twice += place.twice()
        row.identical &= place.complete().identical(REFERENCE[0])
    return row


def short_writes(folder: Path, chance: random.Random, row: Row, count: int) -> Row:
    while row.injected < count:
        place = Place(folder / str(row.injected))
        most = chance.randrange(150_000, 400_000)
        process = place.drive(before=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
        _, errors = process.communicate(timeout=PATIENCE)
        row.remark = "one sentence, no traceback" if "Traceback" not in errors else errors.splitlines()[-1]
        before = place.stored()
        row.injected += 1
        row.identical &= place.complete().identical(REFERENCE[0])
        row.lost += len(before - place.stored())
        row.twice += place.twice()
    return row


def few_files(folder: Path, row: Row) -> Row:
    place = Place(folder)
    process = place.drive(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)))
    _, errors = process.communicate(timeout=PATIENCE)
    row.injected = 1
    row.remark = "one sentence, no traceback" if "Traceback" not in errors else errors.strip().splitlines()[-1]
    row.identical = place.complete().identical(REFERENCE[0])
    return row


def refused_place(folder: Path, row: Row, spoil: Callable[[Path], None], mend: Callable[[Path], None]) -> Row:
    """A complete store in which something is in the way: the same sweep is read from it, or refused in a sentence."""
    place = Place(folder)
    place.complete()
    before, done = place.stored(), len(place.log.seen)
    spoil(place.root / "store")
    try:
        process = place.drive()
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        mend(place.root / "store")
    said = errors.strip().splitlines()[-1] if errors.strip() else ""
    row.remark = "read as it is" if process.returncode == 0 else "one sentence" if "Traceback" not in errors else said
    row.injected, row.lost = 1, len(before - place.stored())
    row.identical = place.complete().identical(REFERENCE[0])
    row.twice = len(place.log.seen) - done
    return row


def read_only(store: Path, on: bool) -> None:
    """Root may write anywhere, so the folder is made immutable where the file system knows that, else read-only."""
    subprocess.run(["chattr", "-R", "+i" if on else "-i", str(store)], capture_output=True, check=False)
    for path in (store, *store.rglob("*")):
        if not path.is_symlink():
            with suppress(OSError):
                path.chmod(path.stat().st_mode & ~0o222 if on else path.stat().st_mode | 0o200)


def quarantine_file(store: Path) -> None:
    """A damaged result that cannot be set aside, since the folder for such files is a file."""
    path = sorted((store / "results").glob("*/*.nc"))[0]
    path.write_bytes(path.read_bytes()[:100])
    (store / "quarantine").write_text("")


def saving_share(folder: Path) -> tuple[float, float]:
    """Saving in an undisturbed sweep: its processor time as part of that of two cores, and its part of the driver's time."""
    store, spent = FileStore(folder / "store"), []
    put = store.put

    def timed(results: Mapping[str, Result]) -> None:
        began = time.thread_time(), time.perf_counter()
        put(results)
        spent.append((time.thread_time() - began[0], time.perf_counter() - began[1]))

    store.put = timed
    began = time.perf_counter()
    limen.sweep(_toy(), {"slope": f"0:{3 * POINTS - 1}:{3 * POINTS}"}, SEEDS, executor=2, store=store, job_seconds=1.0)
    processor, waited = map(sum, zip(*spent, strict=True))
    whole = time.perf_counter() - began
    return processor / (2.0 * whole), waited / whole


def killed_scheduler(folder: Path, row: Row) -> Row:
    place = Place(folder)
    environment = {**os.environ, "LIMEN_TOY_LOG": str(place.log.path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(TOY), os.environ.get("PYTHONPATH", "")])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    at = f"tcp://127.0.0.1:{random.SystemRandom().randrange(20000, 40000)}"
    python = [sys.executable, "-m"]
    port = at.rpartition(":")[2]
    scheduler = subprocess.Popen(
        [*python, "distributed.cli.dask_scheduler", "--port", port, "--dashboard-address", ":0"],
        env=environment,
        **quiet,
    )
    worker = subprocess.Popen(
        [*python, "distributed.cli.dask_worker", at, "--nthreads", "1", "--nworkers", "2", "--no-dashboard"],
        env=environment, **quiet,
    )  # fmt: skip
    try:
        time.sleep(8.0)
        process = place.drive("--scheduler", at)
        wait_for(lambda: len(place.log.seen) > 10 or process.poll() is not None)
        scheduler.kill()
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        scheduler.kill()
        worker.terminate()
    row.injected = 1
    said = errors.strip().splitlines()[-1] if errors.strip() else ""
    row.remark = "one sentence, exit code 1" if "was lost" in said and process.returncode == 1 else said[:80]
    before = place.stored()
    done = len(place.finished())
    row.identical = place.complete().identical(REFERENCE[0])
    row.lost, row.twice = len(before - place.stored()), max(0, done - len(before))
    return row


REFERENCE: list[xr.Dataset] = []


def main(target: Path, seed: int) -> None:
    warnings.simplefilter("ignore")
    chance, load = random.Random(seed), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        REFERENCE.append(Place(folder / "reference").complete())
        kinds: list[Callable[[], Row]] = [
            lambda: stops(folder / "kill", chance, Row("driver killed (kill -9)"), signal.SIGKILL, 30),
            lambda: stops(folder / "int", chance, Row("Ctrl-C"), signal.SIGINT, 4),
            lambda: stops(folder / "term", chance, Row("SIGTERM"), signal.SIGTERM, 4),
            lambda: stops(folder / "hup", chance, Row("terminal closed (SIGHUP)"), signal.SIGHUP, 4),
            lambda: killed_workers(folder / "worker", chance, Row("worker killed (kill -9)"), 6),
            lambda: two_drivers(folder / "two", chance, Row("two drivers on one store"), 2),
            *(
                lambda damage=damage: damaged_index(folder / f"i-{damage}", chance, Row(f"index {damage}"), damage, 3)
                for damage in ("deleted", "truncated", "garbage", "400 bits flipped")
            ),
            *(
                lambda damage=damage: damaged_files(
                    folder / f"f-{damage}", chance, Row(f"result file {damage}"), damage, 2
                )
                for damage in ("deleted", "truncated", "with a bit flipped")
            ),
            lambda: wrong_clock(folder / "future", Row("driver elsewhere with its clock 12 days ahead"), 1e6),
            lambda: wrong_clock(folder / "past", Row("driver elsewhere with its clock 12 days behind"), -1e6),
            lambda: short_writes(folder / "short", chance, Row("no room for files (limit met at random)"), 3),
            lambda: few_files(folder / "few", Row("12 open files allowed")),
            lambda: refused_place(
                folder / "ro", Row("store read-only"), lambda s: read_only(s, True), lambda s: read_only(s, False)
            ),
            lambda: refused_place(
                folder / "q",
                Row("`quarantine` is a file, a result damaged"),
                quarantine_file,
                lambda s: (s / "quarantine").unlink(missing_ok=True) if (s / "quarantine").is_file() else None,
            ),
            lambda: killed_scheduler(folder / "dask", Row("Dask scheduler killed")),
        ]
        share, rows = saving_share(folder / "share"), []
        print(f"saving takes {share} of the time", flush=True)
        for kind in kinds:
            rows.append(kind())
            print(rows[-1], flush=True)
            target.write_text(table(rows, seed, share, load))


def table(rows: list[Row], seed: int, share: tuple[float, float], load: float) -> str:
    lines = [
        "# Faults",
        "",
        "What happens to a sweep when something goes wrong, made by `python benchmarks/faults.py docs/faults.md`: "
        f"sweeps of {POINTS} points with theory and {SEEDS} seeds, {ALL} results of {SECONDS:g} s on two workers; random "
        f"moments from seed {seed}. *Lost* counts results that were in the store and are no longer; *twice* those that "
        "were finished and had to be computed again, *oldest* how long before the fault the oldest of them was finished. "
        "*Same*: the dataset of the completed sweep is identical to that of an undisturbed one. "
        f"Saving took {share[0]:.1%} of the processor time of two cores in a sweep of {3 * ALL} such results, and "
        f"{share[1]:.1%} of the driver's time. The load of the machine was {load:.0f} on {os.cpu_count()} cores at the "
        "beginning: on a busy machine a save waits for the processor as everything else does.",
        "",
        "| fault | injected | lost | twice | oldest | same | |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.fault} | {row.injected} | {row.lost} | {row.twice} | {f'{row.oldest:.1f} s' if row.oldest else ''} "
        f"| {'yes' if row.identical else '**no**'} | {row.remark} |"
        for row in rows
    ]
    lines += ["", "Next: [sweeps](sweeps.md), or [how results are kept](howto/save_load_cite.md)."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
