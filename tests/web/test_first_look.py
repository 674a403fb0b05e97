"""A theory that takes long shows coarse curves first, and says that they are."""

import json
import shutil
from urllib.parse import quote

import pytest
from playwright.sync_api import expect, sync_playwright

import limen
from limen.experiments.experiment import Experiment
from limen.experiments.own_problem import OwnProblem
from limen.experiments.registry import PLACES, experiment_class
from limen.web import page_tasks
from limen.web.answers import Cancelled
from limen.web.computation import Computation
from limen.web.limits import Limits

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESCENT = """\
type = "TwoLayer"
samples_per_dim = 3.0
target = { formula = "tanh(2*z)", noise = 0.05 }
network = { width = 2, activation = "tanh" }
algorithm = { type = "GradientDescent", step = 0.3 }
"""
# Every change of the page: whether the picture is shown, whether curves are coarse and drawn, and the words beside.
WRITES_DOWN = """
window.seen = [];
new MutationObserver(() => {
  const part = (name) => document.querySelector(name);
  if (!part(".panels") || !part(".status")) return;
  window.seen.push({
    picture: !part(".meanwhile").hidden,
    coarse: part(".panels").classList.contains("coarse") && !part(".panels").classList.contains("stale"),
    plots: document.querySelectorAll(".panels .plot").length,
    trust: part(".trust").textContent,
    status: part(".status").textContent,
  });
}).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
"""
PREVIEWED = [name for name in PLACES if experiment_class(name).first_look is not Experiment.first_look]


def told(parameters, gone=lambda: False):
    """What a worker says of the theory of a problem, event by event."""
    events = []
    task = {"task": "run", "experiment": "problem", "parameters": parameters, "seeds": 0, "threads": 1}
    page_tasks.perform(task, lambda kind, body: events.append((kind, json.loads(body))), gone)
    return events


def test_coarse_curves_come_first_and_say_so(monkeypatch, tmp_path):
    monkeypatch.setenv("LIMEN_STORE", str(tmp_path))
    page_tasks._store.cache_clear()
    problem = limen.TwoLayer("z**2", limen.Network(1, "square"), limen.GradientDescent(0.1), 3.0)
    parameters = {"problem": problem.describe(), "times": 3.0}
    # Nothing is known of a new kind of problem, and nothing is quick.
    monkeypatch.setattr(page_tasks, "LONG", 0.0)
    (first, coarse), (second, exact), last = told(parameters)
    assert (first, second, last[0]) == ("preliminary", "theory", "done")
    assert coarse["preliminary"] and "key" not in coarse and "preliminary" not in exact
    assert coarse["status"].startswith("preliminary (median of 2 sets of 1024 paths")
    rough, fine = (one["headline"]["theory"]["test_loss"] for one in (coarse, exact))
    assert rough != fine and rough == pytest.approx(fine, rel=0.1)
    assert len(coarse["figure"]["panels"]) == len(exact["figure"]["panels"])
    # Who has gone meanwhile does not have the theory computed, and the process stays warm.
    elsewhere = parameters | {"times": 4.0}
    with pytest.raises(Cancelled):
        told(elsewhere, gone=lambda: True)
    # What is in the store comes at once, and so does what was quick the last time.
    assert [kind for kind, _ in told(parameters)] == ["theory", "done"]
    monkeypatch.setattr(page_tasks, "LONG", 1e9)
    other = problem.model_copy(update={"samples_per_dim": 3.5})
    assert [kind for kind, _ in told(parameters | {"problem": other.describe()})] == ["theory", "done"]
    page_tasks._store.cache_clear()


def test_a_first_look_is_forgotten_when_the_theory_is_there():
    computation = Computation("key", {}, "theory")
    computation.tell("preliminary")
    assert [event.kind for event in computation.events] == ["preliminary"]
    computation.tell("theory")
    computation.tell("done")
    assert [event.kind for event in computation.events] == ["theory", "done"]


def test_an_exact_flow_is_looked_at_from_its_beginning():
    neuron = limen.TwoLayer("tanh(2*z)", limen.Network(1, "tanh"), limen.GradientFlow(), 2.0)
    found = OwnProblem(problem=neuron, times=2.0).preliminary()
    assert found is not None
    drawn, result = found
    assert float(result.dataset.time[-1]) == 0.5 and drawn.times == 0.5 and "preliminary" in result.status


def test_no_look_where_the_theory_is_quick_or_refuses_what_is_coarser():
    assert OwnProblem(problem=limen.Ridge(0.5)).preliminary() is None
    many = limen.TwoLayer("z**2", limen.Network(8, "tanh"), limen.GradientDescent(0.1), 3.0)
    # 8 neurons over 200 steps are more coordinates than a coarse set has paths.
    assert OwnProblem(problem=many, times=200.0).preliminary() is None


@pytest.mark.slow
@pytest.mark.parametrize("name", PREVIEWED)
def test_a_first_look_is_drawn_like_the_theory(name):
    kind = experiment_class(name)
    experiment = kind(**kind.quick)
    found = experiment.preliminary()
    if found is None:
        # The quick parameters are as coarse as it gets.
        assert experiment.first_look() is None
        return
    drawn, result = found
    assert result.status.startswith("preliminary (")
    assert drawn.figure(result).panels and set(drawn.headline(result)) == {"theory"}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no system Chromium: install the package chromium")
def test_in_a_browser_a_picture_then_coarse_curves_then_the_theory(serve):
    # Time enough for the theory on a busy machine.
    with serve(Limits(simulators=1, seconds=300.0)) as visitor, sync_playwright() as playwright:
        # The template's picture is drawn once; without that the theory may be there first.
        assert visitor.http.get("/api/experiments/problem/thumbnail.svg", timeout=300.0).status_code == 200
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(base_url=visitor.address)
        page.set_default_timeout(300_000)
        expect.set_options(timeout=300_000)
        # The first words of the worker arrive late, as from a cold start; what they bring is written down as it comes.
        waiting, seen_the_picture = [], []
        page.route("**/events*", lambda route: route.continue_() if seen_the_picture else waiting.append(route))
        page.add_init_script(WRITES_DOWN)
        page.goto(f"/#/problem?problem={quote(json.dumps(DESCENT))}&times=40")
        expect(page.locator(".meanwhile img")).to_be_visible()
        expect(page.locator(".status")).to_contain_text("computing theory… ")
        seen_the_picture.append(True)
        for route in waiting:
            route.continue_()
        expect(page.locator(".status")).to_contain_text("theory redrawn in")
        expect(page.locator(".meanwhile")).to_be_hidden()
        expect(page.locator(".panels.coarse")).to_have_count(0)
        expect(page.locator(".trust")).not_to_contain_text("preliminary")
        expect(page.locator("#prediction")).to_be_visible()
        seen = page.evaluate("window.seen")
        coarse = [one for one in seen if one["coarse"] and one["plots"]]
        assert coarse and all("preliminary (" in one["trust"] and not one["picture"] for one in coarse), seen
        assert any("coarse curves; computing the theory…" in one["status"] for one in coarse)
        assert page.locator(".panels .plot").count() > 0 and page.locator(".panels.coarse").count() == 0
        browser.close()
