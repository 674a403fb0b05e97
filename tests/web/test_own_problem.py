"""Your own problem on the page: the file is checked while it is typed; its numbers are those of Python."""

import json
import re
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect, sync_playwright

import limen
from limen.problem.files.reading import parse_problem
from limen.problem.files.template import FAMILIES, template

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RIDGE = 'type = "Ridge"\nratio = 0.5\nnoise = 0.3\n'
OWN = (Path(__file__).parents[1] / "own_problem.toml").read_text()


def check(visitor, problem, changes=None):
    return visitor.http.post("/api/problem", json={"problem": problem, "changes": changes or {}})


def test_a_text_is_checked_and_its_numbers_become_controls(visitor):
    told = check(visitor, RIDGE).json()
    assert told["ok"] and told["text"] == RIDGE
    controls = {control["name"]: control for control in told["controls"]}
    assert controls["noise"]["default"] == 0.3 and controls["noise"]["minimum"] == 0.0
    assert {"ratio", "ridge", "inputs.law"} <= set(controls)
    moved = check(visitor, RIDGE, {"noise": 0.7}).json()
    assert parse_problem(moved["text"]).problem == limen.Ridge(0.5, 0.7)
    code = moved["python"].partition("theory =")[0]
    space = {}
    exec(code, space)
    assert space["problem"] == limen.Ridge(0.5, 0.7)
    wrong = check(visitor, RIDGE.replace("noise", "noisy")).json()
    assert (
        not wrong["ok"] and "line 3, column 9: noisy is not a field of Ridge: did you mean 'noise'?" in wrong["message"]
    )
    assert check(visitor, limen.Ridge(0.5, 0.3).describe()).json()["ok"]
    assert moved["questions"] == ["grid", "tune"]


def test_parts_change_their_type_and_lists_are_controls(visitor):
    other = check(visitor, OWN, {"algorithm.type": "OnePassSGD"}).json()
    assert other["ok"] and parse_problem(other["text"]).problem.samples_per_dim is None
    back = check(visitor, other["text"], {"algorithm.type": "GradientDescent", "start.type": "OverlapStart"}).json()
    assert back["ok"] and "thresholds" in back["questions"]
    again = parse_problem(back["text"]).problem
    assert again.samples_per_dim == 4.0 and isinstance(again.start, limen.OverlapStart)
    kinds = {control["name"]: control["kind"] for control in back["controls"]}
    assert kinds["algorithm.type"] == "choice" and kinds["inputs.variances"] == "list"
    said = check(visitor, OWN, {"algorithm.type": "Newton"}).json()["message"]
    assert said.startswith("algorithm.type must be one of GradientDescent, Adam")
    assert check(visitor, RIDGE, {"noise": 1e308}).json()["ok"]
    assert "must be one of" in check(visitor, OWN, {"algorithm.type": {}}).json()["message"]
    assert "is no part of TwoLayer that has types" in check(visitor, OWN, {"target.x.type": "Adam"}).json()["message"]


@pytest.mark.parametrize("family", [kind.__name__ for kind in FAMILIES])
def test_every_family_has_a_template_that_passes(visitor, family):
    text = visitor.http.get(f"/api/problem/{family}").json()["text"]
    assert text == template(family) and check(visitor, text).json()["ok"]


def test_what_applies_and_why_the_rest_does_not(visitor):
    first, *others = visitor.http.post("/api/problem/theories", json={"problem": RIDGE}).json()
    assert (first["name"], first["said"]) == ("ridge", "applies") and "excess_mse" in first["about"]
    refused = {one["name"]: one["said"] for one in others}
    assert "two-layer" in refused["overlap-ode"] and not any("about" in one for one in others)


def test_the_page_gives_the_numbers_of_python(visitor):
    events = dict(visitor.run("problem", {"problem": RIDGE, "times": 2.0, "d": 40}, seeds=2))
    done = events["done"]
    exact = limen.predict(limen.Ridge(0.5, 0.3), 2.0).dataset.excess_mse
    assert done["headline"]["theory"]["excess_mse"] == float(exact[-1])
    run = limen.simulate(limen.Ridge(0.5, 0.3), 2.0, d=40, seeds=2).dataset.excess_mse.mean("seed")
    assert done["headline"]["simulation"]["excess_mse"] == pytest.approx(float(run[-1]), rel=1e-6)
    assert done["comparison"]["verdict"] in ("agrees", "disagrees", "cannot tell")
    stored = visitor.http.get(f"/api/results/{done['identifier']}").json()
    assert stored["experiment"] == "problem" and stored["parameters"]["problem"]["type"] == "Ridge"
    assert visitor.http.get(f"/api/results/{done['identifier']}/figure.svg").status_code == 200


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "parameters must have a problem"),
        ({"problem": 3}, "problem must be the text of a problem file"),
        ({"problem": "type ="}, "problem, end of document: invalid value"),
        ({"problem": RIDGE, "times": -1.0}, "times must be a number above 0"),
        ({"problem": RIDGE, "d": 10**9}, "d must be a whole number from 2 to"),
        ({"problem": RIDGE, "seed": 1}, "'seed' is not a parameter of your problem"),
        ({"problem": OWN.replace("width = 3", "width = 3000")}, "network.width must be at most 64 on the page"),
        ({"problem": {"type": "GradientFlow"}}, "problem must be one of TwoLayer"),
        ({"problem": {"type": "Perceptron"}}, "must be"),
        ({"problem": "x" * 20_000}, "must have at most"),
    ],
)
def test_mistakes_are_sentences(visitor, parameters, said):
    answer = visitor.begin("problem", parameters)
    assert answer.status_code == 422 and said in answer.json()["message"]


@pytest.mark.skipif(CHROMIUM is None, reason="no system Chromium: install the package chromium")
def test_in_a_browser_a_problem_is_typed_moved_simulated_and_linked(visitor):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(base_url=visitor.address)
        page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        start = f"/#/problem?problem={quote(json.dumps(RIDGE))}&times=2&d=40&seeds=2"
        page.goto(start)
        box = page.locator("#p-problem")
        expect(box).to_have_value(RIDGE)
        expect(page.locator(".numbers tbody tr").first).to_contain_text("excess mse at the end")
        first = page.locator(".numbers tbody tr").first.inner_text()
        page.locator(".typing summary").click()
        box.fill(RIDGE.replace("noise", "noisy"))
        expect(page.locator("#p-problem-note")).to_contain_text("did you mean 'noise'?")
        box.fill(RIDGE)
        page.locator("[id='p-noise']").fill("0.9")
        expect(box).to_have_value(re.compile(r"noise = 0\.9"))
        expect(page.locator(".numbers tbody tr").first).not_to_have_text(first)
        page.locator(".applying summary").click()
        expect(page.locator(".applying dd[data-applies=true]")).to_have_count(1)
        page.locator("#simulate").click()
        expect(page.locator(".verdict")).to_be_visible()
        assert "problem=" in page.url
        page.locator("#p-problem-family").select_option("SphericalSGD")
        expect(page.locator("[id='p-algorithm.rate']")).to_be_attached()
        # A part of another type: the network keeps its fields, the algorithm has its own.
        page.locator("[id='p-algorithm.type']").select_option("GradientDescent")
        expect(page.locator("[id='p-algorithm.momentum']")).to_be_attached()
        expect(box).to_have_value(re.compile(r'type = "GradientDescent"'))
        browser.close()
        assert complaints == []
