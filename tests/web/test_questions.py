"""Further questions on the page: a grid, the best parameters, thresholds, the Hessian, with the numbers of Python."""

import json
import shutil
from urllib.parse import quote

import pytest
from playwright.sync_api import expect, sync_playwright

import limen
from limen.experiments.own_problem import OwnProblem
from limen.storage import FileStore
from limen.sweeps.in_process import InProcess
from limen.web.answers import Cancelled
from limen.web.limits import Limits
from limen.web.questions.answered import answer_question
from limen.web.questions.asked import question_task

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RIDGE = 'type = "Ridge"\nratio = 0.5\nnoise = 0.3\n'
DESCENT = """\
type = "TwoLayer"
samples_per_dim = 3.0
target = "z**2"
network = { width = 1, activation = "square" }
algorithm = { type = "GradientDescent", step = 0.1 }
"""
NOISE = {"name": "noise", "low": 0.0, "high": 1.0, "count": 3, "scale": "linear"}
RATIO = {"name": "ratio", "low": 0.25, "high": 4.0, "count": 4, "scale": "log"}


def ask(visitor, kind, settings, problem=RIDGE, times=2.0, d=30):
    parameters = {"problem": problem, "times": times, "d": d}
    body = {"kind": kind, "experiment": "problem", "parameters": parameters, "settings": settings}
    return visitor.http.post("/api/questions", json=body)


def answer(visitor, *asked, **more):
    begun = ask(visitor, *asked, **more)
    assert begun.status_code == 202, begun.text
    return visitor.follow(begun.json()["run"])


def test_a_grid_tells_how_far_it_is(tmp_path):
    """Asked of the worker itself: on the page, progress that a newer event replaces is forgotten."""
    asked = {"kind": "grid", "experiment": "problem", "settings": {"axes": [NOISE]}}
    asked["parameters"] = {"problem": RIDGE, "times": 2.0, "d": 30}
    told = []
    task = question_task(asked, Limits())
    answer_question(task, FileStore(tmp_path), lambda kind, body: told.append((kind, json.loads(body))), lambda: False)
    assert [kind for kind, _ in told] == [*["seeds"] * (len(told) - 1), "done"]
    progress = [(event["done"], event["total"]) for _, event in told[:-1]]
    # Every point is told of, one after the other, and the last word before the answer is that all are done.
    assert sorted(progress) == progress and set(progress) == {(1, 3), (2, 3), (3, 3)}


def test_a_grid_that_is_no_longer_wanted_stops(tmp_path):
    task = question_task(
        {"kind": "grid", "experiment": "problem", "settings": {"axes": [NOISE]}, "parameters": {"problem": RIDGE}},
        Limits(),
    )
    told = []
    with pytest.raises(Cancelled):
        answer_question(task, FileStore(tmp_path), lambda kind, body: told.append(kind), lambda: True)
    assert not told


def test_a_grid_of_theory_has_the_numbers_of_python(visitor):
    events = answer(visitor, "grid", {"axes": [NOISE]})
    assert all(told["done"] <= told["total"] == 3 for kind, told in events if kind == "seeds")
    assert events[-1][0] == "done"
    done = events[-1][1]
    assert "3 of 3 points done" in done["text"]
    line = next(trace for trace in done["figure"]["panels"][0]["data"] if trace["type"] == "scatter")
    name = done["quantity"].removeprefix("headline_")
    exact = [float(limen.predict(limen.Ridge(0.5, noise), 2.0).dataset[name][-1]) for noise in line["x"]]
    assert line["x"] == [0.0, 0.5, 1.0] and line["y"] == pytest.approx(exact, rel=1e-5)


def test_a_map_over_two_parameters_with_training(visitor):
    settings = {"axes": [NOISE | {"count": 4}, RATIO], "seeds": 1, "quantity": "headline_excess_mse"}
    done = answer(visitor, "grid", settings)[-1][1]
    assert done["quantity"] == "headline_excess_mse" and "16 of 16 points done" in done["text"]
    assert any(trace["type"] == "heatmap" for trace in done["figure"]["panels"][0]["data"])
    # What is stored is the sweep of Python: the same call computes nothing.
    posed = OwnProblem(problem=limen.Ridge(0.5, 0.3), times=2.0, d=30)
    swept = limen.sweep(posed, {"noise": [0.0, 1.0], "ratio": [0.25, 4.0]}, 1, executor=InProcess())
    assert (swept.computed, swept.points.done) == (0, 4)
    with pytest.raises(limen.InputError, match="a sweep takes a problem, an experiment or the name of one"):
        limen.sweep(limen.experiment(limen.Ridge(0.5)), {"noise": [0.0, 1.0]})


def test_the_best_time_is_the_closed_form(visitor):
    settings = {"over": [{"name": "time", "low": 0.05, "high": 40.0}], "goal": "excess_mse"}
    done = answer(visitor, "tune", settings, times=40.0)[-1][1]
    assert done["parameters"]["time"] == pytest.approx(limen.kernel.optimal_stopping_time(0.5, 0.3), rel=1e-3)
    settings = {"over": [{"name": "ridge", "low": 0.001, "high": 1.0}], "goal": "excess_mse"}
    done = answer(visitor, "tune", settings, times=400.0)[-1][1]
    # Once trained to the end, the best penalty is the noise times dimensions per sample.
    assert done["changes"]["ridge"] == pytest.approx(0.15, rel=0.01) and done["figure"]["panels"]


def test_a_gallery_experiment_has_a_grid_too(visitor):
    body = {
        "kind": "grid", "experiment": "marchenko-pastur", "parameters": {}, "settings": {"axes": []},
    }  # fmt: skip
    assert "axes must be a list of one or 2" in visitor.http.post("/api/questions", json=body).json()["message"]
    body["kind"] = "tune"
    assert "asked of a problem of your own" in visitor.http.post("/api/questions", json=body).json()["message"]


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("grid", {"axes": [NOISE | {"name": "nois"}]}, "a grid has numbers on its axes (ratio, noise"),
        ("grid", {"axes": [NOISE | {"low": -1.0}]}, "noise must be at least 0, got -1"),
        ("grid", {"axes": [NOISE | {"high": -1.0}]}, "noise must go from a number to a larger one"),
        ("grid", {"axes": [NOISE | {"scale": "log"}]}, "noise must begin above 0 on a logarithmic axis"),
        ("grid", {"axes": [NOISE | {"count": 41}]}, "count of noise must be a whole number from 2 to 40"),
        ("grid", {"axes": [NOISE | {"count": 40}, RATIO | {"count": 40}]}, "at most 200 points on the page, got 1600"),
        ("grid", {"axes": [NOISE, NOISE]}, "noise stands twice"),
        ("grid", {"axes": [NOISE], "seeds": 1000}, "seeds must be from 0 (theory alone) to 64"),
        ("grid", {"axes": [NOISE], "workers": 1}, "'workers' is not a setting of this question"),
        ("tune", {"over": [{"name": "law", "low": 0, "high": 1}], "goal": "excess_mse"}, "what is tuned is a number"),
        (
            "tune",
            {"over": [{"name": "time", "low": 0, "high": 9}], "goal": "excess_mse"},
            "time must lie between",
        ),
        ("dream", {}, "kind must be one of grid, tune, thresholds, hessian"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(visitor, kind, settings, said):
    told = ask(visitor, kind, settings)
    assert told.status_code == 422 and said in told.json()["message"]


def test_what_the_theory_refuses_is_said(visitor):
    assert "two-layer network" in answer(visitor, "thresholds", {})[-1][1]["message"]
    wrong = {"over": [{"name": "ridge", "low": 0.0, "high": 1.0}], "goal": "glory"}
    assert "goal must be a variable of the prediction" in answer(visitor, "tune", wrong)[-1][1]["message"]


def test_theory_alone_can_be_downloaded(visitor, tmp_path):
    told = dict(visitor.run("problem", {"problem": RIDGE, "times": 2.0, "d": 30}))["theory"]
    body = visitor.http.get(f"/api/predictions/{told['key']}")
    assert body.status_code == 200
    (tmp_path / "theory.nc").write_bytes(body.content)
    assert limen.load(tmp_path / "theory.nc").problem == limen.Ridge(0.5, 0.3)
    assert visitor.http.get("/api/predictions/" + 64 * "0").status_code == 404


@pytest.mark.slow
def test_thresholds_and_hessian_of_phase_retrieval(visitor):
    done = answer(visitor, "hessian", {}, problem=DESCENT, times=4.0)[-1][1]
    assert "after 0 steps" in done["text"] and len(done["figure"]["panels"]) == 2
    done = answer(visitor, "thresholds", {}, problem=DESCENT, times=8.0)[-1][1]
    assert "δ_alg = 0.5" in done["text"]


@pytest.mark.skipif(CHROMIUM is None, reason="no system Chromium: install the package chromium")
def test_in_a_browser_a_grid_and_the_best_are_asked_for(visitor):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(base_url=visitor.address)
        page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"/#/problem?problem={quote(json.dumps(RIDGE))}&times=40&d=30&seeds=2")
        grid = page.locator(".question.grid")
        grid.locator("summary").click()
        grid.locator("[name=first]").select_option("noise")
        grid.locator("[name=second]").select_option("ratio")
        for name in ("first-count", "second-count"):
            grid.locator(f"[name={name}]").fill("4")
        grid.get_by_role("button", name="Draw the grid").click()
        expect(grid.locator(".told")).to_have_text("done")
        expect(grid.locator(".said")).to_contain_text("16 of 16 points done")
        expect(grid.locator(".plot")).to_have_count(1)
        with page.expect_download() as saved:
            grid.get_by_role("button", name="Table (CSV)").click()
        assert len(saved.value.path().read_text().splitlines()) >= 17
        best = page.locator(".question.tune")
        best.locator("summary").click()
        best.locator("[name=first]").select_option("ridge")
        best.locator("[name=first-low]").fill("0.01")
        best.locator("[name=first-high]").fill("1")
        best.locator("[name=goal]").select_option("excess_mse")
        best.get_by_role("button", name="Find the best").click()
        expect(best.locator(".said")).to_contain_text("smallest excess_mse")
        before = page.locator("#p-problem").input_value()
        best.get_by_role("button", name="Take these parameters").click()
        expect(page.locator("#p-problem")).not_to_have_value(before)
        assert page.locator(".question.thresholds").count() == 0
        browser.close()
        assert complaints == []
