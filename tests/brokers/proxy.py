"""A TCP proxy on loopback whose network can be made bad: slow, narrow, silent, reset, half open.

Nothing is reordered or changed. In a black hole bytes are held and delivered after it, as TCP's retransmissions would;
of a half-open connection one end is gone and nobody is told: what is sent into it vanishes.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

CHUNK = 16 << 10  # bytes read at once; with a narrow network this is what others wait for
HELD = 64  # chunks under way in one direction of a connection, then the sender has to wait


@dataclass
class Seen:
    """What went through, and what was done to it."""

    connections: int = 0
    bytes: int = 0
    held: int = 0  # bytes that came while the network was silent
    refused: int = 0  # connections
    reset: int = 0
    vanished: int = 0  # bytes sent into half-open connections
    halved: int = 0  # connections left half open


@dataclass(eq=False)
class _Link:
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    half: bool = False
    tasks: "list[asyncio.Task[None]]" = field(default_factory=list)


class Proxy:
    """Listens on `port` and talks to `target`, both on 127.0.0.1, in a thread of its own.

    latency: seconds more in each direction.  rate: bytes a second in each direction over all connections, 0: any.
    """

    def __init__(self, port: int, target: int) -> None:
        self.port, self.target = port, target
        self.latency, self.rate, self.refusing = 0.0, 0, False
        self.seen = Seen()
        self._free_at = [0.0, 0.0]  # when each direction of the narrow network is free again
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{port}", daemon=True)

    def start(self) -> "Proxy":
        self._thread.start()
        self._call(self._listen())
        return self

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=CHUNK)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def silence(self, on: bool) -> None:
        """A black hole: connections are accepted, and nothing arrives anywhere until it ends."""
        self._loop.call_soon_threadsafe(self._open.clear if on else self._open.set)

    def reset(self) -> int:
        """Every connection is reset in both directions; gives how many there were."""

        async def all_of_them() -> int:
            links = list(self._links)
            for link in links:
                self.seen.reset += 1
                _abort(link.near)
                _abort(link.far)
            return len(links)

        return int(self._call(all_of_them()))

    def halve(self) -> int:
        """Every connection there is loses its far end, and the near one is not told; new ones are whole."""

        async def all_of_them() -> int:
            links = [link for link in self._links if not link.half]
            for link in links:
                link.half = True
                self.seen.halved += 1
                _abort(link.far)
            return len(links)

        return int(self._call(all_of_them()))

    def mend(self) -> None:
        """An ordinary network again, for connections that are left and new ones; half-open ones end."""

        async def ended() -> None:
            for link in list(self._links):
                if link.half:
                    _abort(link.near)

        self.latency, self.rate, self.refusing = 0.0, 0, False
        self.silence(False)
        self._call(ended())

    def stop(self) -> None:
        if not self._thread.is_alive():
            return

        async def all_of_it() -> None:
            assert self._server is not None
            self._server.close()
            self._open.set()
            for link in list(self._links):
                _abort(link.near)
                _abort(link.far)
                for task in link.tasks:
                    task.cancel()
            await asyncio.sleep(0.05)  # their ends are seen before the loop stops

        with suppress(TimeoutError):
            self._call(all_of_it())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _accept(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        self.seen.connections += 1
        if self.refusing:
            self.seen.refused += 1
            _abort(near)
            return
        await self._open.wait()
        try:
            from_far, far = await asyncio.open_connection("127.0.0.1", self.target, limit=CHUNK)
        except OSError:
            _abort(near)
            return
        link = _Link(near, far)
        self._links.add(link)
        for direction, (source, sink) in enumerate(((reader, far), (from_far, near))):
            queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(HELD)
            link.tasks.append(asyncio.ensure_future(self._take(link, direction, source, queue)))
            link.tasks.append(asyncio.ensure_future(self._give(link, direction, sink, queue)))
        await asyncio.gather(*link.tasks, return_exceptions=True)
        self._links.discard(link)

    async def _take(self, link: _Link, direction: int, source: asyncio.StreamReader, queue: Any) -> None:
        data = b"some"
        while data:
            try:
                data = await source.read(CHUNK)
            except OSError:
                data = b""
            if not data and link.half and direction == 1:
                return  # the far end is gone, and the near one is not to learn of it
            self.seen.bytes += len(data)
            if not self._open.is_set():
                self.seen.held += len(data)
            await queue.put((self._loop.time() + self.latency, data))

    async def _give(self, link: _Link, direction: int, sink: asyncio.StreamWriter, queue: Any) -> None:
        while True:
            due, data = await queue.get()
            await self._open.wait()
            if self.rate:
                free = max(self._free_at[direction], self._loop.time())
                self._free_at[direction] = free + len(data) / self.rate
                due = max(due, self._free_at[direction])
            await asyncio.sleep(due - self._loop.time())
            if link.half and direction == 0:
                self.seen.vanished += len(data)
                if data:
                    continue
            try:
                if data:
                    sink.write(data)
                    await sink.drain()
                    continue
            except OSError:
                pass
            sink.close()
            if not data:
                return
            _abort(link.near if direction == 0 else link.far)
            return


def _abort(writer: asyncio.StreamWriter) -> None:
    """End it with a reset instead of a goodbye."""
    end = writer.get_extra_info("socket")
    if end is not None and end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
