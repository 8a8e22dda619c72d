"""Jobs with [source.sensors], and records for them."""

import json
from typing import Any

import msgspec

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.settings.load import settings_from
from tests.core.phones import JOB, SENSORS, SOURCE, START, TOPIC

PLAIN = {"name": "sensor", "each": {"acc": {"fields": ["x", "y"], "rate": 10}, "temp": {"fields": ["deg"], "rate": 2}}}
ACC = {"sensor": "acc", "t": START, "x": 1.0, "y": 2.0}


def job(sensors: dict[str, Any] | None = None, source: dict[str, Any] | None = None, **sections: Any) -> Job:
    made = {**SOURCE, "sensors": {**SENSORS, **(sensors or {})}, **(source or {})}
    return Job.from_settings(settings_from({**JOB, "source": made, "sinks": {"features": "z"}, **sections}))


def plain(source: dict[str, Any] | None = None, **sections: Any) -> Job:
    """Two sensors, a sample a record, no windows: rows at 10 Hz."""
    table = {
        "source": {"topic": TOPIC, "time": "t", "sensors": {**PLAIN, "rate": 10}, **(source or {})},
        "learner": {"name": "okfeb", "rank": 3, "budget": 5},
        "sinks": {"features": "z"},
    }
    return Job.from_settings(settings_from({**table, **sections}))


def record(offset: int, body: Any, key: bytes = b"p", form: str = "json") -> Stored:
    encode = msgspec.msgpack.encode if form == "msgpack" else lambda one: json.dumps(one).encode()
    value = body if isinstance(body, bytes) else encode(body)
    return Stored(TOPIC, 0, offset, (START + 1000) * 1000, key, value)


def run(made: Job, records: list[Stored]) -> tuple[Any, Live]:
    live = Live(made, lambda key: None)
    return advance(made, live, records), live


def letter(made: Job, body: Any, form: str = "json") -> tuple[str, str]:
    """Reason and message of the dead letter that a record becomes."""
    (out,), _ = run(made, [record(0, body, form=form)])[0]
    headers = dict(out.headers)
    assert out.sink == "dlq"
    return headers["streamjobs-error-reason"].decode(), headers["streamjobs-error-message"].decode()
