"""Many visitors at once: cached results for all of them, a queue that keeps its limits and loses nobody."""

import asyncio
import json
import time

import httpx
import pytest

from limen.web.limits import Limits

pytestmark = pytest.mark.slow
QUICK = {"d": 8, "samples_per_dim": 2.0}


async def last_event(client: httpx.AsyncClient, body: dict) -> str:
    """Asks for a run and listens to its end; a refusal is its status."""
    answer = await client.post("/api/runs", json=body)
    if answer.status_code != 202:
        return str(answer.status_code)
    kind = ""
    async with client.stream("GET", f"/api/runs/{answer.json()['run']}/events") as events:
        if events.status_code != 200:
            return str(events.status_code)
        async for line in events.aiter_lines():
            if line.startswith("event: "):
                kind = line[7:]
    return kind


def all_at_once(address: str, bodies: list[dict]) -> list[str]:
    async def go() -> list[str]:
        # A connection kept from the first request may be closed by the server just when the second is sent.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=address, timeout=120.0, limits=limits) as client:
            return await asyncio.gather(*(last_event(client, body) for body in bodies))

    return asyncio.run(go())


def body_of(seeds: int, **parameters) -> dict:
    return {"experiment": "perceptron", "parameters": {**QUICK, **parameters}, "seeds": seeds}


def test_two_hundred_visitors_of_a_cached_result(visitor):
    assert visitor.run("perceptron", QUICK, seeds=6)[-1][0] == "done"
    began = time.perf_counter()
    answers = all_at_once(visitor.address, [body_of(6)] * 200)
    assert answers == ["done"] * 200
    assert time.perf_counter() - began < 30.0
    assert visitor.status()["waiting"] == 0


def test_fifty_queued_simulations_are_all_done_and_the_server_answers_meanwhile(visitor):
    bodies = [body_of(2, samples_per_dim=1.0 + 0.02 * i) for i in range(50)]
    slowest, most_running, done = 0.0, 0, []

    async def watch(client: httpx.AsyncClient, finished: asyncio.Event) -> None:
        nonlocal slowest, most_running
        while not finished.is_set():
            began = time.perf_counter()
            status = (await client.get("/api/status")).json()
            slowest = max(slowest, time.perf_counter() - began)
            most_running = max(most_running, status["running"])
            await asyncio.sleep(0.05)

    async def go() -> list[str]:
        async with httpx.AsyncClient(base_url=visitor.address, timeout=120.0) as client:
            finished = asyncio.Event()
            watching = asyncio.create_task(watch(client, finished))
            answers = await asyncio.gather(*(last_event(client, body) for body in bodies))
            finished.set()
            await watching
            return answers

    done = asyncio.run(go())
    assert done == ["done"] * 50
    assert most_running == 1, "one simulation at a time, as the limits say"
    assert slowest < 2.0, "the server never waits for a computation"


def test_beyond_the_queue_visitors_are_told_to_come_back(serve):
    with serve(Limits(simulators=1, queue=5)) as visitor:
        bodies = [body_of(2, samples_per_dim=1.0 + 0.02 * i) for i in range(20)]
        answers = all_at_once(visitor.address, bodies)
        assert set(answers) == {"done", "503"}
        # Five wait, and a worker may take one or two away while the others arrive.
        assert 5 <= answers.count("done") <= 12


def test_time_and_memory_are_limited(serve):
    with serve(Limits(simulators=1, seconds=1.0)) as visitor:
        kind, data = visitor.run("double-descent", {"d": 300}, 1000)[-1]
        assert kind == "failed"
        assert data["message"].startswith("Stopped after 1 s, the limit for one computation.")
        assert visitor.status()["workers"] == 2, "a new process took its place"
    with serve(Limits(simulators=1, memory=50 * 2**20)) as visitor:
        kind, data = visitor.run("double-descent", {"d": 300}, 1000)[-1]
        assert kind == "failed"
        assert "memory" in data["message"]
        assert "/" not in json.dumps(data)
