"""Jobs with [alarms], and what came of their alarms."""

import json

import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Stored
from tests.core.streams import START, Worker, record, settings, values

NAMES = ("ax", "ay", "az")
CHART = {"name": "column_chart", "learn": 100, "hold": 60}
DRIFT = {"watch": "columns", "false_alarms": "1 per 1000 rows", "detector": CHART}
SAMPLES = {"window": None, "head": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}, "sinks": {}}
SILENT = {"silent": "60s"}
EXPECTED = SILENT | {"expected": ["s0", "s8", "s9", "s10"]}
GROUP = {"silent": "10m", "stuck": True, "group": 0.1, "group_within": "40s"}
OUTAGE = GROUP | {"silent": "60s"}
Stops = dict[int, list[tuple[int, int]]]  # by key: steps with one number


def job(**sections) -> Job:
    return Job.from_settings(settings(**{**SAMPLES, "drift": None, "alarms": {"stuck": True}, **sections}))


def alarms(outputs: list[Output]) -> list[dict]:
    return [json.loads(one.value) for one in outputs if one.sink == "alarms"]


def rows_of(outputs: list[Output]) -> list[tuple]:
    return [one for one in values(outputs) if one[0] == "alarms"]


def around(rows: list[tuple], near: int) -> set[int]:
    """Offsets of the records that gave these outputs, and of so many before and after each."""
    offsets = {int(dict(headers)["streamjobs-id"].split(b"-")[2]) for *_, headers in rows}
    assert len(offsets) >= 9
    return {offset + by for offset in offsets for by in range(-near, near + 1)}


def fleet(seed: int = 9, n: int = 240) -> list[Stored]:
    """Samples of eight keys, about one each 5 s; s1 and s2 pause twice, s3 stops, s4 sends old samples after that."""
    random = np.random.default_rng(seed)
    stops = {"s1": [(300, 500), (800, 1000)], "s2": [(300, 520), (700, 790)], "s3": [(600, 1e9)], "s4": [(640, 1e9)]}
    sent = []
    for key in range(8):
        times = (np.arange(n) * 5 + random.uniform(0, 4, n)).tolist()
        sent += [(time, time, f"s{key}") for time in times if not any(a <= time < b for a, b in stops.get(f"s{key}", ()))]
    sent += [(900.0 + step, 500.0 + step, "s4") for step in range(20)]
    records: list[Stored] = []
    for _, time, key in sorted(sent):
        body = dict(zip(NAMES, random.normal(size=3).tolist(), strict=True), ts=START + time)
        records.append(record(len(records), key.encode(), body))
    return records


def of_missing(partition: int = 0) -> list[Stored]:
    """As the fleet; s8 comes before 60 s have passed, s9 after, and s10 does not."""
    records = fleet()
    for time, key in ((40.0, b"s8"), (100.0, b"s9"), (104.0, b"s9")):
        body = dict(zip(NAMES, (0.1, 0.2, time), strict=True), ts=START + time)
        at = next(at for at, one in enumerate(records) if json.loads(one.value)["ts"] > START + time)
        records.insert(at, record(int(time), key, body))
    return [one._replace(offset=offset, partition=partition) for offset, one in enumerate(records)]


def hall(keys: int = 30, n: int = 400, stops: Stops | None = None) -> list[Stored]:
    """A sample of each key every second. Seven sensors stop at about the same time, and later seven others together."""
    random = np.random.default_rng(17)
    stops = stops or {key: [(200 + 2 * key, 260)] for key in range(7)} | {key: [(290, 400)] for key in range(10, 17)}
    records: list[Stored] = []
    for step in range(n):
        for key in range(keys):
            x = random.normal(size=3)
            if any(a <= step < b for a, b in stops.get(key, ())):
                x[1] = 0.5
            body = dict(zip(NAMES, x.tolist(), strict=True), ts=START + step + key / 100)
            records.append(record(len(records), f"k{key:02}".encode(), body))
    return records


def site(n: int = 150, apart: int = 0) -> list[Stored]:
    """As the hall, of 20 keys. Eight of them send nothing for 90 s, each so many seconds after the one before."""

    def sent(key: int, step: int) -> bool:
        return key >= 8 or not 0 <= step - 10 - apart * key < 90

    records = [one for at, one in enumerate(hall(20, n, {99: []})) if sent(at % 20, at // 20)]
    return [one._replace(offset=offset) for offset, one in enumerate(records)]


class Fleet(Worker):
    """As a worker, which meets all stored keys when it takes over their partition."""

    def crash(self) -> None:
        super().crash()
        self.live.meet(lambda after, count: [] if after is not None else sorted(self.store.items()))
