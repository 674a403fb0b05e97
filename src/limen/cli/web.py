"""`limen web`: the page on this machine, or with a token on others."""

import re
import secrets
import socket
from contextlib import ExitStack
from importlib.util import find_spec

import click

from limen.problem.spec import InputError

NEEDED = ("plotly", "starlette", "uvicorn")
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")


def serve(host: str, port: int, token: str | None, open_browser: bool) -> None:
    """Checks the address, says where the page is, and serves it until Ctrl-C."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(f"the page needs {', '.join(missing)}: install limen[web].")
    from limen.web.security import is_loopback
    from limen.web.server import serve_page

    if token is not None and not TOKEN.fullmatch(token):
        raise InputError("--token must be at least 16 letters, digits, - or _.")
    if token is None and not is_loopback(host):
        raise InputError(
            f"--host {host} can be reached by others and demands --token, for example {secrets.token_urlsafe(16)}."
        )
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")
    click.echo(f"limen is at {address}  (Ctrl-C ends it)")
    serve_page(listener, host, token, address, open_browser)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as unless_bound:
            listener = unless_bound.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(512)
            unless_bound.pop_all()
    except OSError as error:
        raise InputError(f"cannot serve on {host} port {port}: {error.strerror or error}.") from None
    return listener
