"""The same runs under two versions of the sources: which experiments give other numbers, and by how much.

    PYTHONPATH=OLD/src python benchmarks/before_after.py record old
    PYTHONPATH=NEW/src python benchmarks/before_after.py record new --parameters old
    python benchmarks/before_after.py table old new

`record` runs the theory and seeds 0 and 1 of every experiment at its quick parameters and writes one file for each,
with the parameters used. With `--parameters FOLDER` the parameters are those kept there: both versions answer the same
question; fields that the present version does not have are left out and named. An experiment that has its file already
is not run again. `table` gives, for each experiment and witness, the largest difference relative to the variable's
largest value, over the variables that both have.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

SEEDS = (0, 1)


def record(folder: Path, parameters: Path | None, names: list[str]) -> None:
    """Writes what this version of the sources answers."""
    from limen.experiments.registry import PLACES, experiment_class

    folder.mkdir(parents=True, exist_ok=True)
    asked = (
        names or [path.stem for path in sorted(parameters.glob("*.json"))] if parameters else names or sorted(PLACES)
    )
    for name in asked:
        if (folder / f"{name}.json").exists():
            continue
        kept: dict[str, Any] = {}
        answer: dict[str, Any] = {}
        try:
            experiment_type = experiment_class(name)
            values = dict(experiment_type.quick)
            if parameters is not None:
                values = json.loads((parameters / f"{name}.json").read_text())["parameters"]
            answer["left out"] = sorted(set(values) - set(experiment_type.model_fields))
            experiment = experiment_type(
                **{key: value for key, value in values.items() if key not in answer["left out"]}
            )
            answer["parameters"] = experiment.model_dump(mode="json")
            results = {"theory": experiment.theory(SEEDS if experiment.paired else ())}
            results |= {f"seed {seed}": experiment.simulate(seed) for seed in SEEDS}
            for witness, result in results.items():
                kept |= {f"{witness}/{key}": array.values for key, array in result.dataset.data_vars.items()}
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        np.savez(folder / f"{name}.npz", **{key: value for key, value in kept.items() if value.dtype.kind in "fiub"})
        (folder / f"{name}.json").write_text(json.dumps(answer, indent=1))
        print(name, answer.get("error", "done"), flush=True)


def table(old: Path, new: Path) -> None:
    """Prints the differences as a Markdown table."""
    print("| experiment | theory | simulation | variables that differ most |\n|---|---|---|---|")
    for path in sorted(old.glob("*.json")):
        if not (new / path.name).exists():
            print(f"| {path.stem} | not run again | | |")
            continue
        before, after = (json.loads((folder / path.name).read_text()) for folder in (old, new))
        if "error" in before or "error" in after:
            print(f"| {path.stem} | {before.get('error', '')} | {after.get('error', '')} | |")
            continue
        with np.load(old / f"{path.stem}.npz") as was, np.load(new / f"{path.stem}.npz") as now:
            shared = [key for key in was.files if key in now.files]
            gaps = {key: gap(was[key], now[key]) for key in shared}
        worst = {}
        for witness in ("theory", "seed"):
            own = {key: value for key, value in gaps.items() if key.startswith(witness)}
            worst[witness] = max(own.items(), key=lambda item: item[1], default=("", float("nan")))
        named = ", ".join(key.partition("/")[2] for key, value in worst.values() if value > 1e-12)
        print(f"| {path.stem} | {words(worst['theory'][1])} | {words(worst['seed'][1])} | {named} |")


def gap(was: np.ndarray, now: np.ndarray) -> float:
    """Largest difference relative to the largest value; infinite where the shapes differ."""
    if was.shape != now.shape:
        return float("inf")
    both = np.isfinite(was) & np.isfinite(now)
    if np.any(np.isfinite(was) != np.isfinite(now)):
        return float("inf")
    scale = np.abs(was[both].astype(float)).max(initial=0.0)
    return float(np.abs(now[both].astype(float) - was[both]).max(initial=0.0) / scale) if scale else 0.0


def words(value: float) -> str:
    """A difference in words."""
    if value == 0.0:
        return "to the bit"
    return "other shape" if np.isinf(value) else f"{value:.1e}"


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--parameters", type=Path)
    recording.add_argument("--only", nargs="+", default=[], metavar="NAME")
    comparing = commands.add_parser("table")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        record(options.folder, options.parameters, options.only)
    else:
        table(options.old, options.new)


if __name__ == "__main__":
    main()
