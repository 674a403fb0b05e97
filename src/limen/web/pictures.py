"""The gallery's pictures, drawn once from default runs and packed with the page: `python -m limen.web.pictures FOLDER`.

An experiment without a packed picture gets one from a quick run when the gallery is first looked at.
"""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from limen.experiments.registry import OWN, PLACES, experiment_class
from limen.storage import FileStore, run
from limen.web.thumbnail import thumbnail


@cache
def packed() -> dict[str, bytes]:
    """Pictures that came with the package, by experiment; the folder is read once."""
    folder = files("limen.web") / "static" / "pictures"
    if not folder.is_dir():
        return {}
    names = {f"{name}.svg": name for name in PLACES | OWN}
    return {names[file.name]: file.read_bytes() for file in folder.iterdir() if file.name in names}


def write_pictures(folder: Path, names: Sequence[str] = tuple(PLACES)) -> None:
    """Runs experiments with their default parameters (or takes them from the store) and writes their pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        kind = experiment_class(name)
        finished = run(kind(), range(kind.default_seeds), FileStore())
        picture = thumbnail(finished.experiment.figure(finished.theory, finished.simulation))
        (folder / f"{name}.svg").write_text(picture)
        print(f"{name}: {len(picture)} bytes", flush=True)


if __name__ == "__main__":
    write_pictures(Path(sys.argv[1]), sys.argv[2:] or tuple(PLACES))
