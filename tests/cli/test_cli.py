"""The command line as a person meets it: results, and one sentence per mistake."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import limen

LIMEN = [sys.executable, "-c", "from limen.cli.main import main; main()"]
QUICK = ["run", "phase-retrieval-sgd", "--d", "40", "--rate", "0.1", "--seeds", "6"]


def command(*arguments: str, store: Path, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LIMEN_STORE": str(store)}
    return subprocess.run([*LIMEN, *arguments], capture_output=True, text=True, env=environment, timeout=timeout)


def children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("cli-store")


def test_help_is_instant(store):
    # Processor time of the child: other work on the machine does not count.
    times = []
    for _ in range(3):
        began = children_seconds()
        done = command("--help", store=store)
        times.append(children_seconds() - began)
    assert done.returncode == 0
    assert min(times) < 0.4


def test_import_is_instant():
    script = "import time; t = time.process_time(); import limen; print(time.process_time() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout) for _ in range(3)
    ]
    assert min(times) < 0.3


def test_run_prints_one_json_object_and_saves_everything(store, tmp_path):
    done = command(*QUICK, "--json", "--out", str(tmp_path), store=store)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer) == {"experiment", "id", "params", "theory", "simulation", "comparison", "files", "status"}
    assert answer["params"]["d"] == 40
    assert answer["theory"]["plateau_risk"] == pytest.approx(0.1 * 0.2 / 0.4)
    assert answer["comparison"]["verdict"] in ("agrees", "disagrees", "cannot tell")
    for file in answer["files"].values():
        assert Path(file).stat().st_size > 1000
    assert limen.load(answer["files"]["simulation"]).seeds == tuple(range(6))
    again = command(*QUICK, "--json", "--out", str(tmp_path), store=store)
    assert json.loads(again.stdout) == answer
    code = (
        "import sys; from limen.cli.main import limen; limen.main(sys.argv[1:], standalone_mode=False)\n"
        "assert not {'jax', 'numpy', 'xarray', 'matplotlib'} & set(sys.modules)"
    )
    for asked in ([*QUICK, "--out", str(tmp_path)], ["show", answer["id"][:6]]):
        program = [sys.executable, "-c", code, *asked]
        shown = subprocess.run(program, env={**os.environ, "LIMEN_STORE": str(store)}, capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        assert answer["id"] in shown.stdout
    assert "phase-retrieval-sgd: rate = 0.1" in shown.stdout
    Path(answer["files"]["pdf"]).unlink()
    assert json.loads(command(*QUICK, "--json", "--out", str(tmp_path), store=store).stdout) == answer
    assert Path(answer["files"]["pdf"]).exists(), "what is missing is written again"
    shown = command("show", answer["id"][:6], "--out", str(tmp_path / "shown"), store=store)
    assert shown.returncode == 0, shown.stderr
    assert "phase-retrieval-sgd: rate = 0.1" in shown.stdout
    assert len(list((tmp_path / "shown").iterdir())) == 4


def test_size_is_an_alias_and_help_documents_parameters(store, tmp_path):
    done = command("run", "phase-retrieval-sgd", "--help", store=store)
    assert "--d, --size" in done.stdout
    assert "learning rate" in done.stdout
    done = command(
        "run", "phase-retrieval-sgd", "--size", "50", "--theory-only", "--json", "--out", str(tmp_path), store=store
    )
    answer = json.loads(done.stdout)
    assert (answer["params"]["d"], answer["simulation"], answer["comparison"]) == (50, {}, {})


def test_list_and_cite(store):
    assert "phase-retrieval-sgd" in command("list", store=store).stdout
    assert "@article{arnaboldi2023escaping" in command("cite", "phase-retrieval-sgd", store=store).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "phase-retrieval-sgd", "--rate", "-1"], "rate must be greater than 0"),
        (["run", "phase-retrieval-sgd", "--noise", "nan"], "noise must be"),
        (["run", "phase-retrieval-sgd", "--d", "1e3"], "not a valid integer"),
        (["run", "phase-retrieval-sgd", "--seeds", "0"], "seeds must be from 1 to"),
        (["run", "phase-retrieval-sgd", "--ratte", "1"], "no option --ratte. Did you mean --rate?"),
        (["run", "phase-retrieval-sdg"], "did you mean 'phase-retrieval-sgd'?"),
        (["run", "nothing-like-it"], "there is no experiment"),
        (["show", "zzzz"], "no stored run"),
        (["cite", "nothing-like-it"], "there is no experiment"),
        (["fly"], "No such command"),
        (["run", "phase-retrieval-sgd", "--out", "/proc/nowhere"], "cannot be written"),
        (["show", "zzzz", "--out", "/dev/null/x"], "--out '/dev/null/x' cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments, words, store):
    done = command(*arguments, store=store)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("group", [[], ["run"], ["sweep"], ["store"]])
def test_a_group_alone_prints_its_help_with_its_lines(group, store):
    asked, helped = command(*group, store=store), command(*group, "--help", store=store)
    assert asked.returncode == 2
    assert asked.stderr == helped.stdout
    assert asked.stderr.startswith(" ".join(["Usage: limen", *group]))


def test_a_refusal_in_the_middle_of_a_run_has_no_empty_line(store, tmp_path):
    done = command("run", "phase-retrieval-sgd", "--sizes", "40,40", "--out", str(tmp_path), store=store)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_interrupted_work_is_kept_and_goes_on(store, tmp_path):
    arguments = [
        "run",
        "phase-retrieval-sgd",
        "--d",
        "400",
        "--rate",
        "0.02",
        "--seeds",
        "5000",
        "--out",
        str(tmp_path),
    ]
    environment = {**os.environ, "LIMEN_STORE": str(tmp_path / "store")}
    process = subprocess.Popen([*LIMEN, *arguments], stderr=subprocess.PIPE, text=True, env=environment)

    def stored() -> int:
        return len([path for path in tmp_path.glob("store/results/*/*.nc") if not path.name.startswith(".")])

    deadline = time.monotonic() + 300.0
    while time.monotonic() < deadline and stored() < 2:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60.0)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1].startswith("Interrupted: what was finished is kept")
    assert stored() >= 2, "theory and at least one batch of seeds are stored"


def test_a_full_disk_is_one_sentence(store, tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.fail("this test writes to /dev/full, which this system lacks")
    script = (
        "import limen.cli.run as run; from limen.cli.main import main\n"
        "import matplotlib.figure as figure\n"
        "figure.Figure.savefig = lambda self, path, **options: open('/dev/full', 'w').write('x' * 100000)\n"
        "main()"
    )
    environment = {**os.environ, "LIMEN_STORE": str(store)}
    done = subprocess.run(
        [sys.executable, "-c", script, *QUICK, "--out", str(tmp_path)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2
    assert "No space left on device; what was finished is kept." in done.stderr
    assert "Traceback" not in done.stderr
