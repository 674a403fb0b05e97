"""The application: the page, and a JSON interface over the registry of experiments."""

import asyncio
import json
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from limen.citations import bibtex
from limen.experiments.registry import OWN, PLACES
from limen.problem.files.template import template
from limen.problem.spec import InputError
from limen.storage import FileStore
from limen.storage.remembered import latest
from limen.web.assets import assets
from limen.web.computation import Ticket
from limen.web.formula_check import check_formula
from limen.web.limits import Limits
from limen.web.own_data import data_task
from limen.web.own_problem import checked_problem, problem_parameters, problem_schema, read_text
from limen.web.pictures import packed
from limen.web.questions.asked import question_task
from limen.web.queue import Busy, ComputationQueue
from limen.web.schema import catalogue, parameters_of, schema, title
from limen.web.security import Guard

IDENTIFIER = re.compile(r"[0-9a-f]{4,64}")
MOST_STORED = 50
FILES = {
    "figure.svg": "image/svg+xml",
    "figure.png": "image/png",
    "figure.pdf": "application/pdf",
    "theory.nc": "application/x-netcdf",
    "simulation.nc": "application/x-netcdf",
}


def create_app(limits: Limits | None = None, host: str = "127.0.0.1", token: str | None = None) -> Starlette:
    """The application for a server bound to `host`; with a token, every request must bring it."""
    limits = limits or Limits()
    page = Page(limits)
    routes = [
        Route("/", page.asset),
        Route("/static/{name}", page.asset),
        Route("/api/status", page.status),
        Route("/api/experiments", page.experiments),
        Route("/api/experiments/{experiment}", page.schema),
        Route("/api/experiments/{experiment}/bibtex", page.bibtex),
        Route("/api/experiments/{experiment}/thumbnail.svg", page.thumbnail),
        Route("/api/formula", page.formula, methods=["POST"]),
        Route("/api/data", page.data, methods=["POST"]),
        Route("/api/problem", page.problem, methods=["POST"]),
        Route("/api/problem/theories", page.theories, methods=["POST"]),
        Route("/api/problem/{family}", page.template),
        Route("/api/questions", page.question, methods=["POST"]),
        Route("/api/predictions/{key}", page.prediction),
        Route("/api/runs", page.begin, methods=["POST"]),
        Route("/api/runs/{ticket}", page.run, methods=["GET", "DELETE"]),
        Route("/api/runs/{ticket}/events", page.events),
        Route("/api/stored", page.stored_runs),
        Route("/api/results/{identifier}", page.stored),
        Route("/api/results/{identifier}/{file}", page.file),
    ]
    guard = Middleware(Guard, host=host, token=token, largest_body=limits.body, larger={"/api/data": limits.upload})
    failures = {HTTPException: _refused, InputError: _mistaken, Busy: _busy}
    return Starlette(routes=routes, middleware=[guard], exception_handlers=failures, lifespan=page.lifespan)


class Page:
    """The answers; nothing here computes, everything heavy happens in worker processes."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Starts the workers, and ends them with the server."""
        self.jobs = app.state.jobs = ComputationQueue(self.limits)
        self.jobs.start()
        # The first visitor should not wait for the experiments to be imported.
        warming = asyncio.create_task(asyncio.to_thread(catalogue))
        try:
            yield
        finally:
            await warming
            await self.jobs.stop()

    async def asset(self, request: Request) -> Response:
        found = (await asyncio.to_thread(assets)).get(request.path_params.get("name", "index.html"))
        if found is None:
            raise HTTPException(404)
        headers = {"etag": found.tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        content = found.content
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            content = await asyncio.to_thread(lambda: found.compressed)
        return Response(content, media_type=found.media_type, headers=headers)

    async def status(self, request: Request) -> Response:
        return JSONResponse(self.jobs.status(), headers={"cache-control": "no-store"})

    async def experiments(self, request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(catalogue))

    async def schema(self, request: Request) -> Response:
        if request.path_params["experiment"] in OWN:
            return JSONResponse(problem_schema(self.limits))
        return JSONResponse(await asyncio.to_thread(schema, _experiment(request), self.limits))

    async def bibtex(self, request: Request) -> Response:
        described = await asyncio.to_thread(schema, _experiment(request), self.limits)
        keys = tuple(reference["key"] for reference in described["references"])
        return _download(bibtex(keys).encode(), f"{described['name']}.bib", "text/plain; charset=utf-8")

    async def thumbnail(self, request: Request) -> Response:
        body = (await asyncio.to_thread(packed)).get(request.path_params["experiment"])
        if body is None:
            task = {"task": "thumbnail", "experiment": _experiment(request)}
            body = await self._answer(request, task, "pictures")
        return Response(body, media_type="image/svg+xml", headers={"cache-control": "private, max-age=3600"})

    async def formula(self, request: Request) -> Response:
        asked = await _object(request, {"kind": str, "formula": str})
        return JSONResponse(check_formula(asked["kind"], asked["formula"], self.limits))

    async def data(self, request: Request) -> Response:
        """The learning curve of a visitor's own table: read by a worker, kept nowhere."""
        task = data_task(dict(request.query_params), await request.body(), self.limits)
        body = await self._answer(request, task, "simulation" if task["seeds"] else "theory", 422)
        return Response(body, media_type="application/json", headers={"cache-control": "no-store"})

    async def problem(self, request: Request) -> Response:
        asked = await _object(request, {"problem": (str, dict), "changes": dict})
        told = await asyncio.to_thread(checked_problem, asked["problem"], asked["changes"], self.limits)
        return JSONResponse(told)

    async def theories(self, request: Request) -> Response:
        asked = await _object(request, {"problem": (str, dict)})
        read = await asyncio.to_thread(read_text, asked["problem"], self.limits)
        task = {"task": "theories", "problem": read.problem.describe()}
        return Response(await self._answer(request, task, "theory"), media_type="application/json")

    async def template(self, request: Request) -> Response:
        return JSONResponse({"text": template(request.path_params["family"])})

    async def begin(self, request: Request) -> Response:
        asked = await _object(request, {"experiment": str, "parameters": dict, "seeds": int})
        name, seeds = asked["experiment"], asked["seeds"]
        if name not in PLACES | OWN:
            raise HTTPException(404, "There is no such experiment.")
        if not 0 <= seeds <= self.limits.seeds:
            raise InputError(f"seeds must be from 0 (theory alone) to {self.limits.seeds}, got {seeds}.")
        if name in OWN:
            parameters = await asyncio.to_thread(problem_parameters, asked["parameters"], self.limits)
        else:
            parameters = await asyncio.to_thread(parameters_of, name, asked["parameters"], self.limits)
        task = {"task": "run", "experiment": name, "parameters": parameters, "seeds": seeds}
        ticket = await self.jobs.submit(task, "simulation" if seeds else "theory")
        return JSONResponse({"run": ticket.identifier, "state": ticket.computation.state}, 202)

    async def question(self, request: Request) -> Response:
        """A grid, the best parameters, thresholds, the Hessian: begun like a run, and followed like one."""
        asked = await _object(request, {"kind": str, "experiment": str, "parameters": dict, "settings": dict})
        if asked["experiment"] not in PLACES | OWN:
            raise HTTPException(404, "There is no such experiment.")
        task = await asyncio.to_thread(question_task, asked, self.limits)
        ticket = await self.jobs.submit(task, "simulation")
        return JSONResponse({"run": ticket.identifier, "state": ticket.computation.state}, 202)

    async def prediction(self, request: Request) -> Response:
        key = request.path_params["key"]
        if not IDENTIFIER.fullmatch(key):
            raise HTTPException(404, "A prediction is named by hexadecimal digits.")
        body = await self._answer(request, {"task": "prediction", "key": key}, "theory")
        return _download(body, f"limen-{key[:10]}-theory.nc", FILES["theory.nc"])

    async def run(self, request: Request) -> Response:
        ticket = self._ticket(request)
        if request.method == "DELETE":
            self.jobs.release(ticket)
            return Response(status_code=204)
        return JSONResponse({"run": ticket.identifier, "state": ticket.computation.state})

    async def events(self, request: Request) -> Response:
        ticket = self._ticket(request)
        after = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
        if not (after.isascii() and after.isdigit() and len(after) < 10):
            raise InputError("the number of the last event must be a whole number.")
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._stream(ticket, int(after)), media_type="text/event-stream", headers=headers)

    async def _stream(self, ticket: Ticket, after: int) -> AsyncIterator[bytes]:
        ticket.streams += 1
        ticket.listened = True
        try:
            async for event in ticket.computation.follow(after):
                if event is None:
                    yield b": waiting\n\n"
                else:
                    yield f"id: {event.number}\nevent: {event.kind}\ndata: ".encode() + (event.body or b"{}") + b"\n\n"
        finally:
            ticket.streams -= 1
            ticket.seen = time.monotonic()

    async def stored_runs(self, request: Request) -> Response:
        # Read here, in a thread: a worker may be busy for minutes, and this is one look into the index.
        runs = await asyncio.to_thread(_latest_runs)
        return JSONResponse({"runs": runs}, headers={"cache-control": "no-store"})

    async def stored(self, request: Request) -> Response:
        task = {"task": "stored", "identifier": _identifier(request)}
        return Response(await self._answer(request, task, "theory"), media_type="application/json")

    async def file(self, request: Request) -> Response:
        what = request.path_params["file"]
        if what not in FILES:
            raise HTTPException(404)
        identifier = _identifier(request)
        body = await self._answer(request, {"task": "file", "identifier": identifier, "what": what}, "theory")
        return _download(body, f"limen-{identifier}-{what}", FILES[what])

    def _ticket(self, request: Request) -> Ticket:
        ticket = self.jobs.ticket(request.path_params["ticket"])
        if ticket is None:
            raise HTTPException(404, "There is no such run, or nobody asked for it for a while.")
        return ticket

    async def _answer(self, request: Request, task: dict[str, Any], lane: str, refusal: int = 404) -> bytes:
        """One answer from a worker, given up when the visitor goes."""
        answer = asyncio.create_task(self.jobs.answer(task, lane))
        gone = asyncio.create_task(_gone(request))
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise HTTPException(499)
            kind, body = answer.result()
        finally:
            answer.cancel()
            gone.cancel()
        if kind != "file":
            raise HTTPException(refusal, json.loads(body).get("message", "It was cancelled."))
        if len(body) > self.limits.file:
            raise HTTPException(404, f"This file has more than {self.limits.file} bytes: use `limen show`.")
        return body


def _latest_runs() -> list[dict[str, Any]]:
    try:
        found = latest(FileStore(), PLACES | OWN, MOST_STORED)
    except (InputError, OSError, sqlite3.Error):
        # Its own words would name the folder.
        raise HTTPException(503, "The store cannot be read.") from None
    return [{**run, "title": title(run["experiment"])} for run in found]


async def _gone(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


def _experiment(request: Request) -> str:
    name = request.path_params["experiment"]
    if name not in PLACES:
        raise HTTPException(404, "There is no such experiment.")
    return name


def _identifier(request: Request) -> str:
    identifier = request.path_params["identifier"]
    if not IDENTIFIER.fullmatch(identifier):
        raise HTTPException(404, "A stored run is named by 4 to 64 hexadecimal digits.")
    return identifier


async def _object(request: Request, wanted: dict[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """The JSON object of a request, with exactly these members of these types."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The body must be application/json.")
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise InputError("the body must be JSON.") from None
    if not isinstance(given, dict) or set(given) != set(wanted):
        raise InputError(f"the body must be an object of {', '.join(wanted)}.")
    for name, kind in wanted.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(given[name]) not in kinds:
            allowed = " or ".join(one.__name__ for one in kinds)
            raise InputError(f"{name} must be of type {allowed}, got {type(given[name]).__name__}.")
    return given


def _download(content: bytes, name: str, media_type: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(content, media_type=media_type, headers=headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.url.path.startswith("/api/"):
        return JSONResponse({"message": error.detail}, error.status_code)
    return PlainTextResponse(f"{error.detail}\n", error.status_code)


async def _mistaken(request: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, 422)


async def _busy(request: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, 503, {"retry-after": "2"})
