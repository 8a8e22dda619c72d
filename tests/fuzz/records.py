"""Records: in every format, decoded alone, and a share of them learned by a key that stands in the middle of its stream.

Nothing but a RecordError may come of any bytes, and no state may hold anything but numbers afterwards.
"""

from random import Random
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.state.population import flatten
from tests.core.streams import START
from tests.fuzz.bytes import EDGES, REALS, bent
from tests.fuzz.case import Case, Family, chance, must, outcome_of
from tests.fuzz.grammar import TEXTS, as_json, as_msgpack, near
from tests.fuzz.jobs import OF_RECORDS, body_of, good, job_for, moments, record, value_of
from tests.fuzz.live_pool import LivePool, applied

HEADERS = ("shape", "dtype", "time", "rate", "label")
TOLD = (
    *(b"3", b"4", b"1,3", b"2,3", b"2,4", b"0,3", b"999999999,3", b"10000,3", b"-1", b"0", b"1_0", b"1700000000"),
    *(b"1e400", b"nan", b"inf", b"1e-320", b"f4", b"f8", b"f2", b"", b"\xff\xfe", b"null", b'"run"', b"[1,2]"),
    *(b"[" * 5000, b"9" * 5000, b"x" * 70_000),
)
STEP = 60  # of the record that is tried; the key has had those before
LEARNED, REFUSED = 16, 256  # one of so many good, or refused, ones comes to a key that learns
BETWEEN = 8  # one of so many is decoded between good ones too
AT_ONCE = ("json", "msgpack", "raw")  # formats of which many records are parsed at once


class Records(Family):
    def __init__(self, form: str) -> None:
        self.name = self.form = form
        self.jobs = [job_for(form, which) for which in range(len(OF_RECORDS))]
        with mock.patch("streamjobs.core.decoding.records.batch_parser", return_value=None):
            self.one_by_one = [Job.from_settings(job.settings) for job in self.jobs]
        self.stored = [moments(form, which)[-1] for which in range(len(OF_RECORDS))]
        self.pool = LivePool()
        frames = (0, 0, 1, 2, 5, 40) if form != "raw" else (1, 1, 2, 5)
        self.valid = [[value_of(job, STEP + n, n) for n in frames] for job in self.jobs]
        self.bodies = [[body_of(job, STEP + n, n) for n in (0, 0, 1, 3)] for job in self.jobs]
        self.around = [good(job, STEP, STEP + 13) for job in self.jobs]

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(len(self.jobs))
        data, headers = rnd.choice(self.valid[which])
        if rnd.random() < 0.6 and self.form != "raw":
            data = self._made(rnd.choice(self.bodies[which]), rnd)
            if rnd.random() < 0.2:
                data = bent(data, rnd)
        elif rnd.random() < (0.9 if self.form != "raw" else 0.6):
            data = bent(data, rnd, rnd.choice(self.valid[which])[0])
        if rnd.random() < (0.7 if self.form == "raw" else 0.02):
            headers = _told(rnd, headers)
        key: bytes | None = b"p0"
        if rnd.random() < 0.02:
            key = rnd.choice((None, b"", b"\xff\x00", b"k" * 257, rnd.randbytes(8)))
        late = 5.0 if rnd.random() < 0.95 else rnd.choice((0.0, -START - 7.0, -1e6, 1e15, -60.0))
        return Case(which, data, (headers, key, late))

    def _made(self, good_one: dict[str, Any], rnd: Random) -> bytes:
        body = {name: near(rnd, one) for name, one in good_one.items()}
        while body and rnd.random() < 0.2:
            del body[rnd.choice(list(body))]
        while rnd.random() < 0.1:
            body[rnd.choice(("dtype", "x", "ts", "activity", *TEXTS))] = near(rnd, "f8")
        if self.form == "json":
            return as_json(rnd, body)
        if "x" in body and rnd.random() < 0.3:
            body["dtype"] = "f8"
        return as_msgpack(rnd, body)

    def attempt(self, case: Case) -> str:
        job = self.jobs[case.which]
        headers, key, late = case.around
        one = record(case.data, STEP, headers, key, late)
        decoded = job.decode([one])
        _sound(job, decoded)
        picked = chance(case.data)
        if self.form in AT_ONCE:
            _same(self.one_by_one[case.which].decode([one]), decoded, 0)
        if picked % BETWEEN == 3:
            before, after = self.around[case.which][:2]
            _same(decoded, job.decode([before, one, after]), 1)
        if picked % (REFUSED if decoded.errors else LEARNED) == 0:
            self._learned(case.which, job, one)
        return outcome_of(decoded.errors)

    def _learned(self, which: int, job: Job, one: Stored) -> None:
        """Between good records: their outputs come, and the key's numbers stay finite."""
        before, *after = self.around[which]
        records = [before, *(each._replace(offset=STEP + 1 + at) for at, each in enumerate([one, *after]))]
        with self.pool.of(job, self.stored[which]) as live:
            made = applied(job, live, records)
            for output in made.outputs:
                if output.sink != "dlq":
                    msgspec.json.decode(output.value or b"")
            must(made.report.records == 14 and not made.report.redelivered, "a record was not counted")
            finite(live)


def finite(live: Live) -> None:
    """Every number of the stages that learn, of every key."""
    for slot in live.slot_of.values():
        states = live.states(slot)
        for name in ("fill", "clip", "scaling", "map", "learner", "smoothing"):
            for array in flatten(states[name]) if name in states else ():
                must(array.dtype.kind != "f" or bool(np.isfinite(array).all()), f"{name} holds a number that is not finite")


def _sound(job: Job, decoded: Any) -> None:
    n = len(decoded.owner)
    must(len(decoded.times) == len(decoded.X) == len(decoded.labels) == n, "lengths differ")
    must(decoded.X.shape == (n, job.dim) and decoded.X.dtype == np.float64, "X of another shape")
    missing = np.array([policy != "dlq" for policy in job.settings.source.policies(job.dim)])
    known = np.where(missing & np.isnan(decoded.X), 0.0, decoded.X)
    must(bool(np.isfinite(known).all() and np.isfinite(decoded.times).all()), "numbers that are not finite")
    must((n == 0) == bool(decoded.errors), "neither samples nor an error")
    must(n <= job.settings.source.max_samples, "more samples than allowed")


def _same(expected: Any, decoded: Any, place: int) -> None:
    """A record is what is expected, also between two good ones of single samples. place: of the record."""
    letters = [(place, str(error)) for _, error in expected.errors]
    must(letters == [(at, str(error)) for at, error in decoded.errors], "errors")
    which = decoded.owner == place
    must(which.sum() == len(expected.owner) and len(which) == which.sum() + 2 * place, "other samples")
    must(
        decoded.X[which].tobytes() == expected.X.tobytes() and decoded.times[which].tobytes() == expected.times.tobytes(),
        "other numbers",
    )
    labels = [label for label, one in zip(decoded.labels, which.tolist(), strict=True) if one]
    must(repr(labels) == repr(expected.labels), "other labels")


def _told(rnd: Random, headers: tuple[tuple[str, bytes], ...]) -> tuple[tuple[str, bytes | None], ...]:
    made: list[tuple[str, bytes | None]] = list(headers)
    for _ in range(rnd.choice((1, 1, 2, 3))):
        kind = rnd.randrange(6)
        name = "streamjobs-" + rnd.choice(HEADERS)
        if kind == 0 and made:
            del made[rnd.randrange(len(made))]
        elif kind == 1:
            made += [(name, b"x")] * rnd.choice((1, 2, 101))
        elif kind == 2 and made:
            at = rnd.randrange(len(made))
            made[at] = made[at][0], bent(made[at][1] or b"0", rnd)
        else:
            text = rnd.choice((*TOLD, None, str(rnd.choice((*EDGES, *REALS))).encode()))
            made = [(old, text if old == name else one) for old, one in made]
    return tuple(made)
