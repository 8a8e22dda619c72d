"""Small jobs and streams of records for the core's tests."""

import json

import numpy as np

from algorithms import LEARNERS
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Output, Stored
from streamjobs.settings.learners import PREDICTING
from streamjobs.settings.sections import Settings

TOPIC, START = "imu", 1_700_000_000.0


def settings(**sections) -> Settings:
    """A small job: three axes at 10 Hz, okfeb, a head for two classes and a detector. Sections replace whole tables."""
    table = {
        "source": {"topic": TOPIC, "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity"},
        "window": {"length": "1s", "hop": "500ms", "rate": 10.0},
        "learner": {"name": "okfeb", "rank": 3, "budget": 5},
        "head": {"name": "rls"},
        "drift": {"detector": "page_hinkley"},
    }
    table |= sections
    if "sinks" not in sections and LEARNERS[table["learner"]["name"]].kind not in PREDICTING:
        table["sinks"] = {"features": f"{table['source']['topic']}.features"}
    return Settings(**{name: section for name, section in table.items() if section is not None})


def samples(n: int, keys: int = 3, seed: int = 1, labelled: bool = True) -> list[Stored]:
    """n records of single samples at 10 Hz a key, keys in turn, two activities that alternate."""
    rng = np.random.default_rng(seed)
    records = []
    for offset in range(n):
        key, step = offset % keys, offset // keys
        moving = (step // 40) % 2
        t = START + step * 0.1
        x = rng.normal(size=3) * (0.1 + moving) + [np.sin(3 * t) * moving, 0, 1 - moving]
        body = dict(zip(("ax", "ay", "az"), x.tolist(), strict=True), ts=t)
        if labelled and step % 3:
            body["activity"] = "run" if moving else "sit"
        records.append(record(offset, f"p{key}".encode(), body))
    return records


def record(offset: int, key: bytes | None, body: object, partition: int = 0) -> Stored:
    value = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Stored(TOPIC, partition, offset, int((START + offset) * 1000), key, value)


class Worker:
    """What a worker does with the core, without Kafka: a store of snapshots, checkpoints, and crashes."""

    def __init__(self, job: Job, store: dict[bytes, bytes] | None = None, **live) -> None:
        self.job, self.store, self.how = job, {} if store is None else store, live
        self.live = Live(job, self.store.get, **live)

    def apply(self, records: list[Stored]) -> list[Output]:
        made = advance(self.job, self.live, records)
        assert not made.report.failures, "a stage raised an error"
        return made.outputs

    def checkpoint(self) -> None:
        self.store.update(self.live.snapshots())

    def crash(self) -> None:
        """Everything that was not stored is gone."""
        self.live = Live(self.job, self.store.get, **self.how)


def values(outputs: list[Output]) -> list[tuple]:
    return [(o.sink, o.key, o.value, o.timestamp, tuple(o.headers)) for o in outputs]
