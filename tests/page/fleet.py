"""A page over a real core without Kafka: a partition that is given records directly, as after a fetch."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from streamjobs.core.messages import Stored
from streamjobs.job_files import core_from
from streamjobs.maintenance.summary import States
from streamjobs.settings.composition import composition_of
from streamjobs.settings.load import settings_from
from streamjobs.worker.backpressure import Backpressure
from streamjobs.worker.health import Health
from streamjobs.worker.health.server import Server
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.page import Page
from streamjobs.worker.partition import Bounds, Partition

START = 1_700_000_000.0
COLUMNS = ["temperature", "current", "vibration"]
FLEET: dict[str, Any] = {
    "job": {"name": "machines"},
    "source": {"topic": "machines", "fields": COLUMNS, "time": "ts", "late": "drop"},
    "learner": {"name": "okfeb", "rank": 3, "budget": 5},
    "drift": {
        "watch": "columns",
        "false_alarms": "1 per 100000 rows",
        "detector": {"name": "column_chart", "learn": 100, "hold": 1000},
    },
    "metrics": {"port": 0},
}
CLASSES = [
    *("walking", "sitting", "standing", "climbing_up", "climbing_down", "running", "cycling", "rowing", "lying", "jumping"),
    *("skipping", "sweeping", "ironing", "typing", "eating", "drinking", "driving", "clapping"),
]
LABELLED: dict[str, Any] = {
    "job": {"name": "people"},
    "source": {"topic": "people", "fields": ["a", "b"], "time": "ts", "label": "activity"},
    "learner": {"name": "rls", "task": "classification", "max_classes": 20},
    "metrics": {"port": 0},
}

ROOMS: dict[str, Any] = {
    "job": {"name": "rooms"},
    "source": {"topic": "rooms", "fields": ["temp", "load"], "time": "ts"},
    "forecast": {"ahead": [1, 24], "every": "5m"},
    "metrics": {"port": 0},
}


class NoOutbox:
    """Outputs go nowhere."""

    unacknowledged: dict[Any, str] = {}  # noqa: RUF012 - stays empty

    async def send(self, outputs: Sequence[Any]) -> None: ...


class Fleet:
    """A worker of one partition with its page at `url`."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.settings = settings_from(table)
        self.core = core_from(composition_of(self.settings))
        self.health = Health(Metrics(self.settings.source.topic, self.core.job.model), state="running")
        if self.core.forecast_plan is not None:
            self.health.metrics.expect_forecasts(*self.core.forecast_plan)
        self.stored: dict[bytes, bytes] = {}
        page = Page(self.settings, self.core, States(self.core.job))  # type: ignore[arg-type]
        self._page, self._offset = page, 0
        self.server = Server(self.settings.metrics, self.health, page.serve(self.health))
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.restart()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def end(self) -> None:
        self.server.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def restart(self) -> None:
        """The partition comes again, with what was stored."""

        def read(number: int, keys: Sequence[bytes]) -> list[bytes | None]:
            return [self.stored.get(key) for key in keys]

        async def begun() -> Partition:
            made = Partition(
                0,
                0,
                core=self.core,
                read_many=read,
                max_live_bytes=256 << 20,
                outbox=NoOutbox(),
                backpressure=Backpressure(),
                bounds=Bounds(10**9, 1 << 40),
                on_advance=self.health.metrics.count_advance,
            )
            self._page.connect(lambda: {0: made}, 1)
            return made

        self.partition = self._run(begun())
        self.health.metrics.set_partitions({0: self.partition})

    def store(self) -> None:
        self.stored.update(self.partition.live.snapshots())

    def feed(self, bodies: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Apply records of these keys."""
        records = []
        for key, body in bodies:
            records.append(
                Stored("in", 0, self._offset, int(1000 * body["ts"]) + 40, key.encode(), msgspec.json.encode(body))
            )
            self._offset += 1
        self._run(self._apply(records))

    async def _apply(self, records: list[Any]) -> None:
        at = 0
        while at < len(records):
            at += await self.partition._apply(records[at : at + 500])


@contextmanager
def fleet(table: dict[str, Any]) -> Iterator[tuple[Fleet, str]]:
    made = Fleet(table)
    port = made.server.start()
    try:
        yield made, f"http://127.0.0.1:{port}"
    finally:
        made.end()


def machine_rows(
    first: int, last: int, *, machines: int = 200, moved: Sequence[int] = (), seed: int = 5
) -> list[tuple[str, dict[str, Any]]]:
    """Rows `first` to `last` of each machine, one a minute; of those in `moved` vibration is 6 deviations higher."""
    random, rows = np.random.default_rng([seed, first]), []
    for step in range(first, last):
        values = random.normal(size=(machines, 3)) * (2.0, 0.4, 0.1) + (61.0, 8.0, 1.2)
        values[list(moved), 2] += 0.6
        for number, row in enumerate(values.tolist()):
            rows.append(
                (f"machine-{number:03}", {"ts": START + 60.0 * step + 0.1 * number, **dict(zip(COLUMNS, row, strict=True))})
            )
    return rows


def activity_rows(first: int, last: int, people: int = 6) -> list[tuple[str, dict[str, Any]]]:
    """Rows of people who do each of CLASSES in turn, recognised in about three of four rows."""
    random, rows = np.random.default_rng([7, first]), []
    for step in range(first, last):
        for person in range(people):
            at = (step // 6 + 3 * person) % len(CLASSES)
            angle = 2 * np.pi * at / len(CLASSES)
            a, b = (np.array([np.cos(angle), np.sin(angle)]) + 0.15 * random.normal(size=2)).tolist()
            body = {"ts": START + step + 0.01 * person, "a": a, "b": b, "activity": CLASSES[at]}
            rows.append((f"person-{person:02}", body))
    return rows


def room_rows(rows: int) -> list[tuple[str, dict[str, Any]]]:
    """Rows of a room, one in five minutes: a temperature with a rhythm of a day, and a load with one of four hours."""
    random, at = np.random.default_rng(9), np.arange(rows)
    temp = 20.0 + 3.0 * np.sin(2 * np.pi * at / 288) + 0.2 * random.normal(size=rows)
    load = 5.0 + np.sin(2 * np.pi * at / 48) + 0.2 * random.normal(size=rows)
    made = zip((START + 300.0 * at).tolist(), temp.tolist(), load.tolist(), strict=True)
    return [("room-1", {"ts": ts, "temp": one, "load": other}) for ts, one, other in made]
