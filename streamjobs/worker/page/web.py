"""Serves the page: files, a stream of events, keys and the login; behind the guards of `streamjobs.worker.health.Server`.

That server takes the connections and reads their headers, and gives those for the page to `Web.take`. aiohttp is imported
with the first of them. A stream that takes nothing for TAKE_WITHIN ends, and no more than one event waits for any viewer.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjobs.worker.page.access import Access
from streamjobs.worker.page.ask import Asker
from streamjobs.worker.page.figures import EVERY, Figures

if TYPE_CHECKING:
    from aiohttp import web

STATIC = Path(__file__).parent / "static"
FILES = {  # name -> content type; nothing else is served from the folder
    "page.js": "text/javascript",
    "charts.js": "text/javascript",
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
WITHIN = 20.0  # seconds for a request and its answer
TAKE_WITHIN = 10.0  # seconds for a viewer to take an event
MOST_STREAMS = 32
MOST_OPEN = 64  # connections, streams included
SEND_BUFFER = 128 << 10  # bytes of a stream that the kernel keeps
WRONG_TOKEN = 0.5  # seconds that the answer to a wrong token takes
MOST_FORM = 4 << 10  # bytes
RETRY = b"retry: 2000\n\n"  # milliseconds until a browser connects again

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


class Connection(asyncio.Protocol):
    """Passes a connection whose header was read already to aiohttp, header first."""

    def __init__(self, inner: Any, begin: bytes, ended: "asyncio.Future[None]") -> None:
        self._inner, self._begin, self._ended = inner, begin, ended
        self.stream = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._inner.connection_made(transport)
        self._inner.data_received(self._begin)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()  # type: ignore[no-any-return]

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._inner.connection_lost(error)
        if not self._ended.done():
            self._ended.set_result(None)


class Web:
    """Of one worker. `begin` and the rest run in the event loop of the server's thread."""

    def __init__(self, figures: Figures, access: Access, asker: Asker) -> None:
        self._figures, self._access, self._asker = figures, access, asker
        self._runner: Any = None
        self._open: dict[Connection, None] = {}  # oldest first
        self._streams = 0
        self._looked = asyncio.Event()  # replaced at every look
        self._ticking: asyncio.TimerHandle | None = None
        self._port = 0

    def begin(self, loop: asyncio.AbstractEventLoop, port: int) -> None:
        """Look at the job once a second from now on. port: names the cookie, which a browser keeps by host alone."""
        self._port = port
        self._ticking = loop.call_later(EVERY, self._look, loop, loop.time() + EVERY)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        following = max(due + EVERY, loop.time())
        self._ticking = loop.call_at(following, self._look, loop, following)
        self._figures.look()
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    async def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        for one in list(self._open):
            if one.transport is not None:
                one.transport.abort()
        if self._runner is not None:
            await self._runner.cleanup()

    def serves(self, path: str) -> bool:
        return path in ("/", "/events", "/login") or path.startswith(("/page/", "/api/"))

    async def take(self, connection: socket.socket, begin: bytes) -> None:
        """Serve a connection to its end. begin: what was read of it, with the whole header."""
        if self._runner is None:
            self._runner = await self._make_runner()
        if len(self._open) >= MOST_OPEN:
            oldest = next((one for one in self._open if not one.stream), next(iter(self._open)))
            del self._open[oldest]
            oldest.transport.abort()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        one = Connection(self._runner.server(), begin, ended)
        transport, _ = await loop.connect_accepted_socket(lambda: one, connection)
        self._open[one] = None
        try:
            async with asyncio.timeout(WITHIN) as limit:
                while not ended.done() and not one.stream:
                    await asyncio.wait([ended], timeout=0.5)
                limit.reschedule(None)
            await ended
        except TimeoutError:
            pass
        finally:
            self._open.pop(one, None)
            transport.abort()

    async def _make_runner(self) -> Any:
        from aiohttp import web

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                response = await self._guarded(request, handler)
            except web.HTTPException as error:
                response = error
            if not response.prepared:
                response.headers.update(HEADERS)
                response.force_close()
            return response

        app = web.Application(middlewares=[guarded], client_max_size=MOST_FORM)
        app.router.add_get("/", self._index)
        app.router.add_get("/page/{name}", self._file)
        app.router.add_get("/events", self._events, allow_head=False)
        app.router.add_get("/api/keys/{key:.+}", self._key)
        app.router.add_post("/login", self._login)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, keepalive_timeout=1.0, shutdown_timeout=1.0)
        await runner.setup()
        return runner

    async def _guarded(self, request: "web.Request", handler: Handler) -> "web.StreamResponse":
        from aiohttp import web

        if self._access.refuses_host(request.headers.get("Host", "")):
            raise web.HTTPMisdirectedRequest(
                text="expected a Host of this machine, such as localhost; to serve others set [metrics] token_file\n"
            )
        open_to_all = request.path == "/login" or request.path.startswith("/page/")  # nothing there tells of the job
        if not open_to_all and not self._access.admits(request.headers, request.cookies.get(self._cookie)):
            if request.path == "/":
                return self._page("login.html", 401)
            raise web.HTTPUnauthorized(
                text="expected a header 'Authorization: Bearer TOKEN'\n", headers={"WWW-Authenticate": "Bearer"}
            )
        return await handler(request)

    @property
    def _cookie(self) -> str:
        return f"streamjobs-{self._port}"

    def _page(self, name: str, status: int = 200) -> "web.Response":
        from aiohttp import web

        return web.Response(body=(STATIC / name).read_bytes(), status=status, content_type="text/html", charset="utf-8")

    async def _index(self, request: "web.Request") -> "web.Response":
        return self._page("index.html")

    async def _file(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        name = request.match_info["name"]
        if name not in FILES:
            raise web.HTTPNotFound
        return web.Response(body=(STATIC / name).read_bytes(), content_type=FILES[name], charset="utf-8")

    async def _login(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        form = await request.post()
        session = self._access.begin_session(str(form.get("token", "")))
        if session is None:
            await asyncio.sleep(WRONG_TOKEN)
            return self._page("login.html", 401)
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(self._cookie, session, httponly=True, samesite="Strict", path="/")
        return response

    async def _key(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        status, answer = await self._asker.answer(request.match_info["key"])
        return web.Response(body=answer, status=status, content_type="application/json", charset="utf-8")

    async def _events(self, request: "web.Request") -> "web.StreamResponse":
        """Everything, then what each look adds; everything again for a viewer who has missed a look."""
        from aiohttp import web

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

    async def _stream(self, request: "web.Request") -> "web.StreamResponse":
        from aiohttp import web

        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"})
        response.force_close()
        await response.prepare(request)
        transport = request.transport
        if transport is None:
            return response
        for one in self._open:
            if one.transport is transport:
                one.stream = True
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        has, begin = -1, RETRY
        with suppress(ConnectionError, TimeoutError):
            while True:
                looked, number = self._looked, self._figures.number
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
