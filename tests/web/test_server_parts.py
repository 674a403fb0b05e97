"""Pieces of the server without a server: the door, the queue, progress, what is stored, and figures by hand."""

import asyncio
import json
import socket
import threading

import httpx
import numpy as np
import pytest
import uvicorn

from limen.experiments.figure import Band, Figure, Histogram, Line, Map, Panel, Points, Threshold
from limen.experiments.kernel.perceptron import Perceptron
from limen.machine.pace import Pace
from limen.storage import FileStore
from limen.web import page_tasks, server
from limen.web.app import create_app
from limen.web.computation import Computation
from limen.web.figure_json import figure_json
from limen.web.limits import Limits
from limen.web.queue import Busy, ComputationQueue
from limen.web.schema import parameters_of, schema
from limen.web.security import HEADERS
from limen.web.thumbnail import HEIGHT, MARGIN, WIDTH, thumbnail

TOKEN = "a-token-of-some-length"
HOST = "127.0.0.1:8765"


def ask(app, method, path, **options):
    async def go():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{HOST}") as client:
            return await client.request(method, path, **options)

    return asyncio.run(go())


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": f"http://{HOST}.evil.example"},
        {"origin": f"http://{HOST}1"},
        {"origin": "http://127.0.0.1"},
        {"origin": f"http://evil.example/http://{HOST}"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_an_origin_that_only_looks_like_ours_is_403(headers):
    assert ask(create_app(), "POST", "/api/formula", json={}, headers=headers).status_code == 403


@pytest.mark.parametrize("given", [TOKEN + "x", TOKEN[:-1], TOKEN.upper(), "", " ", "é"])
def test_a_token_is_right_to_the_last_letter(given):
    app = create_app(host="0.0.0.0", token=TOKEN)
    for headers in (
        {"authorization": f"Bearer {given}".encode("latin-1")},
        {"cookie": f"limen_token={given}".encode()},
    ):
        assert ask(app, "GET", "/api/experiments", headers=headers).status_code == 401
    assert ask(app, "GET", "/", params={"token": given}).status_code == 401
    assert ask(app, "GET", "/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_refusals_carry_every_header_too():
    app = create_app(host="0.0.0.0", token=TOKEN)
    big = b" " * (Limits().body + 1)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    answers = {
        200: ask(app, "GET", "/", headers=bearer),
        400: ask(app, "GET", "/", headers={"host": "evil.example"}),
        401: ask(app, "GET", "/"),
        403: ask(app, "GET", "/static/app.js", headers={**bearer, "origin": "null"}),
        404: ask(app, "GET", "/nothing", headers=bearer),
        413: ask(app, "POST", "/api/formula", content=big, headers=bearer),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert {
        "content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy",
        "cross-origin-opener-policy", "cross-origin-resource-policy", "permissions-policy",
    } == set(HEADERS)  # fmt: skip
    policy = HEADERS["content-security-policy"].split("; ")
    assert {"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "connect-src 'self'"} <= set(policy)


def test_a_body_may_have_exactly_its_limit():
    async def parts(size):
        yield b" " * (size - 10)
        yield b" " * 10

    app, most = create_app(), Limits().body
    for size, status in ((most, 422), (most + 1, 413)):
        for content in (b" " * size, parts(size)):
            headers = {"content-type": "application/json"}
            assert ask(app, "POST", "/api/formula", content=content, headers=headers).status_code == status


def test_more_seeds_than_allowed_are_refused():
    body = {"experiment": "perceptron", "parameters": {}, "seeds": Limits().seeds + 1}
    answer = ask(create_app(), "POST", "/api/runs", json=body)
    assert answer.status_code == 422
    assert answer.json()["message"] == "seeds must be from 0 (theory alone) to 1000, got 1001."


def test_a_file_beyond_the_limit_is_not_sent():
    app = create_app(Limits(file=10))
    page = next(route for route in app.routes if route.path == "/api/results/{identifier}").endpoint.__self__

    class Answers:
        size = 10

        async def answer(self, task, lane):
            return "file", b"x" * self.size

    page.jobs = Answers()
    assert ask(app, "GET", "/api/results/abcd/theory.nc").content == b"x" * 10
    page.jobs.size = 11
    answer = ask(app, "GET", "/api/results/abcd/theory.nc")
    assert answer.status_code == 404
    assert "more than 10 bytes" in answer.json()["message"]


def test_the_queue_and_the_visitors_are_counted_to_the_last():
    async def go():
        jobs = ComputationQueue(Limits(queue=2, tickets=4))
        first, _ = [await jobs.submit({"number": number}, "simulation") for number in range(2)]
        with pytest.raises(Busy, match="2 computations are waiting"):
            await jobs.submit({"number": 2}, "theory")
        shared = await jobs.submit({"number": 0}, "simulation")
        assert shared.computation is first.computation
        await jobs.submit({"number": 1}, "simulation")
        with pytest.raises(Busy, match="4 visitors"):
            await jobs.submit({"number": 1}, "simulation")
        jobs.release(first)
        assert jobs.status()["waiting"] == 2, "somebody else still wants it"
        jobs.release(shared)
        assert jobs.status()["waiting"] == 1
        assert shared.computation.state == "cancelled"

    asyncio.run(go())


def test_finished_answers_are_kept_while_there_is_room_the_latest_used_longest():
    async def go():
        jobs = ComputationQueue(Limits(cache=100))
        for number in (0, 1, 2, 0, 3):
            ticket = await jobs.submit({"number": number}, "theory")
            if ticket.computation.state == "queued":
                jobs._lanes["theory"].clear()
                ticket.computation.tell("done", b"x" * 33)
                jobs._settle(ticket.computation)
        states = {}
        for number in range(4):
            ticket = await jobs.submit({"number": number}, "theory")
            states[number] = ticket.computation.state
        return states

    assert asyncio.run(go()) == {0: "done", 1: "queued", 2: "done", 3: "done"}


def test_memory_is_counted_from_what_an_idle_worker_holds(monkeypatch):
    """A worker that holds a gigabyte before it begins may take another 100 bytes, and is stopped at 101."""

    class Worker:
        def __init__(self, peak):
            self.messages = asyncio.Queue()
            self.held = [10**9, *([peak] * 5)]
            self.messages.put_nowait(("began", b""))

        def send(self, task):
            return True

        def memory(self):
            held = self.held.pop(0)
            if not self.held:
                self.messages.put_nowait(("done", b"{}"))
                self.held = [held]
            return held

    async def go(peak):
        computation = Computation("key", {}, "theory")
        return await ComputationQueue(Limits(memory=100))._attend(Worker(peak), computation, {})

    monkeypatch.setattr("limen.web.queue.TICK", 0.001)
    assert asyncio.run(go(10**9 + 100)) is None
    assert "more memory" in (asyncio.run(go(10**9 + 101)) or "")


def test_a_listener_gets_what_came_since_and_the_last_picture_stays():
    async def go():
        computation = Computation("key", {}, "simulation")
        computation.tell("queued")
        computation.tell("theory", b"1")
        for body in (b'{"figure": 1}', b"{}", b'{"left": 1}'):
            computation.tell("seeds", body)
        kept = [(event.number, event.body) for event in computation.events]
        assert kept == [(2, b"1"), (3, b'{"figure": 1}'), (5, b'{"left": 1}')]
        computation.tell("seeds", b'{"figure": 2}')
        assert [event.body for event in computation.events] == [b"1", b'{"figure": 2}']
        computation.tell("done")
        numbers = [[event.number async for event in computation.follow(after) if event] for after in (0, 2, 6, 7)]
        assert numbers == [[2, 7], [7], [7], []]

    asyncio.run(go())


def test_time_left_is_the_pace_of_new_seeds_whoever_computes_them(monkeypatch):
    """Two of ten seeds were stored, one comes at once; one more in three seconds: the other six take eighteen."""
    told, clock = [], [100.0]
    monkeypatch.setattr(page_tasks.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(page_tasks, "Pace", lambda threads: Pace(threads, clock=lambda: clock[0]))
    narration = page_tasks._Narration(
        Perceptron(), tuple(range(10)), 1, lambda kind, body: told.append(json.loads(body)), lambda: False
    )
    narration.seed(2, 10)
    narration.seed(3, 10)
    clock[0] += 3.0
    narration.seed(4, 10)
    assert told[0] == {"done": 2, "total": 10, "elapsed": 0.0}
    assert "left" not in told[1], "the first new seed only starts the clock"
    assert told[2] == {"done": 4, "total": 10, "elapsed": 3.0, "left": 18.0}


def by_hand():
    marks = [
        Map([1.0, 2.0, 3.0], [10.0, 20.0], [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], "phase"),
        Band([1.0, 2.0], [3.0, 4.0], [5.0, 7.0]),
        Histogram([0.0, 1.0, 3.0], [6.0, 8.0]),
        Points([1.0, 2.0], [3.0, 9.0], [0.1, 0.3]),
        Threshold("a", x=2.0),
        Threshold("b", y=15.0),
    ]
    return Panel("x", "y", marks, x_range=(1.0, 100.0), y_range=(-1.0, 30.0), x_scale="log")


def test_traces_by_hand():
    panel = figure_json(Figure([by_hand()]))["panels"][0]
    heat, low, high, bars, points = panel["data"]
    assert (heat["x"], heat["y"], heat["z"]) == ([1, 2, 3], [10, 20], [[0, 0, 0], [1, 1, 1]])
    assert (low["y"], high["y"], high["fill"]) == ([3, 4], [5, 7], "tonexty")
    assert (bars["x"], bars["y"], bars["line"]["shape"]) == ([0, 1, 3], [6, 8, 8], "hv")
    assert (points["y"], points["error_y"]["array"]) == ([3, 9], [0.1, 0.3])
    layout = panel["layout"]
    assert (layout["xaxis"]["range"], layout["yaxis"]["range"]) == ([0.0, 2.0], [-1.0, 30.0])
    places = [[shape[end] for end in ("x0", "x1", "y0", "y1")] for shape in layout["shapes"]]
    assert places == [[2, 2, 0, 1], [0, 1, 15, 15]]
    across, up = layout["annotations"]
    assert (across["x"], up["y"]) == (pytest.approx(np.log10(2.0)), 15)


def test_up_is_up_in_a_picture():
    picture = thumbnail(Figure([Panel("x", "y", [Line([0.0, 1.0], [0.0, 1.0])])]))
    assert f'd="M{MARGIN}.0 {HEIGHT - MARGIN}.0L{WIDTH - MARGIN}.0 {MARGIN}.0"' in picture
    cells = thumbnail(Figure([Panel("x", "y", [Map([0, 1], [0, 1], [[0.0, 0.0], [1.0, 1.0]])])]))
    dark, bright = cells.index("#00224e"), cells.index("#fee838")
    assert f'y="{HEIGHT / 2:.1f}"' in cells[:dark], "the first row of values is the lower"
    assert f'y="{MARGIN:.1f}"' in cells[dark:bright]


def test_the_size_of_a_problem_is_bounded_and_bounds_include_their_ends():
    limits = Limits(size_factor=2)
    size = next(control for control in schema("perceptron", limits)["parameters"] if control["name"] == "d")
    most = 2 * Perceptron.model_fields["d"].default
    assert size["maximum"] == most
    assert parameters_of("perceptron", {"d": most}, limits)["d"] == most
    with pytest.raises(ValueError, match=f"d must be at most {most}"):
        parameters_of("perceptron", {"d": most + 1}, limits)


@pytest.fixture
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_STORE", str(tmp_path / "own"))
    return FileStore()


def remembered(store, *numbers, experiment="perceptron", kept=True, verdict="agrees"):
    """Runs of which each was made at the second of its number."""
    run = {"experiment": experiment, "parameters": {"d": 8}, "seeds": [0, 1, 2], "theory": "any", "simulations": []}
    for number in numbers[:1]:
        store.put_run(f"{number:064x}", {**run, "theory": f"theory{number}"}, verdict)
    with store.index.write() as index:
        index.execute("UPDATE runs SET created = ? WHERE id = ?", (numbers[0], f"{numbers[0]:064x}"))
        index.executemany(
            "INSERT INTO runs SELECT ?, experiment, parameters, seeds, ?, simulations, ? FROM runs WHERE id = ?",
            [(f"{n:064x}", f"theory{n}", n, f"{numbers[0]:064x}") for n in numbers[1:]],
        )
        if kept:
            rows = [(f"theory{number}",) for number in numbers]
            index.executemany("INSERT INTO results VALUES (?, 'file', NULL, 'theory', '')", rows)


def test_stored_runs_are_listed_newest_first(own_store):
    assert ask(create_app(), "GET", "/api/stored").json() == {"runs": []}
    remembered(own_store, 2, verdict=None)
    remembered(own_store, 1)
    remembered(own_store, 3, experiment="one-that-was-renamed")
    remembered(own_store, 4, kept=False)
    answer = ask(create_app(), "GET", "/api/stored")
    assert answer.headers["cache-control"] == "no-store"
    newest, oldest = answer.json()["runs"]
    assert oldest == {
        "identifier": f"{1:064x}", "experiment": "perceptron", "title": "Perceptron", "parameters": {"d": 8},
        "seeds": 3, "created": 1.0, "verdict": "agrees",
    }  # fmt: skip
    assert (newest["identifier"], newest["created"], newest["verdict"]) == (f"{2:064x}", 2.0, None)


def test_at_most_fifty_stored_runs_are_listed(own_store):
    remembered(own_store, *range(53))
    listed = ask(create_app(), "GET", "/api/stored").json()["runs"]
    assert [run["created"] for run in listed] == list(range(52, 2, -1))


def test_a_store_that_cannot_be_read_is_said_without_its_place(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LIMEN_STORE", str(tmp_path / "file"))
    answer = ask(create_app(), "GET", "/api/stored")
    assert (answer.status_code, answer.json()) == (503, {"message": "The store cannot be read."})


def test_the_list_is_behind_the_token_and_takes_no_other_method(own_store):
    locked = create_app(host="0.0.0.0", token=TOKEN)
    assert ask(locked, "GET", "/api/stored").status_code == 401
    assert ask(locked, "GET", "/api/stored", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert ask(create_app(), "POST", "/api/stored", json={}).status_code == 405


def test_a_card_shows_the_first_panel_with_a_curve():
    bars, curve = Panel("x", "y", [Histogram([0.0, 1.0], [1.0])]), Panel("x", "y", [Line([0.0, 1.0], [0.0, 1.0])])
    assert thumbnail(Figure([bars, curve, bars])) == thumbnail(Figure([curve]))
    assert "<rect" in thumbnail(Figure([bars, bars]))


def test_a_connection_that_never_asks_is_let_go(monkeypatch):
    monkeypatch.setattr(server, "HEADERS_WITHIN", 0.3)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(app, log_level="error", ws="none", http=server.Patient, lifespan="off")
    running = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        for beginning in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection(listener.getsockname(), timeout=10.0) as silent:
                silent.sendall(beginning)
                assert silent.recv(100) == b""
        with socket.create_connection(listener.getsockname(), timeout=10.0) as asking:
            asking.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert asking.recv(1000).startswith(b"HTTP/1.1 200")
    finally:
        running.should_exit = True
        thread.join()
        listener.close()
