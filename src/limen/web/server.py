"""Serving the page with uvicorn."""

import asyncio
import socket
import threading
import webbrowser

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from limen.web.app import create_app
from limen.web.limits import Limits

MOST_CONNECTIONS = 1000
# A visitor who has not said what he wants within so many seconds is let go.
HEADERS_WITHIN = 10.0


class Patient(H11Protocol):
    """HTTP for which an open connection without a whole request does not last."""

    _lapse: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Whatever came, the request is either whole now or has the time it had.
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._lapse is None:
            self._lapse = self.loop.call_later(HEADERS_WITHIN, self._let_go)

    def _stop_waiting(self) -> None:
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None

    def _let_go(self) -> None:
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """A server that lets its listeners go before it waits for connections to close."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.jobs.dismiss()  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue]
        await super().shutdown(sockets)


def serve_page(listener: socket.socket, host: str, token: str | None, address: str, open_browser: bool) -> None:
    """Serves on a bound socket until interrupted; `address` is what a browser should open."""
    app = create_app(Limits(), host, token)
    config = uvicorn.Config(
        app, log_level="warning", ws="none", http=Patient, access_log=False, server_header=False,
        timeout_graceful_shutdown=2, limit_concurrency=MOST_CONNECTIONS, h11_max_incomplete_event_size=16 * 2**10,
    )  # fmt: skip
    if open_browser:
        threading.Timer(0.8, webbrowser.open, [address]).start()
    Server(config).run(sockets=[listener])
