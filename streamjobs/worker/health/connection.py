"""One request of one connection, served by aiohttp within limits of time, bytes and number."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import structlog
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from streamjobs.worker.health import Health, Pages

MOST_CONNECTIONS = 64  # those of the page aside
HEADER_WITHIN = 10.0  # seconds from the connection to the end of the request's header
TAKE_WITHIN = 10.0  # seconds to take the answer
MOST_HEADER = 8 << 10  # bytes of a request's header
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

SILENT = logging.Logger("silent", logging.CRITICAL + 1)  # no line for each request
Admits = Callable[[int], bool]  # whether a connection with this file descriptor is served

log = structlog.get_logger("streamjobs")


class Connection(web.RequestHandler):
    """Ends when its time is up; `group` is the connections that it counts among. stream: it has no end of its own."""

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, group: "Group", admits: Admits) -> None:
        super().__init__(server, loop=loop, access_log=SILENT, max_line_size=MOST_HEADER, max_field_size=MOST_HEADER)
        self._admits = admits
        self._loop_of, self.group, self._read, self.asked, self.stream = loop, group, 0, False, False
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._admits(transport.get_extra_info("socket").fileno()):
            return self.end()
        self.group.add(self, MOST_CONNECTIONS)
        self.end_within(HEADER_WITHIN)

    def end_within(self, seconds: float | None) -> None:
        """End after so many seconds from now on; None: never."""
        if self._end is not None:
            self._end.cancel()
        self._end = None if seconds is None else self._loop_of.call_later(seconds, self.end)

    def end(self) -> None:
        """End at once; what was not sent is lost."""
        self.group.pop(self, None)
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._read += len(data)
        if self._read <= MOST_HEADER or self.asked:
            super().data_received(data)
        elif self.transport is not None:
            self.transport.write(TOO_LARGE)
            self.transport.close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client of /metrics may end its own side after the request; a viewer that does has left."""
        return self.group.answers_after_eof

    def connection_lost(self, error: BaseException | None) -> None:
        self.end_within(None)
        self.group.pop(self, None)
        super().connection_lost(error)

    def log_exception(self, *about: Any, **more: Any) -> None:
        """What is wrong with a request is in its answer."""


class Group(dict[Connection, None]):
    """Connections of one kind, oldest first."""

    answers_after_eof = True

    def add(self, one: Connection, most: int) -> None:
        """Where there are too many, the oldest ends."""
        if len(self) >= most:
            self.oldest().end()
        self[one] = None

    def oldest(self) -> Connection:
        return next(iter(self))


class Connections:
    """Answers requests of /metrics, /health, /live and /ready, and passes those of pages on."""

    def __init__(self, health: Health, pages: Pages | None, admits: Admits) -> None:
        self._health, self._pages, self._admits = health, pages, admits
        self._loop = asyncio.get_running_loop()
        self._server = web.Server(self._answer)
        self._few = Group()

    def new(self) -> Connection:
        return Connection(self._server, self._loop, self._few, self._admits)

    def close(self) -> None:
        for one in self._server.connections:
            if isinstance(one, Connection):
                one.end()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.asked = True
        if self._pages is not None and self._pages.serves(request.path):
            response: web.StreamResponse = await self._pages.answer(request, connection)
            return response
        connection.end_within(TAKE_WITHIN)
        try:
            response = self._page(request)
        except Exception:  # such as an array that the worker's thread changes meanwhile; the next scrape comes
            log.warning("scrape failed", exc_info=True)
            response = web.Response(status=500)
        response.force_close()
        return response

    def _page(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="expected GET or HEAD\n", headers={"Allow": "GET, HEAD"})
        if request.path == "/metrics":
            encode, kind = choose_encoder(",".join(request.headers.getall("Accept", ())))  # exemplars: OpenMetrics only
            return web.Response(body=encode(self._health.metrics.registry), headers={"Content-Type": kind})
        answers = {"/health": self._health.answer, "/live": self._health.live, "/ready": self._health.ready}
        if request.path in answers:
            status, about = answers[request.path]()
            return web.json_response(about, status=status, dumps=json.dumps)
        return web.Response(status=404, text="expected /metrics, /health, /live or /ready\n")
