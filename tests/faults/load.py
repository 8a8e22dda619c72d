"""The records of a case, 500 of each of 200 people, and a thread that sends them at a pace while faults happen."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent, new_producer, send

KEYS, EACH = 200, 500
START = 1_700_000_000.0  # event time of the first sample, seconds since 1970
STEP = 0.02  # seconds of event time between a person's samples
SOURCE = {"dim": 4, "time": "ts", "label": "label"}  # of the job file

PERSON = "person-4711-"  # every key begins so
NOTE = "canary-31415"  # in every value and in a header; none of the two may ever be logged
AT_PACE = 0.85  # of the records are sent within the seconds a case asks for
TRICKLE = 300.0  # seconds for the rest of them, unless it is wanted at once


@lru_cache(2)
def people(seed: int, *, keys: int = KEYS, each: int = EACH, start: float = START) -> Sequence[Sent]:
    """Noisy walks with a label at every third sample, in random order of people; person k is in partition k % 4."""
    rnd = np.random.default_rng(seed)
    walks = np.round(np.cumsum(rnd.normal(0, 0.2, (keys, each, 4)), axis=1) * 0.5 + rnd.normal(0, 1, (keys, 1, 4)), 4)
    steps, records = [0] * keys, []
    for key in rnd.permutation(np.repeat(np.arange(keys), each)).tolist():
        step = steps[key]
        steps[key] += 1
        at = start + step * STEP
        body: dict[str, Any] = {"x": walks[key, step].tolist(), "ts": at, "note": NOTE}
        if step % 3 == 0:
            body["label"] = "up" if body["x"][0] > 0 else "down"
        records.append(sent(key, body, at))
    return tuple(records)


def sent(key: int, body: dict[str, Any], at: float) -> Sent:
    name = f"{PERSON}{key}".encode()
    return Sent(name, json.dumps(body).encode(), key % PARTITIONS, round(at * 1000), [("trace", NOTE.encode())])


class PacedLoad(threading.Thread):
    """Sends most of the records within `seconds`; the rest trickles until `finish`, so that no fault meets an idle job."""

    settings: ClassVar[dict[str, Any]] = {}  # further ones of its producer

    def __init__(self, job: KafkaJob, records: Sequence[Sent], seconds: float) -> None:
        super().__init__(daemon=True, name="pour")
        self.job, self.records, self.seconds = job, records, seconds
        self.refused: list[str] = []
        self.acknowledged = 0
        self.left_at_pace = round(AT_PACE * len(records))  # records to send before the load trickles
        self._enough, self._given_up = threading.Event(), threading.Event()

    def run(self) -> None:
        patient = {"message.timeout.ms": 300_000, "linger.ms": 100}
        producer = new_producer(self.job.bootstrap, **patient, **self.settings)
        for record in self._paced():
            send(producer, self.job.input, record, self._answered)
            if self._given_up.is_set():
                break
        producer.flush(300 if not self._given_up.is_set() else 5)

    def _paced(self) -> Iterator[Sent]:
        due, count = time.monotonic(), len(self.records)
        fast, slow = self.seconds / (AT_PACE * count), TRICKLE / ((1 - AT_PACE) * count)
        for record in self.records:
            yield record
            due += fast if self.left_at_pace else slow
            self.left_at_pace = max(0, self.left_at_pace - 1)
            ahead = due - time.monotonic()
            if ahead > 0.02 and not self._enough.is_set():
                self._enough.wait(ahead)
            elif ahead < -1.0:
                due = time.monotonic()  # after a pause of the whole machine: no burst

    def _answered(self, error: Any, _: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            self.acknowledged += 1

    def finish(self) -> int:
        """All that is left at once; waits until the last one is acknowledged and gives how many were."""
        self._enough.set()
        self.join(300)
        assert not self.is_alive(), "the records could not be delivered within 300 s"
        assert not self.refused, f"{len(self.refused)} records were refused, such as {self.refused[0]}"
        return self.acknowledged

    def abort(self) -> None:
        self._given_up.set()
        self._enough.set()
        self.join(60)
