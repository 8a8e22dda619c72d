"""The ids of outputs of an input topic that was recreated: they name the topic's life, and nothing else differs."""

import json

import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.messages import Output
from tests.core.streams import START, Worker, record, settings

LIFE = "5f0c81d2"
CHART = {"name": "column_chart", "learn": 100, "hold": 60}
DRIFT = {"watch": "columns", "false_alarms": "1 per 1000 rows", "detector": CHART}
ROWS = 400  # of one key; from row 300 on its columns are 8 deviations higher


def outputs(life: str) -> list[Output]:
    """Predictions, features, alarms and a dead letter; without windows, and a frame of two samples."""
    frame = {axis: [0.5, -0.5] for axis in ("ax", "ay", "az")} | {"ts": [START + ROWS / 10, START + ROWS / 10 + 0.1]}
    random = np.random.default_rng(4)
    bodies = [
        dict(zip(("ax", "ay", "az"), (random.normal(size=3) + 8 * (n >= 300)).tolist(), strict=True), ts=START + n / 10)
        for n in range(ROWS)
    ]
    records = [record(n, b"p0", one) for n, one in enumerate([*bodies, frame, b"{"])]
    job = Job.from_settings(settings(window=None, drift=DRIFT, sinks={"features": "imu.features"}))
    return Worker(job.in_life(life)).apply(records)


def body(output: Output) -> dict:
    return {} if output.sink == "dlq" else {name: value for name, value in json.loads(output.value).items() if name != "id"}


def test_only_the_ids_name_the_life_of_a_recreated_topic() -> None:
    first, second = outputs(""), outputs(LIFE)
    assert {one.sink for one in first} == {"features", "predictions", "alarms", "dlq"}
    for one, other in zip(first, second, strict=True):
        (name, identity), *rest = one.headers
        assert name == "streamjobs-id" and identity.startswith(b"imu-0-")
        assert other.headers == [(name, identity.replace(b"imu", f"imu~{LIFE}".encode(), 1)), *rest]
        assert (one.sink, one.key, one.timestamp, body(one)) == (other.sink, other.key, other.timestamp, body(other))


def test_an_alarm_of_another_life_has_another_id() -> None:
    first, second = ({json.loads(one.value)["id"] for one in outputs(life) if one.sink == "alarms"} for life in ("", LIFE))
    assert first and second and first.isdisjoint(second)


def test_the_ids_of_a_topic_that_was_never_recreated_are_those_of_earlier_releases() -> None:
    ids = [one.headers[0][1] for one in outputs("") if one.sink in ("predictions", "dlq")]
    assert ids == [*(b"imu-0-%d" % offset for offset in range(ROWS)), b"imu-0-400-0", b"imu-0-400-1", b"imu-0-401"]
