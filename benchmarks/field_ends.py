"""Every experiment at both ends of every field: a number or one sentence, never a traceback.

    python benchmarks/field_ends.py [NAME ...] [--seconds S]

All other fields keep their quick values. The ends of a field are its bounds; an open end at 0 is 1e-300, other open
ends are the next number inside. Theory, its numbers and its figure are asked for. What takes longer than `--seconds` of
processor time, or more memory than there is, is counted as *long*: nothing is known about it. Each experiment is walked
in a process of its own, which is ended if it does not come back.
"""

import argparse
import json
import signal
import subprocess
import sys
import warnings
from typing import Any

import annotated_types
import numpy as np

from limen.experiments.registry import PLACES, experiment_class
from limen.problem.spec import InputError
from limen.result import first_not_finite

SMALLEST = 1e-300
SECONDS = 4.0


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


def answer(kind: type, changes: dict[str, Any], seconds: float) -> str:
    """`number`, `not ok: ...`, `sentence: ...`, `long` or `error: ...`."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            experiment = kind(**{**kind.quick, **changes})
            theory = experiment.theory((0, 1) if kind.paired else ())
            dict(experiment.numbers(theory.dataset))
            json.dumps(experiment.figure(theory).describe(), allow_nan=False)
    except (TimeoutError, MemoryError):
        return "long"
    except InputError as said:
        return f"sentence: {said}"
    except Exception as error:
        if "TimeoutError" in str(error):
            return "long"
        return f"error: {type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    if theory.ok and first_not_finite(theory.dataset):
        return f"error: {first_not_finite(theory.dataset)}, and ok"
    return "number" if theory.ok else f"not ok: {theory.status}"


def walk(name: str, seconds: float = SECONDS) -> dict[str, str]:
    """What an experiment says at every end, by `field=value`."""
    kind = experiment_class(name)
    return {
        f"{key}={value:g}": answer(kind, {key: value}, seconds)
        for key, field in kind.model_fields.items()
        for value in ends(field)
    }


def main() -> None:
    """Walks over the experiments named, or all, and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PLACES))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--one", action="store_true", help="walk over one experiment here, and print JSON lines")
    asked = parser.parse_args()
    if asked.one:
        kind = experiment_class(asked.names[0])
        for key, field in kind.model_fields.items():
            for value in ends(field):
                print(json.dumps([f"{key}={value:g}", answer(kind, {key: value}, asked.seconds)]), flush=True)
        return
    counts: dict[str, int] = {}
    for name in asked.names:
        command = [sys.executable, __file__, name, "--one", "--seconds", str(asked.seconds)]
        try:
            # Of the clock: other work may share the machine, and what is compiled cannot be stopped in between.
            wait = (
                10.0
                * asked.seconds
                * (3 + sum(len(ends(field)) for field in experiment_class(name).model_fields.values()))
            )
            done = subprocess.run(command, capture_output=True, text=True, timeout=wait)
            lines, died = done.stdout.splitlines(), done.returncode != 0
        except subprocess.TimeoutExpired as late:
            lines, died = (late.stdout or b"").decode().splitlines(), True
        for place, said in map(json.loads, lines):
            counts[said.split(":")[0]] = counts.get(said.split(":")[0], 0) + 1
            if said.startswith("error"):
                print(f"{name} {place}: {said}", flush=True)
        if died:
            print(f"{name}: ended before its last field", flush=True)
    print(counts)


if __name__ == "__main__":
    main()
