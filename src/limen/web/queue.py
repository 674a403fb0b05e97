"""The queue: few workers, many visitors; identical requests share one computation, abandoned ones are given up."""

import asyncio
import json
import os
import secrets
import time
from collections import OrderedDict, deque
from contextlib import suppress
from typing import Any

from limen.web.computation import LAST, Computation, Ticket, key_of
from limen.web.limits import Limits
from limen.web.processes import Worker

TICK = 0.1
BOOT_SECONDS = 120.0
# A busy machine may take a while between giving a ticket and hearing from its owner.
TO_LISTEN = 30.0
# How long an abandoned computation may go on before its process is ended: a warm process is worth waiting for.
PATIENCE = {"theory": 1.5, "simulation": 1.5, "pictures": 10.0}


class Busy(Exception):
    """The queue is full."""


class ComputationQueue:
    """Two lanes, so that theory never waits for simulations: one warm process for theory, others for simulations."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lanes: dict[str, deque[Computation]] = {"theory": deque(), "simulation": deque(), "pictures": deque()}
        self._arrived = asyncio.Condition()
        self._shared: dict[str, Computation] = {}
        self._finished: OrderedDict[str, Computation] = OrderedDict()
        self._tickets: dict[str, Ticket] = {}
        self._workers: dict[int, Worker] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins to work; called inside the running loop."""
        self._tasks = [asyncio.create_task(self._work(("theory",)))]
        for _ in range(self.limits.simulators):
            self._tasks.append(asyncio.create_task(self._work(("simulation", "pictures"))))
        self._tasks.append(asyncio.create_task(self._sweep()))

    async def stop(self) -> None:
        """Ends every worker."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(asyncio.to_thread(worker.stop) for worker in self._workers.values()))
        self._workers.clear()

    def dismiss(self) -> None:
        """Ends every stream, so that the server can close its connections in peace."""
        for computation in {ticket.computation for ticket in self._tickets.values()}:
            computation.dismiss()

    def status(self) -> dict[str, Any]:
        """How many wait, how many run."""
        running = sum(computation.state == "running" for computation in self._shared.values())
        return {"waiting": self._waiting(), "running": running, "workers": len(self._workers)}

    def _waiting(self) -> int:
        return sum(map(len, self._lanes.values()))

    async def submit(self, task: dict[str, Any], lane: str) -> Ticket:
        """A ticket for this task: to one under way or finished if there is one, else to a new one in the queue."""
        key = key_of(task)
        computation = self._shared.get(key) or self._finished.get(key)
        if len(self._tickets) >= self.limits.tickets:
            raise Busy(f"{self.limits.tickets} visitors are being served: try again in a moment.")
        if computation is None:
            if self._waiting() >= self.limits.queue:
                raise Busy(f"{self.limits.queue} computations are waiting: try again in a moment.")
            computation = self._shared[key] = Computation(key, task, lane)
            self._lanes[lane].append(computation)
            computation.tell("queued", json.dumps({"ahead": len(self._lanes[lane]) - 1}).encode())
            async with self._arrived:
                self._arrived.notify_all()
        elif key in self._finished:
            self._finished.move_to_end(key)
        ticket = Ticket(secrets.token_urlsafe(12), computation)
        self._tickets[ticket.identifier] = ticket
        computation.tickets.add(ticket.identifier)
        return ticket

    def ticket(self, identifier: str) -> Ticket | None:
        """The ticket of this name, if it has not lapsed."""
        return self._tickets.get(identifier)

    def release(self, ticket: Ticket) -> None:
        """This visitor no longer wants it; what nobody wants is given up."""
        self._tickets.pop(ticket.identifier, None)
        computation = ticket.computation
        computation.tickets.discard(ticket.identifier)
        if computation.tickets or computation.over:
            return
        # Whoever asks for the same from now on gets a new computation.
        if self._shared.get(computation.key) is computation:
            del self._shared[computation.key]
        computation.abandoned_at = time.monotonic()
        with suppress(ValueError):
            self._lanes[computation.lane].remove(computation)
            computation.tell("cancelled")

    async def answer(self, task: dict[str, Any], lane: str) -> tuple[str, bytes]:
        """The last event of a task, for requests that wait for one answer."""
        ticket = await self.submit(task, lane)
        ticket.streams += 1
        kind, body = "failed", b'{"message": "The server is stopping."}'
        try:
            async for event in ticket.computation.follow():
                if event is not None and event.kind in LAST:
                    kind, body = event.kind, event.body
            return kind, body
        finally:
            self.release(ticket)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(TICK * 5)
            now = time.monotonic()
            for ticket in list(self._tickets.values()):
                patience = self.limits.grace if ticket.listened else max(self.limits.grace, TO_LISTEN)
                if not ticket.streams and now - ticket.seen > patience:
                    self.release(ticket)

    async def _next(self, lanes: tuple[str, ...]) -> Computation:
        async with self._arrived:
            while True:
                for lane in lanes:
                    if self._lanes[lane]:
                        return self._lanes[lane].popleft()
                await self._arrived.wait()

    async def _work(self, lanes: tuple[str, ...]) -> None:
        """One worker's life: a task after another; a process that was ended is replaced at once, to be warm in time."""
        worker = await self._new_worker()
        while True:
            computation = await self._next(lanes)
            if not worker.alive:
                worker = await self._replace(worker)
            task = dict(computation.task)
            if task["task"] == "run":
                task["threads"] = max(1, (os.cpu_count() or 1) // self.limits.simulators)
            sentence = await self._attend(worker, computation, task)
            if sentence is not None:
                worker = await self._replace(worker)
                if computation.abandoned_at is not None:
                    computation.tell("cancelled")
                else:
                    computation.tell("failed", json.dumps({"message": sentence}).encode())
            self._settle(computation)

    async def _attend(self, worker: Worker, computation: Computation, task: dict[str, Any]) -> str | None:
        """Hands events on until the last; a sentence if the process must be ended."""
        if not worker.send(task):
            return "The computing process ended unexpectedly: try again."
        limits, began, looked, asked, idle = self.limits, None, 0.0, False, 0
        sent = time.monotonic()
        while True:
            try:
                message = await asyncio.wait_for(worker.messages.get(), TICK)
            except TimeoutError:
                pass
            else:
                if message is None:
                    return "The computing process ended, probably for want of memory: choose smaller sizes."
                kind, body = message
                if kind == "began":
                    began, computation.state, idle = time.monotonic(), "running", worker.memory()
                else:
                    computation.tell(kind, body)
                if computation.over:
                    return None
            now = time.monotonic()
            left = computation.abandoned_at
            if left is not None and not asked:
                asked = worker.send({"task": "cancel"})
            if left is not None and now - left > PATIENCE[computation.lane]:
                return "cancelled"
            if (began is None and now - sent > BOOT_SECONDS) or (began is not None and now - began > limits.seconds):
                return (
                    f"Stopped after {limits.seconds:g} s, the limit for one computation. Finished seeds are kept: the "
                    "same again goes on from there, fewer seeds or smaller sizes take less."
                )
            if began is not None and now - looked > TICK:
                looked = now
                if worker.memory() - idle > limits.memory:
                    return "Stopped: it took more memory than one computation may have. Choose smaller sizes."

    def _settle(self, computation: Computation) -> None:
        """A finished computation is remembered as long as there is room; a failed one, or a visitor's data, is not."""
        if self._shared.get(computation.key) is computation:
            del self._shared[computation.key]
        if computation.events[-1].kind in ("done", "file") and computation.task.get("task") != "data":
            self._finished[computation.key] = computation
            while len(self._finished) > 1 and sum(c.size for c in self._finished.values()) > self.limits.cache:
                self._finished.popitem(last=False)

    async def _new_worker(self) -> Worker:
        worker = await asyncio.to_thread(Worker, asyncio.get_running_loop(), self.limits.memory)
        self._workers[id(worker)] = worker
        return worker

    async def _replace(self, worker: Worker) -> Worker:
        self._workers.pop(id(worker), None)
        await asyncio.to_thread(worker.stop)
        return await self._new_worker()
