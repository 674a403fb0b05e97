"""The page in a browser, as a person uses it."""

import json
import re
import shutil
import time
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no system Chromium: install the package chromium")
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)
# Written by the code that draws, read here: how long the last redraw took, and how many there were.
REDRAWN = "document.querySelector('.panels').dataset"


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def context(browser, visitor):
    found = browser.new_context(base_url=visitor.address, viewport={"width": 1280, "height": 900})
    found.set_default_timeout(PATIENCE)
    yield found
    found.close()


@pytest.fixture
def page(context):
    found = context.new_page()
    complaints: list[str] = []
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("console", lambda line: complaints.append(line.text) if "Content Security Policy" in line.text else None)
    found.on("dialog", lambda dialog: (complaints.append("a dialog opened"), dialog.dismiss()))
    yield found
    assert complaints == []


def address(name: str, **state) -> str:
    return f"/#/{name}?" + "&".join(f"{key}={quote(json.dumps(value))}" for key, value in state.items())


def wait_until(page: Page, expression: str) -> None:
    """Polls from outside: playwright's own waiting evaluates text in the page, which the content policy forbids."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"{expression}: {page.locator('.status').inner_text()}"
        page.wait_for_timeout(20)


def wait_for_redraw(page: Page, count: int) -> None:
    expect(page.locator(".panels")).to_be_attached()
    wait_until(page, f"Number({REDRAWN}.drawn ?? 0) >= {count}")


def markers(page: Page) -> int:
    """Simulated points drawn."""
    return page.evaluate(
        "[...document.querySelectorAll('.plot')].flatMap(p => p.data ?? []).filter(t => t.mode === 'markers').length"
    )


def test_gallery_then_theory_follows_a_slider(page):
    page.goto("/")
    expect(page.locator(".card").first).to_be_visible()
    assert page.locator(".card").count() >= 40
    page.get_by_label("Filter experiments").fill("double descent")
    assert 1 <= page.locator(".card:visible").count() <= 4
    page.locator(".card[data-name=double-descent]").click()
    wait_for_redraw(page, 1)
    before = page.evaluate("document.querySelector('.plot').data[0].y")
    slider = page.get_by_label("noise, slider")
    slider.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    wait_for_redraw(page, 2)
    wait_until(page, "document.querySelector('.plot').data[0].y.at(-1) !== " + json.dumps(before[-1]))
    assert "noise=" in page.url
    assert page.locator("math").count() > 3
    assert markers(page) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("grokking", {"d": 40, "steps": 5, "samples_per_dim": [4, 10], "seeds": 6}),
        ("attention-clustering", {"tokens": 6, "d": 64, "horizon": 10, "largest_beta": 4, "seeds": 6}),
    ],
)
def test_an_experiment_runs_from_theory_to_verdict(page, context, name, state):
    page.goto(address(name, **state))
    wait_for_redraw(page, 1)
    assert markers(page) == 0
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator(".verdict")).to_be_visible()
    assert markers(page) > 0
    assert re.search(r"agrees|disagrees|Cannot tell", page.locator(".verdict").inner_text())
    expect(page.locator(".status")).to_contain_text("6 seeds done")
    assert page.locator(".numbers tbody tr").first.locator("td").nth(1).inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="theory (netCDF)").click()
    assert download.value.path().stat().st_size > 1000
    # The permalink shows the same to somebody else, simulation included.
    other = context.new_page()
    other.goto(page.url)
    expect(other.locator(".verdict")).to_be_visible()
    assert other.locator(".verdict").inner_text() == page.locator(".verdict").inner_text()
    assert other.locator("#p-d").input_value() == str(state["d"])
    # And so does the name of the stored run.
    identifier = page.locator(".identifier").inner_text()
    other.goto(f"/#/stored/{identifier}")
    other.reload()
    expect(other.locator(".verdict")).to_be_visible()
    assert name in other.url
    # It is first in the list of stored runs, with its verdict, and the list leads to it.
    other.goto("/")
    other.locator(".runs summary").click()
    newest = other.locator(".runs li").first
    said = re.search(r"agrees|disagrees|cannot tell", page.locator(".verdict").inner_text().lower())
    assert said and f"6 seeds · {said[0]} · just now · {identifier}" in newest.inner_text()
    newest.get_by_role("link").click()
    expect(other.locator(".verdict")).to_be_visible()
    assert name in other.url


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "double-descent",
        "attention-clustering",
        "attention-modes",
        "phase-retrieval-sgd",
        "spiked-tensor",
        "binary-mixture",
    ],
)
def test_theory_is_redrawn_within_300_ms(page, name):
    page.goto(address(name))
    wait_for_redraw(page, 1)
    slider = page.locator("input[type=range]").first
    slider.focus()
    times = []
    for turn in range(16):
        page.keyboard.press("ArrowRight")
        wait_for_redraw(page, turn + 2)
        times.append(int(page.evaluate(f"{REDRAWN}.redraw")))
    # The best of them: what the page needs, not what other work on the machine adds.
    assert min(times) < 300, times


@pytest.mark.slow
def test_points_arrive_and_the_run_can_be_cancelled(page, visitor):
    page.goto(address("double-descent", d=300, seeds=1000))
    wait_for_redraw(page, 1)
    page.keyboard.press("s")
    wait_until(page, "document.querySelector('progress').value > 0")
    expect(page.locator(".status")).to_contain_text("left")
    wait_until(
        page, "[...document.querySelectorAll('.plot')].flatMap(p => p.data ?? []).some(t => t.mode === 'markers')"
    )
    assert (
        0.0 < page.evaluate("document.querySelector('progress').value / document.querySelector('progress').max") < 1.0
    )
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".status")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Simulate")).to_be_visible()
    visitor.wait_until(lambda status: status["running"] == 0)
    # What had come stays in the picture, and no verdict is given on it.
    assert markers(page) > 0
    assert page.locator(".verdict:visible").count() == 0


@pytest.mark.slow
def test_a_malicious_formula_is_refused_in_words(page):
    page.goto(address("grokking", d=40, steps=5, samples_per_dim=[4]))
    wait_for_redraw(page, 1)
    field = page.locator("#p-target")
    for text, words in (
        ("__import__('os').system('id')", "is not allowed"),
        ("<img src=x onerror=alert(1)>", "cannot be read"),
        ("z**99", "an exponent"),
    ):
        field.fill(text)
        expect(page.locator(".control.formula.bad .wrong").first).to_contain_text(words)
        expect(page.locator(".status")).to_have_attribute("data-tone", "bad")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    field.fill("z**2")
    expect(page.locator(".control.formula.bad")).to_have_count(0)
    # In a permalink, too: the server refuses, the page shows the words as words.
    page.goto(address("grokking", target="<img src=x onerror=alert(1)>"))
    page.reload()
    expect(page.locator(".status")).to_contain_text("cannot be read")
    # The gallery's own picture stands there while a theory is awaited; nothing of what was typed does.
    assert page.locator('main img[src="x"], main img[onerror]').count() == 0
    page.goto("/#/<img src=x onerror=alert(1)>")
    expect(page.locator("#notice")).to_contain_text("no such experiment")


@pytest.mark.slow
def test_offline_in_the_middle_of_a_run_and_back(page, context):
    page.goto(address("double-descent", d=200, seeds=150))
    wait_for_redraw(page, 1)
    page.get_by_role("button", name="Simulate").click()
    wait_until(page, "document.querySelector('progress').value > 0")
    context.set_offline(True)
    expect(page.locator(".status")).to_contain_text("no connection")
    page.wait_for_timeout(1500)
    context.set_offline(False)
    expect(page.locator(".verdict")).to_be_visible()
    expect(page.locator(".status")).to_contain_text("150 seeds done")
    assert markers(page) > 0
    assert any(page.locator(".numbers tbody tr td:last-child").all_inner_texts()), "some number of the simulation"


@pytest.mark.slow
def test_phone_and_keyboard(browser, visitor):
    context = browser.new_context(
        base_url=visitor.address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True,
        color_scheme="dark",
    )  # fmt: skip
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto("/")
    expect(page.locator(".card").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto(address("attention-clustering", tokens=6, d=64, horizon=10, largest_beta=4))
    wait_for_redraw(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("Math.max(...[...document.querySelectorAll('.plot')].map(p => p.clientWidth))") <= 390
    # Curve and slider are in sight together, at the last parameter as at the first.
    for slider in (page.locator("input[type=range]").first, page.locator("input[type=range]").last):
        slider.scroll_into_view_if_needed()
        seen = page.evaluate(
            "(({ top, bottom }) => [top, bottom])(document.querySelector('.panels').getBoundingClientRect())"
        )
        box = slider.bounding_box()
        assert 0 <= seen[0] < seen[1] <= box["y"] < 844
    # Every control can be reached by the keyboard.
    reached = set()
    page.locator("main").focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"seeds", "simulate", "p-tokens", "p-tokens-slider", "p-d", "reset", "quick", "link"} <= reached
    context.close()


def test_questions_are_offered_whichever_answer_comes_first(page):
    ridge = 'type = "Ridge"\nratio = 0.5\n'

    def late(route):
        wait_for_redraw(page, 1)
        route.continue_()

    page.route("**/api/problem", late)
    page.goto(address("problem", problem=ridge, times=5))
    expect(page.locator(".question").first).to_be_attached()
    assert page.locator(".question.grid").count() == 1


def test_your_own_table(page, tmp_path):
    file = tmp_path / "prices.csv"
    lines = ["size,rooms,price"] + [f"{i % 13},{i % 5},{0.3 * (i % 13) + (i % 4)}" for i in range(80)]
    file.write_text("\n".join(lines))
    page.goto("/")
    page.get_by_role("link", name="your own data").click()
    page.get_by_label("Table").set_input_files(file)
    expect(page.get_by_label("Column to learn")).to_have_value("price")
    page.get_by_role("button", name="Draw the curve").click()
    expect(page.locator(".status")).to_contain_text("predicted from 80 rows, 2 columns")
    assert markers(page) == 2
    expect(page.get_by_label("Features", exact=True)).to_be_hidden()
    page.get_by_label("Model").select_option("random-features")
    page.get_by_label("Features", exact=True).fill("10,20,40")
    page.get_by_role("button", name="Draw the curve").click()
    expect(page.locator(".panels")).to_contain_text("random features")
    page.get_by_label("Column to learn").fill("colour")
    page.get_by_role("button", name="Draw the curve").click()
    expect(page.locator(".status")).to_contain_text("target must be one of the columns size, rooms, price")


def test_search_finds_authors_sources_and_words_and_says_when_nothing_matches(page):
    page.goto("/")
    field = page.locator("#filter")
    for text, name in (("Saad", "committee-sgd"), ("transformer", "attention-clustering"), ("phase diagram", "")):
        field.fill(text)
        expect(page.locator(".card:visible").first).to_be_visible()
        if name:
            expect(page.locator(f".card[data-name='{name}']")).to_be_visible()
    expect(page.locator(".none")).to_be_hidden()
    field.fill("zebra")
    expect(page.locator(".none")).to_contain_text("Nothing matches “zebra”")
    expect(page.locator(".card:visible")).to_have_count(0)
    assert page.locator(".card:visible").count() == 0


def test_back_keeps_filter_and_scroll(page):
    page.goto("/")
    page.locator("#filter").fill("sgd")
    page.wait_for_load_state("networkidle")
    page.evaluate("window.scrollTo(0, 300)")
    # A click of the mouse would first bring the card into view.
    page.locator(".card:visible").nth(2).evaluate("card => card.click()")
    expect(page.locator(".panels")).to_be_attached()
    page.go_back()
    expect(page.locator("#filter")).to_have_value("sgd")
    expect(page.locator(".card[data-name='grokking']")).to_be_hidden()
    wait_until(page, "Math.abs(window.scrollY - 300) < 60")
    assert page.locator("#filter").input_value() == "sgd"


def test_curves_are_pinned_rescaled_and_saved(page):
    page.goto(address("perceptron"))
    wait_until(page, f"Number({REDRAWN}.drawn) >= 1")
    first = page.evaluate("document.querySelector('.plot').data.length")
    page.locator("#pin").click()
    page.locator("#quick").click()
    wait_until(page, f"Number({REDRAWN}.drawn) >= 2")
    wait_until(page, f"document.querySelector('.plot').data.length > {first}")
    assert page.evaluate("document.querySelector('.plot').data[0].opacity") == 0.55
    page.locator("#scale-y").click()
    expect(page.locator("#scale-y")).to_have_text("y axis: log")
    wait_until(page, "document.querySelector('.plot').layout.yaxis.type === 'log'")
    with page.expect_download() as saved:
        page.locator("#curves").click()
    lines = saved.value.path().read_text().splitlines()
    assert lines[0] == "panel,series,x,y,error" and len(lines) > 10
    page.locator("#unpin").click()
    wait_until(page, "document.querySelector('.plot').data[0].opacity === undefined")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_violation_that_axe_knows(browser, visitor, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The content policy forbids foreign scripts, axe among them.
    context = browser.new_context(
        base_url=visitor.address, viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    ridge = 'type = "Ridge"\nratio = 0.5\n'
    for place, ready in (
        ("/#/", ".card"),
        (address("perceptron"), ".plot .main-svg"),
        (address("problem", problem=ridge, times=5), ".question"),
        ("/#/your-data", ".table-form"),
    ):
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(place)
        expect(page.locator(ready).first).to_be_attached()
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        # Cards and panels fade in, and what is half there has half its contrast.
        page.wait_for_timeout(1000)
        found = axe.run(page)
        assert found.violations_count == 0, found.generate_report()
        page.close()
    context.close()
