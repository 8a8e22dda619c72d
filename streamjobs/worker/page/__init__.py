"""The worker's live page, and `GET /api/keys/KEY`: what the job is doing now, for people. One worker shows its own part.

`feed` takes the reports of the job (bounded, a few appends a batch); `figures` makes points and tables of them when `looks`
asks, once a second, in the thread that serves /metrics; `web` serves them to browsers; `access` decides who may look.
"""

import sys
from collections.abc import Callable, Mapping

from streamjobs.core.interface import Core
from streamjobs.settings.sections import Settings
from streamjobs.worker.health import Health
from streamjobs.worker.page.access import Access
from streamjobs.worker.page.ask import Asker, States
from streamjobs.worker.page.feed import Feed
from streamjobs.worker.page.figures import Figures
from streamjobs.worker.page.looks import Looks
from streamjobs.worker.page.people import Scores
from streamjobs.worker.partition import Partition

SWITCH = 0.001  # seconds that the page's thread waits for the job's to give up the interpreter; 0.005 by default


class Page:
    """The page of one worker, on a loopback address, and elsewhere with a token. Predictions are judged without it too."""

    def __init__(self, settings: Settings, core: Core, access: Access, states: States) -> None:
        self._settings, self._core, self._access, self._states = settings, core, access, states
        self._asker = Asker(settings, states)
        self._about: dict[str, object] = {}
        self._looks: Looks | None = None
        self._scores = Scores(settings.labels.wait, settings.labels.delay)

    @classmethod
    def of(cls, settings: Settings, core: Core, states: States) -> "Page":
        """Raises ConfigError for a token that cannot be used."""
        return cls(settings, core, Access(settings.metrics), states)

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
