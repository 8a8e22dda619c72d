"""Serves /metrics, /health, /live, /ready and the page in a thread of its own: they answer while the job is busy.

Anyone who reaches the port can open connections, and send nothing or read no answer. So connections are few, each lasts a
few seconds, a new one ends the oldest, and none takes a file descriptor that the job may need. aiohttp is imported with
the first connection.
"""

import asyncio
import errno
import os
import resource
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import structlog

from streamjobs.errors import SetupError
from streamjobs.settings.sections import MetricsSection
from streamjobs.worker.health import Health, Pages

if TYPE_CHECKING:
    from streamjobs.worker.health.connection import Connection, Connections

BACKLOG = 64  # connections that wait to be accepted, and that are accepted at once; the kernel delays others
RESERVE = BACKLOG + 64  # file descriptors left to the job, those of connections that are about to be refused included
TELL_EVERY = 60.0  # seconds between two warnings about refused connections
NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # an address family that this machine does not have

log = structlog.get_logger("streamjobs")


def _reason(problem: OSError) -> str:
    """The system's words alone: asyncio's repeat the address."""
    return os.strerror(problem.errno) if problem.errno and problem.errno > 0 else str(problem)


class Server:
    """Serves until `stop`. `port` is the chosen one when the settings say 0."""

    def __init__(self, settings: MetricsSection, health: Health, pages: Pages | None = None) -> None:
        self._settings, self._health, self._pages = settings, health, pages
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._problem: OSError | None = None
        self._listening: list[asyncio.Server] = []
        self._connections: Connections | None = None  # made with the first connection
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
        self._loop.set_exception_handler(self._problem_of_loop)
        try:
            self._loop.run_until_complete(self._listen())
        except OSError as problem:
            self._problem = problem
        if self._problem is None and self._pages is not None:
            self._pages.begin(self._loop, self.port)
        self._started.set()
        if self._problem is None:
            self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _listen(self) -> None:
        """On every address of the host, all on one port. Raises OSError."""
        missing = OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        host = self._settings.host or None
        for address in socket.getaddrinfo(host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            try:
                one = await self._loop.create_server(self._new, str(address[4][0]), self.port, backlog=BACKLOG)
            except OSError as problem:
                if problem.errno not in NOT_HERE:
                    raise
                missing = problem
                continue
            self.port = one.sockets[0].getsockname()[1]
            self._listening.append(one)
        if not self._listening:
            raise missing

    def _new(self) -> "Connection":
        if self._connections is None:
            from streamjobs.worker.health.connection import Connections

            self._connections = Connections(self._health, self._pages, self._admits)
        return self._connections.new()

    async def _close(self) -> None:
        for one in self._listening:
            one.close()
        if self._pages is not None:
            self._pages.close()
        if self._connections is not None:
            self._connections.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def _admits(self, descriptor: int) -> bool:
        """Whether the job keeps its reserve; the system gives the lowest number that is free."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit == resource.RLIM_INFINITY or descriptor < limit - min(RESERVE, limit // 4):
            return True
        self._tell_refusal(f"nearly all of {limit} file descriptors are in use, and the job may need the last ones")
        return False

    def _problem_of_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "accept" in context["message"]:  # no descriptor is left; asyncio tries again after a second
            self._tell_refusal(_reason(context["exception"]))
        else:
            loop.default_exception_handler(context)

    def _tell_refusal(self, reason: str) -> None:
        now = time.monotonic()
        if now >= self._tell_again:
            self._tell_again = now + TELL_EVERY
            log.warning("metrics port refuses connections", reason=reason)
