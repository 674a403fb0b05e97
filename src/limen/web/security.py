"""The door: who may speak to the server, how much they may say, and what a browser may do with the answers."""

import asyncio
import hmac
import ipaddress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "limen_token"
BODY_SECONDS = 10.0
LONGEST_QUERY = 1000
HEADERS = {
    # Styles: plotly writes some into the page. Images: plotly draws maps as data and exports blobs.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether an address reaches this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Checks every request before the application sees it.

    The host must be a name of this server (400): a name that an attacker's DNS points here is refused. An origin must
    be the page's own (403). With a token, it must come as a bearer header or as the cookie that `/?token=...` sets
    (401). A body is read whole before it is handed on, up to `largest_body` (413), or what `larger` says for its path.
    """

    def __init__(
        self, app: ASGIApp, host: str, token: str | None, largest_body: int, larger: dict[str, int] | None = None
    ) -> None:
        self.app, self.token, self.largest_body, self.larger = app, token, largest_body, larger or {}
        self.bound_to, self.local = host, is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                have = {name.lower() for name, _ in message["headers"]}
                extra = [
                    (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in have
                ]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        if scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, guarded)
            return
        body = await self._body(headers, receive, self.larger.get(scope["path"], self.largest_body))
        if isinstance(body, Response):
            await body(scope, receive, guarded)
            return
        await self.app(scope, _replayed(body, receive), guarded)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        host = headers.get("host", "")
        if not self._own(host):
            return PlainTextResponse("The host of this request is not this server's.\n", 400)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return PlainTextResponse("Requests from other pages are refused.\n", 403)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and scope["path"] != "/":
            return PlainTextResponse("Requests from other pages are refused.\n", 403)
        return self._without_token(scope, headers) if self.token else None

    def _own(self, host: str) -> bool:
        """Loopback servers answer to loopback names; others also to addresses in digits, which no DNS can redirect."""
        name = _hostname(host)
        if not name:
            return False
        if is_loopback(name):
            return True
        if self.local:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == self.bound_to.lower()
        return True

    def _without_token(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        given = [headers.get("authorization", "").removeprefix("Bearer ")]
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None:
            given.append(cookie.value)
        if any(self._right(text) for text in given):
            return None
        asked = dict(parse_qsl(scope["query_string"][:LONGEST_QUERY].decode("latin-1"))).get("token", "")
        if scope["path"] == "/" and self._right(asked):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self.token or "", httponly=True, samesite="strict", path="/")
            return answer
        words = "This server wants its token: open the address that `limen web` printed.\n"
        return PlainTextResponse(words, 401, {"www-authenticate": "Bearer"})

    def _right(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), (self.token or "").encode())

    async def _body(self, headers: dict[str, str], receive: Receive, largest: int) -> bytes | Response:
        too_large = PlainTextResponse(f"A request may have at most {largest} bytes.\n", 413)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 12:
            return PlainTextResponse("The length of this request cannot be read.\n", 400)
        if int(length) > largest:
            return too_large
        parts, total = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    total += len(parts[-1])
                    if total > largest:
                        return too_large
                    if message["type"] != "http.request" or not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return PlainTextResponse("The request came too slowly.\n", 408)


def _hostname(host: str) -> str | None:
    """The name in a Host header without its port; None if it is none."""
    if not host or len(host) > 255 or not all(c.isalnum() or c in ".-:[]" for c in host):
        return None
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _replayed(body: bytes, receive: Receive) -> Receive:
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
