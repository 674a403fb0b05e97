"""Serving the page with uvicorn."""

import socket
import threading
import webbrowser

import uvicorn

from limen.web.app import create_app
from limen.web.limits import Limits

MOST_CONNECTIONS = 1000


class Server(uvicorn.Server):
    """A server that lets its listeners go before it waits for connections to close."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.jobs.dismiss()  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue]
        await super().shutdown(sockets)


def serve_page(listener: socket.socket, host: str, token: str | None, address: str, open_browser: bool) -> None:
    """Serves on a bound socket until interrupted; `address` is what a browser should open."""
    app = create_app(Limits(), host, token)
    config = uvicorn.Config(
        app, log_level="warning", ws="none", access_log=False, server_header=False, timeout_graceful_shutdown=2,
        limit_concurrency=MOST_CONNECTIONS, h11_max_incomplete_event_size=16 * 2**10,
    )  # fmt: skip
    if open_browser:
        threading.Timer(0.8, webbrowser.open, [address]).start()
    Server(config).run(sockets=[listener])
