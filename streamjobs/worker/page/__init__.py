"""The worker's live page, and `GET /api/keys/KEY`: what the job is doing now, for people. One worker shows its own part.

`feed` takes the reports of the job (bounded, a few appends a batch); `figures` makes points and tables of them when `Looks`
asks, once a second, in the thread that serves /metrics; `web`, which the first request loads, serves them to browsers;
`access` decides who may look.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streamjobs.core.interface import Core
from streamjobs.settings.sections import Settings
from streamjobs.worker.health import Health
from streamjobs.worker.page.access import Access
from streamjobs.worker.page.ask import Asker, States
from streamjobs.worker.page.feed import Feed
from streamjobs.worker.page.figures import EVERY, Figures
from streamjobs.worker.page.people import Scores
from streamjobs.worker.partition import Partition

if TYPE_CHECKING:
    from aiohttp import web

    from streamjobs.worker.health.connection import Connection
    from streamjobs.worker.page.web import Web

SWITCH = 0.001  # seconds that the page's thread waits for the job's to give up the interpreter; 0.005 by default
ANSWERS_WITHIN = 5.0  # seconds


class Looks:
    """Looks at the job once a second, in the event loop of the server's thread: the `Pages` of `worker.health.server`."""

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


class Page:
    """The page of one worker, on a loopback address, and elsewhere with a token. Predictions are judged without it too."""

    def __init__(self, settings: Settings, core: Core, states: States) -> None:
        """Raises ConfigError for a token that cannot be used."""
        self._settings, self._core, self._access, self._states = settings, core, Access(settings.metrics), states
        self._asker = Asker(settings, states)
        self._about: dict[str, object] = {}
        self._looks: Looks | None = None
        self._scores = Scores(settings.labels.wait, settings.labels.delay)

    def serve(self, health: Health) -> Looks | None:
        """What serves it in the thread of /metrics, or None; takes the job's reports from now on."""
        settings, feed, scores = self._settings, Feed(), self._scores
        if not self._access.served:
            if settings.source.label is not None:
                health.metrics.on_report = lambda report: scores.take(report.batches, report.late)
            return None
        sys.setswitchinterval(SWITCH)
        health.metrics.on_report = feed.take
        self._about |= {
            "job": settings.job.name,
            "topic": settings.source.topic,
            "dlq": self._core.job.sinks["dlq"],
            "model": self._core.job.model,
            "alarms": settings.drift is not None or settings.alarms is not None,
            "labels": settings.source.label is not None,
            "partitions": None,
        }
        self._looks = Looks(Figures(feed, health, self._about, self._states, scores), self._access, self._asker)
        return self._looks

    def scores(self) -> dict[str, object]:
        """Accuracy or error of the rows so far, next to controls; empty without labels."""
        if self._looks is None:
            return self._scores.summary()
        return self._looks.scores() if self._about["labels"] else {}

    def needed_to_alarm(self) -> str | None:
        return self._states.needed_to_alarm

    def connect(self, held: Callable[[], Mapping[int, Partition]], partitions: int) -> None:
        """The job runs. held: its partitions now; partitions: of the input."""
        self._about["partitions"] = partitions
        self._asker.connect(held, partitions)
