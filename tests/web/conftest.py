"""One server per test module, on a free port of this machine, with workers of its own."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from limen.web.app import create_app
from limen.web.limits import Limits
from limen.web.server import Server


class Visitor:
    """A client of one server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.http = httpx.Client(base_url=address, timeout=60.0)

    def begin(self, experiment: str, parameters: dict[str, Any], seeds: int = 0) -> httpx.Response:
        return self.http.post("/api/runs", json={"experiment": experiment, "parameters": parameters, "seeds": seeds})

    def follow(self, ticket: str, after: int = 0, until: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        """Events (kind, data) of a run up to its last, or up to the first of a kind ("any": of whatever kind)."""
        events, kind = [], ""
        with self.http.stream("GET", f"/api/runs/{ticket}/events?after={after}") as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    events.append((kind, json.loads(line[6:])))
                    if until in (kind, "any"):
                        return events
        return events

    def run(self, experiment: str, parameters: dict[str, Any], seeds: int = 0) -> list[tuple[str, dict[str, Any]]]:
        answer = self.begin(experiment, parameters, seeds)
        assert answer.status_code == 202, answer.text
        return self.follow(answer.json()["run"])

    def status(self) -> dict[str, int]:
        return self.http.get("/api/status").json()

    def wait_until(self, true, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while not true(self.status()):
            assert time.monotonic() < end, self.status()
            time.sleep(0.05)


@contextmanager
def serving(limits: Limits) -> Iterator[Visitor]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    config = uvicorn.Config(create_app(limits), log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    visitor = Visitor(f"http://127.0.0.1:{listener.getsockname()[1]}")
    try:
        yield visitor
    finally:
        visitor.http.close()
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def serve():
    """A context manager that serves with given limits."""
    return serving


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    with serving(Limits(simulators=1, grace=2.0, seconds=60.0)) as found:
        yield found
