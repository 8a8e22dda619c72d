"""Serves the page: files, a stream of events, keys and the login.

A stream ends if its viewer reads nothing during TAKE_WITHIN, and at most one event waits for any viewer.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from streamjobs.worker.health.connection import Connection, Group
from streamjobs.worker.page.access import Access
from streamjobs.worker.page.ask import Asker
from streamjobs.worker.page.figures import MOST_KEY, Figures

STATIC = Path(__file__).parent / "static"
FILES = {  # name -> content type; nothing else is served from the folder
    "page.js": "text/javascript",
    "charts.js": "text/javascript",
    "forecasts.js": "text/javascript",
    "format.js": "text/javascript",
    "people.js": "text/javascript",
    "tables.js": "text/javascript",
    "uPlot.iife.min.js": "text/javascript",
    "page.css": "text/css",
    "uPlot.min.css": "text/css",
    "icon.svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
UNBUFFERED = {"X-Accel-Buffering": "no"}  # nginx would keep events until its buffer is full
WITHIN = 20.0  # seconds for a request and its answer
TAKE_WITHIN = 10.0  # seconds for a viewer to take an event
MOST_STREAMS = 32
MOST_OPEN = 64  # connections, streams included
SEND_BUFFER = 128 << 10  # bytes of a stream that the kernel keeps
WRONG_TOKEN = 0.5  # seconds that the answer to a wrong token takes
MOST_FORM = 4 << 10  # bytes
NOTHING = -2  # looks that a viewer has who has just come
RETRY = b"retry: 2000\n\n"  # milliseconds until a browser connects again

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Viewers(Group):
    answers_after_eof = False

    def oldest(self) -> Connection:
        """A stream only where all are streams."""
        return next((one for one in self if not one.stream), next(iter(self)))


class Web:
    def __init__(
        self, figures: Figures, access: Access, asker: Asker, looked: Callable[[], asyncio.Event], port: int
    ) -> None:
        self._figures, self._access, self._asker = figures, access, asker
        self._looked, self._port = looked, port  # looked: gives the event of the next look
        self._open = Viewers()
        self._streams = 0

    async def answer(self, request: web.BaseRequest, connection: Connection) -> web.StreamResponse:
        """Serve a request; its connection is not one of the few that are kept for metrics."""
        connection.group.pop(connection, None)
        connection.group = self._open
        self._open.add(connection, MOST_OPEN)
        connection.end_within(WITHIN)
        try:
            response = await self._guarded(request)
        except web.HTTPException as error:
            headers = {name: error.headers[name] for name in ("WWW-Authenticate", "Allow") if name in error.headers}
            response = web.Response(status=error.status, text=error.text, headers=headers)
        if not response.prepared:
            response.headers.update(HEADERS)
            response.force_close()
        return response

    def _handler(self, request: web.BaseRequest) -> Handler:
        path = request.path
        served: dict[str, tuple[Handler, tuple[str, ...]]] = {
            "/": (self._index, ("GET", "HEAD")),
            "/events": (self._events, ("GET",)),
            "/login": (self._login, ("POST",)),
            "/api/keys": (self._listed, ("GET",)),
        }
        other = self._file if path.startswith("/page/") else self._key
        handler, methods = served.get(path, (other, ("GET", "HEAD")))
        if request.method not in methods:
            raise web.HTTPMethodNotAllowed(request.method, methods)
        return handler

    async def _guarded(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._access.refuses_host(request.headers.get("Host", "")):
            raise web.HTTPMisdirectedRequest(
                text="expected a Host of this machine, such as localhost; to serve others set [metrics] token_file\n"
            )
        open_to_all = request.path == "/login" or request.path.startswith("/page/")  # nothing there shows data of the job
        if not open_to_all and not self._access.admits(request.headers, request.cookies.get(self._cookie)):
            if request.path == "/":
                return self._page("login.html", 401)
            raise web.HTTPUnauthorized(
                text="expected a header 'Authorization: Bearer TOKEN'\n", headers={"WWW-Authenticate": "Bearer"}
            )
        return await self._handler(request)(request)

    @property
    def _cookie(self) -> str:
        return f"streamjobs-{self._port}"

    def _page(self, name: str, status: int = 200) -> web.Response:
        return web.Response(body=(STATIC / name).read_bytes(), status=status, content_type="text/html", charset="utf-8")

    async def _index(self, request: web.BaseRequest) -> web.Response:
        return self._page("index.html")

    async def _file(self, request: web.BaseRequest) -> web.Response:
        name = request.path.removeprefix("/page/")
        if name not in FILES:
            raise web.HTTPNotFound
        return web.Response(body=(STATIC / name).read_bytes(), content_type=FILES[name], charset="utf-8")

    async def _login(self, request: web.BaseRequest) -> web.Response:
        if (request.content_length or MOST_FORM + 1) > MOST_FORM:
            raise web.HTTPRequestEntityTooLarge(MOST_FORM, request.content_length or 0)
        form = await request.post()
        session = self._access.begin_session(str(form.get("token", "")))
        if session is None:
            await asyncio.sleep(WRONG_TOKEN)
            return self._page("login.html", 401)
        response = web.Response(status=303, headers={"Location": "./"})
        response.headers["Set-Cookie"] = f"{self._cookie}={session}; HttpOnly; SameSite=Strict"  # of the page's path
        return response

    async def _listed(self, request: web.BaseRequest) -> web.Response:
        body = self._asker.listed(request.query.get("part", ""), MOST_KEY)
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def _key(self, request: web.BaseRequest) -> web.Response:
        key = request.path.removeprefix("/api/keys/")
        if not key or key == request.path:
            raise web.HTTPNotFound
        status, answer = await self._asker.answer(key)
        return web.Response(body=answer, status=status, content_type="application/json", charset="utf-8")

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        """Everything, then what each look adds; everything again for a viewer who has missed a look."""
        key = request.query.get("key")
        if self._streams >= MOST_STREAMS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_STREAMS} viewers are connected already\n")
        people = self._figures.people
        if key and not people.choose(key):
            raise web.HTTPServiceUnavailable(text="too many keys are watched already\n")
        self._streams += 1
        try:
            return await self._stream(request)
        finally:
            self._streams -= 1
            if key:
                people.release(key)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream; charset=utf-8", **UNBUFFERED})
        response.force_close()
        await response.prepare(request)
        transport, connection = request.transport, request.protocol
        if transport is None or not isinstance(connection, Connection):
            return response
        connection.end_within(None)
        connection.stream = True
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        has, begin = NOTHING, RETRY
        with suppress(ConnectionError, TimeoutError):
            while True:
                looked, number = self._looked(), self._figures.number
                text = next_text(self._figures, has)
                async with asyncio.timeout(TAKE_WITHIN):
                    await response.write(begin + text)
                has, begin = number, b""
                if self._figures.number == number:
                    await looked.wait()
        transport.abort()
        return response


def next_text(figures: Figures, has: int) -> bytes:
    """What a viewer who has everything up to this look is sent."""
    return figures.tick() if has == figures.number - 1 else figures.full()
