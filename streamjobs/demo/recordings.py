"""The demo's recordings: people doing seven shoulder exercises, played as a circuit of short sets.

Every recording is cut into two sets of about 10 s. A person does all first halves in a random order, then all second
halves in another. Labels arrive 20 s late, when a set is already over, so repeating the last label does not help. Every
other person is new; the population was learned from the rest (tests/golden/make_demo_population.py).
"""

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array

FILE = Path(__file__).parent / "recordings.npz"
RATE = 50.0  # Hz
UNIT = 0.001  # g, rad/s
PAUSE = 5.0  # seconds of event time between two sets
FIELDS = ("ax", "ay", "az", "wx", "wy", "wz")
TEACHERS, NEW = (1, 3, 5, 7, 9), (2, 4, 6, 8, 10)
EXERCISES = {
    "PEN": "pendulum",
    "ABD": "abduction",
    "FEL": "forward elevation",
    "IR": "internal rotation",
    "ER": "external rotation",
    "TRAP": "trapezius extension",
    "ROW": "upright row",
}


class Set(NamedTuple):
    """One person doing one exercise for some seconds."""

    person: int
    exercise: str  # a key of EXERCISES
    arm: int  # 0 or 1
    X: Array  # (n, 6) g and rad/s


def sets() -> dict[int, list[Set]]:
    with np.load(FILE, allow_pickle=False) as archive:
        data = {name: archive[name] for name in archive.files}
    X = np.cumsum(data["changes"], axis=1, dtype=np.int64).T * UNIT
    names = [str(name) for name in data["exercises"]]
    order = random.Random(1)
    circuits: dict[int, list[Set]] = {}
    for half in (0, 1):
        for person in sorted(set(data["person"].tolist())):
            mine = np.flatnonzero(data["person"] == person).tolist()
            order.shuffle(mine)
            for index in mine:
                begin, end = int(data["begins"][index]), int(data["begins"][index + 1])
                middle = (begin + end) // 2
                part = X[begin:middle] if half == 0 else X[middle:end]
                one = Set(person, names[data["exercise"][index]], int(data["arm"][index]), part)
                if person in NEW:
                    circuits.setdefault(person, []).append(one)
    return circuits


class Sample(NamedTuple):
    at: float  # seconds since the first sample
    person: int
    body: dict[str, Any]  # the record without its time


def samples() -> list[Sample]:
    """Those of all people, in order."""
    found = []
    for person, circuit in sets().items():
        begin = person * 0.35  # people start one after the other
        for one in circuit:
            for i, x in enumerate(one.X.round(3).tolist()):
                body = dict(zip(FIELDS, x, strict=True)) | {"arm": one.arm, "exercise": one.exercise}
                found.append(Sample(round(begin + i / RATE, 3), person, body))
            begin += len(one.X) / RATE + PAUSE
    return sorted(found, key=lambda sample: (sample.at, sample.person))
