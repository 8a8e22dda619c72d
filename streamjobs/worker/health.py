"""/metrics, /health, /live and /ready of a worker, served by a thread of their own: they answer while its loop is busy.

The live page (`streamjobs.worker.page`) is served here too: connections for it are handed on once their header is read.

Whoever reaches the port can open connections and say nothing, or take no answer. So there are few connections, each for a
few seconds; a new one ends the oldest; and none takes a file descriptor that the job may need.
"""

import asyncio
import errno
import json
import os
import resource
import socket
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog
from prometheus_client.exposition import choose_encoder

from streamjobs.errors import SetupError
from streamjobs.settings.sections import MetricsSection
from streamjobs.worker.metrics import Metrics

STALLED = 60.0  # seconds behind without a commit, without an answer of a broker, or without a turn of the event loop

MOST_CONNECTIONS = 64
HEADER_WITHIN = 10.0  # seconds from the connection to the end of the request's header
TAKE_WITHIN = 10.0  # seconds to take the answer
MOST_HEADER = 8 << 10  # bytes of a request's header
RESERVE = 64  # file descriptors left to the job
ACCEPT_AGAIN = 1.0  # seconds, after the system refused a connection
TELL_EVERY = 60.0  # seconds between two warnings about refused connections
BACKLOG = 1024  # connections that wait to be accepted; the kernel holds them, and drops and delays what is beyond
NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # an address family that this machine does not have

log = structlog.get_logger("streamjobs")

Answer = tuple[int, dict[str, Any]]  # HTTP status, JSON


@dataclass
class Health:
    """What the worker is doing; written by its event loop, read by the server's thread."""

    metrics: Metrics
    state: str = "recovering"  # recovering | running | stopping | failed
    reason: str = ""  # why it failed
    last_turn: float = 0.0  # time.monotonic() of the event loop's last turn, 0: not started
    last_answer: float = 0.0  # time.monotonic() of a broker's last answer, 0: none yet

    def answer(self, now: float | None = None) -> Answer:
        """200 while recovering or running (and not stalled), 503 otherwise."""
        metrics, clock = self.metrics, time.time()
        moment = time.monotonic() if now is None else now
        partitions = metrics.partitions()
        lags = {str(one.number): metrics.lag_of(one) for one in partitions}
        age = clock - (metrics.last_commit or metrics.started)
        waiting = {one.number: moment - one.waiting_since for one in partitions if lags[str(one.number)]}
        late = sorted(number for number, seconds in waiting.items() if seconds > STALLED)
        stalled = self._stands_still(moment) or self._silence(moment)
        if not stalled and self.metrics.waiting_for_schemas() > STALLED:
            stalled = self._waits_for_schemas()
        waited = min(age, clock - metrics.caught_up)
        if not stalled and self.state == "running" and any(lags.values()) and waited > STALLED:
            stalled = f"records are waiting, and no offset was committed for {waited:.0f} s"
        elif not stalled and self.state == "running" and late:
            which = ", ".join(map(str, late))
            longest = max(waiting.values())
            stalled = f"records of partition {which} are waiting, and no offset of theirs was committed for {longest:.0f} s"
        healthy = self.state in ("recovering", "running") and not stalled
        return (200 if healthy else 503), {
            "state": self.state,
            "healthy": healthy,
            "reason": self.reason or stalled,
            "partitions": sorted(int(number) for number in lags),
            "lag": lags,
            "last_commit_age_seconds": round(age, 3) if metrics.last_commit else None,
            "recovery_remaining_records": metrics.remaining,
        }

    def live(self, now: float | None = None) -> Answer:
        """200 while the event loop turns, or before it has started; a restart helps where it is 503."""
        stalled = self._stands_still(time.monotonic() if now is None else now)
        return (503 if stalled else 200), {"live": not stalled, "reason": stalled}

    def ready(self, now: float | None = None) -> Answer:
        """200 while the worker has its partitions, their states are recovered and a broker answers; 503 otherwise."""
        moment = time.monotonic() if now is None else now
        if self.state == "running":
            reason = self._stands_still(moment) or self._silence(moment) or self._waits_for_schemas()
        elif self.state == "recovering":
            left = self.metrics.remaining
            reason = (
                f"{left} changelog records are still to be read" if left else "the worker does not have its partitions yet"
            )
        else:
            reason = self.reason or f"the worker is {self.state}"
        return (503 if reason else 200), {"ready": not reason, "reason": reason}

    def _stands_still(self, now: float) -> str:
        if self.last_turn and now - self.last_turn > STALLED:
            return f"the worker's event loop has not run for {now - self.last_turn:.0f} s"
        return ""

    def _waits_for_schemas(self) -> str:
        seconds, lookup = self.metrics.waiting_for_schemas(), self.metrics.lookup
        return f"{lookup.problem}, for {seconds:.0f} s" if lookup is not None and lookup.problem else ""

    def _silence(self, now: float) -> str:
        if self.last_answer and now - self.last_answer > STALLED:
            return f"no broker has answered for {now - self.last_answer:.0f} s"
        return ""


class Pages(Protocol):
    """Serves more than this module does, in the event loop of the server's thread; see `streamjobs.worker.page.web`."""

    def begin(self, loop: asyncio.AbstractEventLoop, port: int) -> None: ...
    def serves(self, path: str) -> bool: ...
    async def take(self, connection: socket.socket, begin: bytes) -> None: ...
    async def close(self) -> None: ...


def _reason(problem: OSError) -> str:
    """The system's words alone: asyncio's repeat the address."""
    return os.strerror(problem.errno) if problem.errno and problem.errno > 0 else str(problem)


def _listeners(host: str, port: int) -> list[socket.socket]:
    """A listening socket for every address of the host, all on one port. Raises OSError."""
    found, missing = list[socket.socket](), OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    for address in socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
        family, (name, _, *more) = address[0], address[4]
        try:
            one = socket.create_server((name, port, *more), family=family, backlog=BACKLOG)  # type: ignore[arg-type]
        except OSError as problem:
            if problem.errno in NOT_HERE:
                missing = problem
                continue
            for other in found:
                other.close()
            raise
        port = one.getsockname()[1]
        one.setblocking(False)
        found.append(one)
    if not found:
        raise missing
    return found


class Server:
    """Serves until `stop`. `port` is the chosen one when the settings say 0."""

    def __init__(self, settings: MetricsSection, health: Health, pages: Pages | None = None) -> None:
        self._settings, self._health, self._pages = settings, health, pages
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._problem: OSError | None = None
        self._listening: list[socket.socket] = []
        self._connections: dict[asyncio.Task[None], None] = {}  # oldest first
        self._handed: set[asyncio.Task[None]] = set()  # those of the pages, which bound them themselves
        self._tell_again = 0.0  # time.monotonic() from which a refusal is logged
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self.port = settings.port

    def start(self) -> int:
        """Raises SetupError when the port is taken."""
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            raise SetupError(
                f"[metrics] {self._settings.host}:{self._settings.port}: cannot listen ({_reason(self._problem)}); "
                "another worker may already use it. Set [metrics] port to another one, or to 0 for any free port."
            )
        return self.port

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)

    def _run(self) -> None:
        try:
            self._listening = _listeners(self._settings.host, self._settings.port)
        except OSError as problem:
            self._problem = problem
        for one in self._listening:
            self.port = one.getsockname()[1]
            self._loop.add_reader(one, self._accept, one)
        if self._problem is None and self._pages is not None:
            self._pages.begin(self._loop, self.port)
        self._started.set()
        if self._problem is None:
            self._loop.run_forever()
            self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _close(self) -> None:
        for one in self._listening:
            self._loop.remove_reader(one)
            one.close()
        if self._pages is not None:
            await self._pages.close()
        serving = [*self._connections, *self._handed]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        """Take one connection; where there are too many, the one that has been open for longest ends."""
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as problem:  # no descriptor is left: the listener stays ready, and would be asked again at once
            self._tell_refusal(_reason(problem))
            self._loop.remove_reader(listener)
            self._loop.call_later(ACCEPT_AGAIN, self._loop.add_reader, listener, self._accept, listener)
            return
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit != resource.RLIM_INFINITY and connection.fileno() >= limit - min(RESERVE, limit // 4):
            connection.close()  # the system gives the lowest number that is free: nearly all are in use
            self._tell_refusal(f"nearly all of {limit} file descriptors are in use, and the job may need the last ones")
            return
        connection.setblocking(False)
        if len(self._connections) >= MOST_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        task = self._loop.create_task(self._serve(connection))
        self._connections[task] = None
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    def _tell_refusal(self, reason: str) -> None:
        now = time.monotonic()
        if now >= self._tell_again:
            self._tell_again = now + TELL_EVERY
            log.warning("metrics port refuses connections", reason=reason)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            async with asyncio.timeout(HEADER_WITHIN):
                header = await self._header(connection)
            if header is not None and self._pages is not None and self._pages.serves(_path(header)):
                await self._hand_on(connection, header, self._pages)
            elif header is not None:
                async with asyncio.timeout(TAKE_WITHIN):
                    await self._loop.sock_sendall(connection, self._response(header))
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side left, or took too long (TimeoutError)
        finally:
            connection.close()

    async def _hand_on(self, connection: socket.socket, header: bytes, pages: Pages) -> None:
        """A long stream of a page is none of the few connections that are kept for metrics."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.pop(task, None)
        self._handed.add(task)
        task.add_done_callback(self._handed.discard)
        await pages.take(connection, header)

    async def _header(self, connection: socket.socket) -> bytes | None:
        """The request up to the empty line, or its first MOST_HEADER bytes; None if the other side left before."""
        header = b""
        while b"\r\n\r\n" not in header and b"\n\n" not in header and len(header) < MOST_HEADER:
            more = await self._loop.sock_recv(connection, MOST_HEADER - len(header))
            if not more:
                return None
            header += more
        return header

    def _response(self, header: bytes) -> bytes:
        status, kind, body = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", b""
        try:
            status, kind, body = self._page(header)
        except Exception:  # such as an array that the worker's thread changes meanwhile; the next scrape comes
            log.warning("scrape failed", exc_info=True)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        head = "\r\n".join([*lines, "Connection: close", "", ""]).encode()
        return head if header.startswith(b"HEAD ") else head + body

    def _page(self, header: bytes) -> tuple[HTTPStatus, str, bytes]:
        """Status, content type and body of the answer to a request."""
        request, *fields = header.decode("latin-1").replace("\r\n", "\n").split("\n")
        method, _, rest = request.partition(" ")
        version = rest.rpartition(" ")[2]
        text = "text/plain; charset=utf-8"
        if "" not in fields and len(header) >= MOST_HEADER:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text, b"expected a header of at most 8 KB\n"
        if not version.startswith("HTTP/1."):
            return HTTPStatus.BAD_REQUEST, text, b"expected a request such as: GET /metrics HTTP/1.1\n"
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, text, b"expected GET or HEAD\n"
        path = _path(header)
        if path == "/metrics":
            accept = ",".join(value for name, _, value in (f.partition(":") for f in fields) if name.lower() == "accept")
            encode, kind = choose_encoder(accept.strip())  # exemplars are in OpenMetrics only
            return HTTPStatus.OK, kind, encode(self._health.metrics.registry)
        answers = {"/health": self._health.answer, "/live": self._health.live, "/ready": self._health.ready}
        if path in answers:
            status, about = answers[path]()
            return HTTPStatus(status), "application/json; charset=utf-8", json.dumps(about).encode()
        return HTTPStatus.NOT_FOUND, text, b"expected /metrics, /health, /live or /ready\n"


def _path(header: bytes) -> str:
    """The path of a request; empty where it has none."""
    words = header.decode("latin-1").replace("\r", "\n").partition("\n")[0].split(" ")
    try:
        return urlsplit(words[1]).path if len(words) == 3 else ""
    except ValueError:  # such as of [::1 without its end
        return ""
