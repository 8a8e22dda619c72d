"""Records of several sensors: decoded alone, and a share of them brought together by a key in the middle of its stream."""

import itertools
import json
from random import Random
from typing import Any

import msgspec
import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.messages import Stored
from streamjobs.settings.load import settings_from
from tests.core import phones
from tests.core.streams import START, TOPIC
from tests.fuzz.bytes import bent
from tests.fuzz.case import Case, Family, chance, must, outcome_of
from tests.fuzz.grammar import as_json, as_msgpack, near
from tests.fuzz.live_pool import LivePool, applied

LEARNER = {"name": "okfeb", "rank": 3, "budget": 5}
PLAIN: dict[str, Any] = {
    "topic": TOPIC,
    "format": "msgpack",
    "time": "t",
    "label": "l",
    "missing": "skip",
    "numbers": "lenient",
    "late": "dlq",
    "lateness": "500ms",
    "sensors": {
        "name": "s",
        "rate": 10,
        "each": {"acc": {"fields": ["x", "y"], "rate": 10}, "temp": {"fields": ["v.deg"], "rate": 2, "between": "hold"}},
    },
}
HEAD = {"head": {"name": "rls"}, "labels": {"wait": "10s"}}
MIDDLE, LEARNED = 30, 16  # records a key has had; one of so many inputs comes to a key that learns


class SensorRecords(Family):
    name = "sensors"

    def __init__(self) -> None:
        self.jobs = [
            Job.from_settings(settings_from({**phones.JOB, "sinks": {"features": "z"}})),
            Job.from_settings(settings_from({"source": PLAIN, "learner": LEARNER, **HEAD})),
        ]
        self.bodies: list[list[Any]] = [
            [json.loads(one.value or b"") for one in _phone(MIDDLE, 4)],
            [_plain(step, n) for step in range(MIDDLE, MIDDLE + 5) for n in (0, 3)] + [{"t": START + 2.0, "l": "a"}],
        ]
        self.stored = []
        for which, job in enumerate(self.jobs):
            live = Live(job)
            applied(job, live, self._records(which, 0, MIDDLE))
            self.stored.append(dict(live.snapshots())[b"p0"])
        self.pool = LivePool()

    def _records(self, which: int, begin: int, end: int) -> list[Stored]:
        if which == 0:
            return _phone(begin, end - begin)
        return [_record(step, msgspec.msgpack.encode(_plain(step, 0))) for step in range(begin, end)]

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(2)
        body = rnd.choice(self.bodies[which])
        made = {name: near(rnd, one) for name, one in body.items()}
        if which == 0 and isinstance(made["payload"], list):
            made["payload"] = [_near_reading(rnd, one) for one in made["payload"][: rnd.choice((1, 3, 40))]]
        data = as_json(rnd, made) if which == 0 else as_msgpack(rnd, made)
        return Case(which, bent(data, rnd) if rnd.random() < 0.3 else data)

    def attempt(self, case: Case) -> str:
        job = self.jobs[case.which]
        one = _record(MIDDLE, case.data)
        decoded = job.decode([one])
        n = len(decoded.owner)
        must(decoded.X.shape == (n, job.dim) and len(decoded.times) == len(decoded.labels) == n, "lengths differ")
        must(bool(np.isfinite(decoded.times).all()) and not np.isinf(decoded.X).any(), "numbers that are not finite")
        alone = np.zeros(n, bool) if decoded.alone is None else decoded.alone
        widths = np.cumsum([0, *job.composition.sensors.widths]) if job.composition.sensors else np.zeros(1)
        known = [~np.isnan(decoded.X[:, a:b]) for a, b in itertools.pairwise(widths)]
        whole = np.array([one.all(axis=1) for one in known]).sum(axis=0)
        some = np.array([one.any(axis=1) for one in known]).sum(axis=0)
        must(bool((((whole == 1) & (some == 1)) | alone).all()), "a sample that is not of one sensor")
        must(bool(decoded.errors) == (n == 0 and not decoded.skipped), "neither samples nor an error")
        if chance(case.data) % LEARNED == 0:
            self._learned(case.which, job, one)
        return outcome_of(decoded.errors)

    def _learned(self, which: int, job: Job, one: Stored) -> None:
        """Between good records; the key's state is one that a restart takes."""
        after = self._records(which, MIDDLE + 1, MIDDLE + 12)
        with self.pool.of(job, self.stored[which]) as live:
            made = applied(job, live, [one, *after])
            must(made.report.records == 12 and not made.report.redelivered, "a record was not counted")
            load_snapshot(job, live.encode([live.slot_of[b"p0"]])[0])


def _near_reading(rnd: Random, one: Any) -> Any:
    if not isinstance(one, dict) or rnd.random() < 0.8:
        return one
    made = {name: near(rnd, value) for name, value in one.items()}
    if isinstance(made.get("values"), dict):
        made["values"] = {name: near(rnd, value) for name, value in made["values"].items()}
    if isinstance(made.get("time"), int) and rnd.random() < 0.5:
        made["time"] += rnd.choice((-(10**10), -(10**7), 1, 10**6, 10**9, 3 * 10**10))
    if made and rnd.random() < 0.2:
        del made[rnd.choice(list(made))]
    return made


def _phone(begin: int, count: int) -> list[Stored]:
    """A quarter of a second each."""
    made = [phones.push(n, phones.readings(n / 4, (n + 1) / 4)) for n in range(begin, begin + count)]
    return [_record(one.offset, one.value) for one in made]


def _plain(step: int, n: int) -> dict[str, Any]:
    times: Any = START + step / 10 if not n else [START + step / 10 + place / 100 for place in range(n)]
    one: Any = float(step % 7) if not n else [float(place) for place in range(n)]
    body = {"t": times, "l": "ab"[step // 9 % 2]} if step % 3 else {"t": times}
    return body | ({"s": "temp", "v": {"deg": one}} if step % 5 == 0 else {"s": "acc", "x": one, "y": one})


def _record(offset: int, value: bytes | None) -> Stored:
    return Stored(TOPIC, 0, offset, round((START + offset / 4 + 5) * 1000), b"p0", value)
