"""Looks at the job once a second, in the event loop of the server's thread; the page is loaded with its first request."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streamjobs.worker.page.access import Access
from streamjobs.worker.page.ask import Asker
from streamjobs.worker.page.figures import EVERY, Figures

if TYPE_CHECKING:
    from aiohttp import web

    from streamjobs.worker.health.connection import Connection
    from streamjobs.worker.page.web import Web

ANSWERS_WITHIN = 5.0  # seconds


class Looks:
    """The `Pages` of `streamjobs.worker.health.server`, of one worker."""

    def __init__(self, figures: Figures, access: Access, asker: Asker) -> None:
        self.figures, self.access, self.asker = figures, access, asker
        self.looked = asyncio.Event()  # replaced at every look
        self.port = 0
        self._ticking: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._web: Web | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, port: int) -> None:
        """port: names the cookie, which a browser keeps by host alone."""
        self.port, self._loop = port, loop
        self._ticking = loop.call_later(EVERY, self._look, loop, loop.time() + EVERY)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        following = max(due + EVERY, loop.time())
        self._ticking = loop.call_at(following, self._look, loop, following)
        self.figures.look()
        looked, self.looked = self.looked, asyncio.Event()
        looked.set()

    def scores(self) -> dict[str, Any]:
        """`Scores.summary` of all rows so far. Called in the job's thread; empty if the page's thread does not answer."""

        async def look() -> dict[str, Any]:
            self.figures.look()
            return self.figures.scores.summary()

        if self._loop is not None:
            with suppress(RuntimeError, TimeoutError):
                return asyncio.run_coroutine_threadsafe(look(), self._loop).result(ANSWERS_WITHIN)
        return {}

    def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()

    def serves(self, path: str) -> bool:
        return path in ("/", "/events", "/login") or path.startswith(("/page/", "/api/"))

    async def answer(self, request: "web.BaseRequest", connection: "Connection") -> "web.StreamResponse":
        """Serve a request; its connection is not one of the few that are kept for metrics."""
        if self._web is None:
            from streamjobs.worker.page.web import Web

            self._web = Web(self.figures, self.access, self.asker, lambda: self.looked, self.port)
        return await self._web.answer(request, connection)
