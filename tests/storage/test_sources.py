"""Addresses change with what can change a number, and with nothing else."""

import re
import shutil
import sys

import pytest

from limen.sources import PACKAGE, source_digest, statements_digest, whole_digest
from limen.storage import address


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A few of limen's own files, in their places."""
    root = tmp_path_factory.mktemp("package")
    wanted = ("comparison/verdict.py", "problem/spec.py", "method.py", "verbs.py", "web/app.py", "cli/main.py",
              "plot/draw.py",
              "experiments/kernel/double_descent_digits.py", "experiments/kernel/digits_population.py",
              "experiments/kernel/min_norm.py", "experiments/experiment.py", "experiments/figure.py")  # fmt: skip
    for name in wanted:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, root / name)
    return root


def after(package, tmp_path, name, edit):
    """The digests of two experiments after a file has been edited."""
    copy = tmp_path / "edited"
    shutil.copytree(package, copy)
    text = (copy / name).read_text()
    assert edit(text) != text
    (copy / name).write_text(edit(text))
    return source_digest("DoubleDescentDigits", copy), source_digest("MinNorm", copy)


def statement(text):
    return f"{text}\n_NEW = 1\n"


def comment(text):
    return f"# A word.\n{text}\n\n# Another.\n"


def docstrings(text):
    return re.sub(r'"""(\w)', r'"""Otherwise said: \1', text)


@pytest.mark.parametrize(
    "name", ["web/app.py", "cli/main.py", "plot/draw.py", "comparison/verdict.py", "experiments/figure.py"]
)
def test_what_only_shows_keeps_every_address(package, tmp_path, name):
    before = source_digest("DoubleDescentDigits", package), source_digest("MinNorm", package)
    assert after(package, tmp_path, name, statement) == before


@pytest.mark.parametrize("edit", [comment, docstrings])
@pytest.mark.parametrize("name", ["problem/spec.py", "experiments/kernel/min_norm.py"])
def test_words_keep_every_address(package, tmp_path, name, edit):
    before = source_digest("DoubleDescentDigits", package), source_digest("MinNorm", package)
    assert after(package, tmp_path, name, edit) == before


@pytest.mark.parametrize("name", ["problem/spec.py", "method.py", "verbs.py", "experiments/experiment.py"])
def test_what_all_rest_on_changes_every_address(package, tmp_path, name):
    one, other = after(package, tmp_path, name, statement)
    assert one != source_digest("DoubleDescentDigits", package)
    assert other != source_digest("MinNorm", package)


@pytest.mark.parametrize("name", ["double_descent_digits", "digits_population"])
def test_an_experiment_and_what_it_imports_change_its_own_address_alone(package, tmp_path, name):
    one, other = after(package, tmp_path, f"experiments/kernel/{name}.py", statement)
    assert one != source_digest("DoubleDescentDigits", package)
    assert other == source_digest("MinNorm", package)
    assert whole_digest(tmp_path / "edited") != whole_digest(package)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1.0", "x  =  1.0  # one", True),
        ("def f():\n    'Says.'\n    return 1", "def f():\n    return 1", True),
        ("def f():\n    return 'a'", "def f():\n    return 'b'", False),
        ("x = 1", "x = 1.0", False),
        ("x = a - b - c", "x = a - (b - c)", False),
        ("def f(x, y=1): pass", "def f(x, *, y=1): pass", False),
        ("x = '''a'''", "x = 'a'", True),
    ],
)
def test_statements_count_and_their_layout_does_not(one, other, same):
    assert (statements_digest(one.encode()) == statements_digest(other.encode())) is same


def test_a_garbled_cache_of_digests_is_not_believed(package, tmp_path, monkeypatch):
    before = source_digest("MinNorm", package)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "limen").mkdir()
    for garbage in ("", "[1, 2]", "{", "\x00"):
        (tmp_path / "limen" / "statements.json").write_text(garbage)
        copy = tmp_path / f"copy-{len(garbage)}-{ord(garbage[:1] or 'e')}"
        shutil.copytree(package, copy)
        assert source_digest("MinNorm", copy) == before


def test_the_address_of_an_experiment_rests_on_its_own_sources(monkeypatch):
    module = sys.modules["limen.storage.address"]
    monkeypatch.setattr(module, "source_digest", lambda experiment: "edited" if experiment == "Edited" else "")
    edited, other = address({"type": "Edited"}, "theory", ()), address({"type": "Other"}, "theory", ())
    monkeypatch.setattr(module, "source_digest", lambda experiment: "")
    assert address({"type": "Edited"}, "theory", ()) != edited
    assert address({"type": "Other"}, "theory", ()) == other
