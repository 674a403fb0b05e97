"""Every experiment at both ends of every field: a number or one sentence, never a traceback.

    python benchmarks/field_ends.py [NAME ...] [--seconds S] [--simulate] [--all]

All other fields keep their quick values. The ends of a field are its bounds; an open end at 0 is 1e-300, other open
ends are the next number inside. Theory, its numbers and its figure are asked for, or one run with `--simulate`. What
takes longer than `--seconds` of processor time, or more memory than `MEMORY`, is counted as *long*: nothing is known
about it. Each experiment is walked in a process of its own; one that does not come back from an end is ended, and the
walk goes on behind that end.
"""

import argparse
import json
import queue
import resource
import signal
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import annotated_types
import numpy as np

from limen.experiments.registry import PLACES, experiment_class
from limen.problem.spec import InputError
from limen.result import Result, first_not_finite

SMALLEST = 1e-300
SECONDS = 4.0
# Bytes of address space of a walking process.
MEMORY = 8 * 2**30


def ends(field: Any) -> list[float]:
    """The least and the largest value a numeric field takes, where it has bounds."""
    found, whole = [], field.annotation is int
    for bound in field.metadata:
        if isinstance(bound, annotated_types.Ge):
            found.append(bound.ge)
        elif isinstance(bound, annotated_types.Le):
            found.append(bound.le)
        elif isinstance(bound, annotated_types.Gt):
            inside = SMALLEST if bound.gt == 0.0 else float(np.nextafter(bound.gt, np.inf))
            found.append(bound.gt + 1 if whole else inside)
        elif isinstance(bound, annotated_types.Lt):
            found.append(bound.lt - 1 if whole else float(np.nextafter(bound.lt, -np.inf)))
    return found


def asked(kind: type, changes: dict[str, Any], simulate: bool) -> Result:
    """Theory with its numbers and its figure, or one run with its numbers."""
    experiment = kind(**{**kind.quick, **changes})
    if simulate:
        result = experiment.simulate(0)
    else:
        result = experiment.theory((0, 1) if kind.paired else ())
        json.dumps(experiment.figure(result).describe(), allow_nan=False)
    dict(experiment.numbers(result.dataset))
    return result


def answer(kind: type, changes: dict[str, Any], seconds: float, simulate: bool = False) -> str:
    """`number`, `not ok: ...`, `sentence: ...`, `long`, `warning: ...` or `error: ...`."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            result = asked(kind, changes, simulate)
    except (TimeoutError, MemoryError):
        return "long"
    except InputError as said:
        return f"sentence: {said}"
    except Exception as error:
        if "TimeoutError" in str(error) or "RESOURCE_EXHAUSTED" in str(error):
            return "long"
        return f"error: {type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    if result.ok and first_not_finite(result.dataset):
        return f"error: {first_not_finite(result.dataset)}, and ok"
    if shown:
        return f"warning: {shown[0].category.__name__}: {shown[0].message}"
    return "number" if result.ok else f"not ok: {result.status}"


def places(name: str) -> list[tuple[str, float]]:
    """Every end of an experiment: field and value."""
    return [(key, value) for key, field in experiment_class(name).model_fields.items() for value in ends(field)]


def walk(name: str, seconds: float = SECONDS, simulate: bool = False, start: int = 0) -> Iterator[tuple[str, str]]:
    """What an experiment says at every end from the `start`-th on, by `field=value`."""
    kind = experiment_class(name)
    for key, value in places(name)[start:]:
        yield f"{key}={value:g}", answer(kind, {key: value}, seconds, simulate)


def walk_apart(name: str, seconds: float, simulate: bool) -> Iterator[tuple[str, str]]:
    """The same, in processes that are ended when an end takes ten times its seconds of the clock.

    What is compiled cannot be stopped from inside; and other work may share the machine.
    """
    there, done = places(name), 0
    while done < len(there):
        command = [sys.executable, __file__, name, "--one", "--start", str(done), "--seconds", str(seconds)]
        walker = subprocess.Popen(
            command + ["--simulate"] * simulate, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_pass_on, args=(walker.stdout, lines), daemon=True)
        reader.start()
        while done < len(there):
            try:
                line = lines.get(timeout=20.0 + 10.0 * seconds)
            except queue.Empty:
                line = "late"
            if line and line != "late":
                yield tuple(json.loads(line))
                done += 1
                continue
            walker.kill()
            key, value = there[done]
            yield f"{key}={value:g}", "long" if line else f"error: the process died: {walker.communicate()[1][-300:]}"
            done += 1
            break
        walker.kill()
        walker.wait()


def _pass_on(stream: Any, lines: "queue.Queue[str]") -> None:
    """Lines of a process, and an empty one when it is over."""
    for line in stream:
        lines.put(line)
    lines.put("")


def main() -> None:
    """Walks over the experiments named, or all, and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PLACES))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--simulate", action="store_true", help="ask for one run in place of the theory")
    parser.add_argument("--all", action="store_true", help="print every answer, not only errors and warnings")
    parser.add_argument("--one", action="store_true", help="walk over one experiment here, and print JSON lines")
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for place, said in walk(given.names[0], given.seconds, given.simulate, given.start):
            print(json.dumps([place, said]), flush=True)
        return
    counts: Counter[str] = Counter()
    for name in given.names:
        for place, said in walk_apart(name, given.seconds, given.simulate):
            counts[said.split(":")[0]] += 1
            if given.all or said.startswith(("error", "warning")):
                print(f"{name} {place}: {said}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
