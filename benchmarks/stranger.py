"""A stranger's first half hour: a clean clone, and nothing but commands copied from the pages, timed.

    python benchmarks/stranger.py

Writes `docs/stranger.md`. Commands are the `sh` and `python` blocks of the pages named in `PATH`, as they stand there.
"""

import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Page, heading, language, which block from there on, what a stranger has afterwards.
STEPS = (
    ("docs/index.md", "Install", "sh", 0, "limen installed, the flagship run, the gallery listed"),
    ("docs/index.md", "Ten lines", "python", 0, "a first prediction of one's own, with verdict and figure"),
    ("docs/index.md", "Ten lines", "sh", 0, "the same from a file"),
    ("docs/howto/save_load_cite.md", "Save, load, cite", "python", 0, "a result kept, loaded again, cited"),
)
PAGE = """\
# A stranger's path

From a clean clone, with commands copied from these pages only. `python benchmarks/stranger.py` does it and writes this
page; it ends with an error if a step fails or leaves no figure.

| page | what one has afterwards | seconds |
|---|---|---|
{rows}
| | **all** | **{total:.0f}** |

{processor:.0f} s of processor time in all; wall time is that of a machine with {cores} cores ({machine}) and a load of
{load:.0f} at the beginning, on {day}. Figures left: {figures}.

Next: [your own problem](own_problem.md), or [my first prediction, step by step](tutorials/first_prediction.md).
"""


def block(clone: Path, page: str, heading: str, language: str, number: int) -> str:
    """A code block of a page, counted from a heading on."""
    _, _, below = (clone / page).read_text().partition(f"# {heading}\n")
    return re.findall(rf"```{language}\n(.*?)```", below, re.DOTALL)[number]


def run(clone: Path, language: str, code: str, environment: dict[str, str]) -> float:
    """Seconds that a block takes in the clone; a failure ends the script."""
    begin = "set -euo pipefail\n[ -f .venv/bin/activate ] && source .venv/bin/activate\n"
    if language == "python":
        (clone / "mine.py").write_text(code)
        code = "python mine.py\n"
    began = time.monotonic()
    done = subprocess.run(["bash", "-c", begin + code], cwd=clone, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{code}\nfailed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return time.monotonic() - began


def main() -> None:
    """Walks the path and writes the page."""
    rows, seconds, load = [], [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "limen"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        # Nothing of this user's: no store, no compiled programs, no packages by another way.
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment = kept | {"LIMEN_STORE": f"{folder}/store", "JAX_COMPILATION_CACHE_DIR": f"{folder}/compiled"}
        for page, heading, language, number, words in STEPS:
            seconds.append(run(clone, language, block(clone, page, heading, language, number), environment))
            rows.append(f"| [{heading}]({page.removeprefix('docs/')}) | {words} | {seconds[-1]:.0f} |")
            print(rows[-1], flush=True)
        figures = sorted({re.sub(r"-[0-9a-f]{10}", "", path.name) for path in clone.rglob("*.png")
                          if path.parent in (clone, clone / "limen-out")})  # fmt: skip
    if len(figures) < len(STEPS) - 1:
        sys.exit(f"too few figures: {figures}")
    processor = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    text = PAGE.format(
        rows="\n".join(rows), total=sum(seconds), day=datetime.now(UTC).date(), machine=platform.machine(),
        cores=os.cpu_count(), load=load, processor=processor, figures=", ".join(f"`{name}`" for name in figures),
    )  # fmt: skip
    (ROOT / "docs" / "stranger.md").write_text(text)


if __name__ == "__main__":
    main()
