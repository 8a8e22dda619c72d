"""Many people at once: the demo's recordings, with gains and offsets of their own, sent to a worker in real time."""

import json
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjobs.demo.background import PARTITIONS, Background, consumer, producer
from streamjobs.demo.recordings import FIELDS, NEW, RATE, sets
from streamjobs.demo.show import Stage, _check, _end_of

SAMPLES = round(RATE)  # of a frame
NEWEST = 20_000  # windows with delays that are kept
GAIN, OFFSETS = 0.1, np.array([0.05, 0.05, 0.05, 0.1, 0.1, 0.1])
LOOK_EVERY = 0.125  # seconds
SETTLED = 5.0  # seconds without a window, after the last frame, until all is answered
PATIENCE = 120.0  # the same, while windows are expected


class Frame(NamedTuple):
    """A second of one recording, before a sensor is off."""

    X: NDArray[np.float64]  # (SAMPLES, 6)
    exercise: str
    arm: int


class Sender(Background):
    """Sends a frame a second of every person, in real time, for `seconds`. One person in `labelled` gives labels."""

    def __init__(self, servers: str, topic: str, people: int, seconds: float, labelled: int = 1) -> None:
        super().__init__("sender")
        self.servers, self.topic, self.people, self.seconds, self.labelled = servers, topic, people, seconds, labelled
        self.sent = 0  # frames
        self._frames = [list(_frames(person)) for person in NEW]
        random = np.random.default_rng(1)
        self._gains = random.uniform(1 - GAIN, 1 + GAIN, (people, len(FIELDS)))
        self._offsets = random.uniform(-1, 1, (people, len(FIELDS))) * OFFSETS
        self._starts = random.integers(0, 1 << 20, people)  # where in the recordings each one begins
        self._behind = np.arange(SAMPLES) / RATE - 1.0  # seconds of samples relative to the time a frame is sent

    @property
    def samples(self) -> int:
        return SAMPLES * self.sent

    def work(self) -> None:
        to = producer(self.servers, linger=20)
        started, begun = time.monotonic(), time.time()
        for turn in range(int(self.seconds)):
            for person in range(self.people):
                due = turn + person / self.people  # spread over the second
                if not self.wait_until(started + due, to):
                    return
                key, value = f"person-{person:04d}".encode(), self._value(person, turn, begun + due)
                to.produce(self.topic, key=key, value=value, partition=person % PARTITIONS)
                self.sent += 1
        to.flush(30)

    def _value(self, person: int, turn: int, now: float) -> bytes:
        frames = self._frames[person % len(NEW)]
        frame = frames[(int(self._starts[person]) + turn) % len(frames)]
        X = (frame.X * self._gains[person] + self._offsets[person]).round(3)
        columns: dict[str, Any] = dict(zip(FIELDS, X.T.tolist(), strict=True))
        times = (now + self._behind).round(3).tolist()
        label = {"exercise": frame.exercise} if person % self.labelled == 0 else {}
        return json.dumps(columns | {"arm": frame.arm} | label | {"ts": times}).encode()


class Counter(Background):
    """Reads the predictions and counts them; `delays` are seconds from a window's end to its reading."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__("counter")
        self.servers, self.topic = servers, topic
        self.windows = 0
        self.delays: deque[float] = deque(maxlen=NEWEST)
        self.last = time.monotonic()

    def work(self) -> None:
        predictions = consumer(self.servers, [self.topic])
        while not self.stopping.is_set():
            for message in predictions.consume(1000, 0.1):
                if message.error():
                    continue
                self.windows += 1
                self.delays.append(time.time() - json.loads(message.value())["ts"])
                self.last = time.monotonic()
        predictions.close()


def followed(worker: "subprocess.Popen[bytes]", stage: Stage, sender: Sender, counter: Counter, expected: int = 0) -> None:
    """Start both, and wait until everything sent was answered. expected: windows that must come, on a slow machine too."""
    counter.start()
    sender.start()
    while sender.is_alive() or time.monotonic() - counter.last < (SETTLED if counter.windows >= expected else PATIENCE):
        _check(worker, stage.log, sender, counter)
        time.sleep(LOOK_EVERY)
    assert counter.windows, f"no window came out; the worker's log ends: {_end_of(stage.log)}"


def _frames(person: int) -> Iterator[Frame]:
    for one in sets()[person]:
        for begin in range(0, len(one.X) - SAMPLES + 1, SAMPLES):
            yield Frame(one.X[begin : begin + SAMPLES], one.exercise, one.arm)
