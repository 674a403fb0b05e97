"""How long every experiment's default run takes to end after Ctrl-C: `python benchmarks/interruptions.py [NAME ...]`.

Each run has a store of its own, is left alone until it has used some seconds of processor time (`WAIT`, at random from
a seed) and is sent SIGINT. On a busy machine the processor time from there on says more than the clock.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

from limen.experiments.registry import PLACES

LIMEN = [sys.executable, "-W", "ignore", "-c", "from limen.cli.main import main; main()"]
WAIT = (3.0, 5.0)
PATIENCE = 120.0


def interrupted(name: str, wait: float) -> tuple[float, float, int, str] | None:
    """Seconds from the signal to the end, by the clock and of the processor, exit code and last words.

    None if the run was over before.
    """
    earlier = _of_children()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LIMEN_STORE": os.path.join(folder, "store")}
        command = [*LIMEN, "run", name, "--out", os.path.join(folder, "out")]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + PATIENCE
        while process.poll() is None and _processor_time(process.pid) < wait and time.monotonic() < until:
            time.sleep(0.02)
        if process.poll() is not None:
            process.communicate()
            return None
        began, used = time.monotonic(), _processor_time(process.pid)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        return time.monotonic() - began, _of_children() - earlier - used, process.returncode, errors


def _of_children() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _processor_time(process: int) -> float:
    """Seconds that a process, not its children, has used; infinite once it is gone."""
    try:
        with open(f"/proc/{process}/stat") as file:
            used = file.read().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


def main(names: list[str]) -> None:
    """One line for each experiment, and the longest."""
    chance, longest, most = random.Random(0), 0.0, 0.0
    for name in names or list(PLACES):
        found = interrupted(name, chance.uniform(*WAIT))
        if found is None:
            print(f"{name}: over by itself", flush=True)
            continue
        seconds, processor, code, errors = found
        longest, most = max(longest, seconds), max(most, processor)
        said = ", with a traceback" if "Traceback" in errors else ""
        print(f"{name}: {seconds:.2f} s ({processor:.2f} of the processor), exit code {code}{said}", flush=True)
    print(f"longest: {longest:.2f} s ({most:.2f} of the processor) at a load of {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
