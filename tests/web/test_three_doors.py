"""One problem that no experiment poses, through its file, through Python and through the page: the same numbers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import expect, sync_playwright

import limen

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FILE = Path(__file__).parents[1] / "own_problem.toml"
TIMES, SIZE, SEEDS = 4, 40, 16
PROBLEM = limen.TwoLayer(
    target=limen.Target("z1*z2 + 0.3*z3", noise=0.05),
    network=limen.Network(width=3, activation="tanh"),
    algorithm=limen.GradientDescent(step=0.5, momentum=0.8),
    samples_per_dim=4.0,
    loss="log(1 + (y - f)**2)",
)


@pytest.fixture(scope="module")
def told_by_python():
    theory = limen.predict(PROBLEM, TIMES)
    run = limen.simulate(PROBLEM, TIMES, d=SIZE, seeds=SEEDS)
    return theory, run, limen.compare(theory, run)


@pytest.fixture(scope="module")
def told_by_the_command(tmp_path_factory):
    """`limen compare FILE` in a process, a folder and a store of its own: nothing is read back from another door."""
    folder = tmp_path_factory.mktemp("file")
    command = [sys.executable, "-c", "from limen.cli.main import main; main()", "compare", str(FILE)]
    environment = {**os.environ, "LIMEN_STORE": str(folder / "store")}
    command += ["--seeds", str(SEEDS), "--json"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300.0)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def told_by_the_page(visitor):
    parameters = {"problem": FILE.read_text(), "times": float(TIMES), "d": SIZE}
    return dict(visitor.run("problem", parameters, SEEDS))["done"]


def test_the_file_poses_the_problem_of_python():
    assert limen.load_problem(FILE) == PROBLEM


@pytest.mark.slow
@pytest.mark.parametrize("door", ["told_by_the_command", "told_by_the_page"])
def test_every_door_gives_the_numbers_of_python(door, told_by_python, request):
    told = request.getfixturevalue(door)
    theory, run, comparison = told_by_python
    numbers = told.get("headline", told)
    for name in ("train_loss", "test_loss", "excess_risk"):
        assert numbers["theory"][name] == float(theory.dataset[name][-1])
        assert numbers["simulation"][name] == pytest.approx(float(run.dataset[name].mean("seed")[-1]), rel=1e-7)
    assert told["comparison"]["verdict"] == comparison.verdict
    assert told["comparison"]["sentence"] == comparison.sentence


@pytest.mark.slow
def test_the_pages_curves_are_those_of_python(told_by_python, told_by_the_page):
    theory, run, _ = told_by_python
    panels = {
        panel["layout"]["yaxis"]["title"]["text"]: panel["data"] for panel in told_by_the_page["figure"]["panels"]
    }
    lines = [trace for traces in panels.values() for trace in traces if trace.get("mode") == "lines"]
    points = [trace for traces in panels.values() for trace in traces if trace.get("mode") == "markers"]
    for name in ("train_loss", "test_loss"):
        exact, mean = theory.dataset[name].values, run.dataset[name].mean("seed").values
        assert any(len(line["y"]) == TIMES + 1 and np.allclose(line["y"], exact, rtol=1e-5) for line in lines), name
        assert any(len(dots["y"]) == TIMES + 1 and np.allclose(dots["y"], mean, rtol=1e-5) for dots in points), name


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no system Chromium: install the package chromium")
def test_in_a_browser_the_same_digits_are_read(visitor, told_by_python):
    theory, run, comparison = told_by_python
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(base_url=visitor.address)
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        text = quote(json.dumps(FILE.read_text()))
        page.goto(f"/#/problem?problem={text}&times={TIMES}&d={SIZE}&seeds={SEEDS}&run=1")
        expect(page.locator(".verdict")).to_be_visible()
        expect(page.locator(".verdict")).to_have_attribute("data-verdict", comparison.verdict)
        row = page.locator(".numbers tbody tr").filter(has_text="test loss at the end").first
        shown = [float(cell) for cell in row.locator("td").all_inner_texts()]
        exact = float(theory.dataset.test_loss[-1]), float(run.dataset.test_loss.mean("seed")[-1])
        assert shown == [float(f"{value:.4g}") for value in exact]
        browser.close()
