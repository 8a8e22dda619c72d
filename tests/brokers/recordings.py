"""Ten people's wrist recordings as records: of single samples, and of frames of 50."""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tests.brokers.kafka_job import PARTITIONS, Sent
from tests.data import dataset

AXES = ("ax", "ay", "az", "wx", "wy", "wz")
RATE, LENGTH, HOP = 50, 2.0, 1.0  # Hz, seconds, seconds
FRAME = 50  # samples
START = 1_700_000_000.0  # event time of everybody's first sample
PAUSE = 30.0  # seconds between two recordings of a person: far above the gap that begins a new window

JOB = {
    "source": {"fields": list(AXES), "time": "ts", "label": "exercise"},
    "window": {"length": "2s", "hop": "1s", "rate": RATE},
    "learner": {"name": "okfeb", "rank": 10, "budget": 15},
    "head": {"name": "rls", "max_classes": 7},
    "drift": {"detector": "page_hinkley"},
}


class Recording(NamedTuple):
    person: str
    exercise: str
    times: list[float]  # seconds since 1970
    X: np.ndarray  # (n, 6)


def recordings(most: int | None = None, seed: int = 3) -> dict[str, list[Recording]]:
    """Every person's recordings, shuffled, one after the other in event time; `most` of each."""
    arrays = dataset("seglearn_watch")
    assert [str(name) for name in arrays["columns"]] == list(AXES)
    names = [str(name) for name in arrays["y_labels"]]
    shuffle = np.random.default_rng(seed)
    people: dict[str, list[Recording]] = {}
    for key in np.unique(arrays["key"]):
        mine = arrays["key"] == key
        now = START
        taken = people.setdefault(f"person-{key}", [])
        for segment in shuffle.permutation(np.unique(arrays["seg"][mine]))[:most]:
            rows = np.flatnonzero(mine & (arrays["seg"] == segment))
            times = (now + arrays["t"][rows] - arrays["t"][rows[0]]).tolist()
            taken.append(Recording(f"person-{key}", names[arrays["y"][rows[0]]], times, arrays["X"][rows]))
            now = times[-1] + PAUSE
    return people


def windows_of(people: dict[str, list[Recording]]) -> dict[str, int]:
    """How many windows each person's recordings give, counted plainly: full ones, none across recordings."""
    length, hop = round(LENGTH * RATE), round(HOP * RATE)
    return {person: sum(max(0, 1 + (len(one.X) - length) // hop) for one in mine) for person, mine in people.items()}


def as_samples(people: dict[str, list[Recording]]) -> Iterator[Sent]:
    """A record per sample; the people take turns, so that every partition's batches mix keys."""
    return _in_turn({person: _samples(mine) for person, mine in people.items()})


def as_frames(people: dict[str, list[Recording]]) -> Iterator[Sent]:
    """A record per 50 samples (the last of a recording has fewer)."""
    return _in_turn({person: _frames(mine) for person, mine in people.items()})


def _in_turn(streams: dict[str, Iterator[tuple[float, bytes]]]) -> Iterator[Sent]:
    partition = {person: number % PARTITIONS for number, person in enumerate(streams)}
    while streams:
        for person in list(streams):
            found = next(streams[person], None)
            if found is None:
                del streams[person]
            else:
                yield Sent(person.encode(), found[1], partition[person], round(found[0] * 1000))


def _samples(mine: list[Recording]) -> Iterator[tuple[float, bytes]]:
    for one in mine:
        for at, x in zip(one.times, one.X.tolist(), strict=True):
            yield at, json.dumps({**dict(zip(AXES, x, strict=True)), "ts": at, "exercise": one.exercise}).encode()


def _frames(mine: list[Recording]) -> Iterator[tuple[float, bytes]]:
    for one in mine:
        for begin in range(0, len(one.X), FRAME):
            rows, times = one.X[begin : begin + FRAME], one.times[begin : begin + FRAME]
            if len(times) == 1:  # a frame of one is a sample
                yield next(_samples([one._replace(times=times, X=rows)]))
                continue
            columns = dict(zip(AXES, rows.T.tolist(), strict=True))
            yield times[-1], json.dumps({**columns, "ts": times, "exercise": one.exercise}).encode()
