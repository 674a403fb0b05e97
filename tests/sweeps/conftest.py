"""For the tests of sweeps: the toy experiment where workers find it, its log, and workers that tests share."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from limen.storage import FileStore
from limen.sweeps.pool import LocalPool

TOY = Path(__file__).parent / "toy"


@pytest.fixture(autouse=True, scope="session")
def _toy_on_path():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(TOY), *sys.path])
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TOY), os.environ.get("PYTHONPATH", "")]))
        yield


class Log:
    """What workers wrote down: which results they computed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clear()

    def clear(self) -> None:
        self.path.write_text("")

    def lines(self) -> list[str]:
        return [line.rpartition(" ")[0] for line in self.path.read_text().splitlines()]

    def times(self) -> Counter[str]:
        return Counter(self.lines())


@pytest.fixture(scope="module")
def trouble(tmp_path_factory) -> Path:
    """While this file exists, bad points are bad."""
    return tmp_path_factory.mktemp("trouble") / "armed"


@pytest.fixture(scope="module")
def _log(tmp_path_factory, trouble):
    with pytest.MonkeyPatch.context() as patch:
        log = Log(tmp_path_factory.mktemp("log") / "log")
        patch.setenv("LIMEN_TOY_LOG", str(log.path))
        patch.setenv("LIMEN_TOY_TROUBLE", str(trouble))
        yield log


@pytest.fixture
def log(_log):
    _log.clear()
    return _log


@pytest.fixture(scope="module")
def pool(_log):
    with LocalPool(2) as workers:
        yield workers


@pytest.fixture
def store(tmp_path):
    return FileStore(tmp_path / "store")
