"""Alarms of sensors on a real broker, through a kill between outputs and their checkpoint."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.brokers.fault_injection import program
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent
from tests.brokers.verification import verify
from tests.brokers.workers import Worker, running_worker
from tests.core.streams import START

KEYS, STEPS = 12, 900
STATIC = {"STREAMJOBS_BROKER__INSTANCE_ID": "one"}
SECTIONS = {
    "learner": {"name": "okfeb", "rank": 3, "budget": 5},
    "alarms": {"stuck": True, "silent": "60s"},
}


def stream() -> list[Sent]:
    """A sample of each key every second. For a while, of three keys one sensor is stuck and one key sends nothing."""
    random, sent = np.random.default_rng(7), []
    for step in range(STEPS):
        for number in range(KEYS):
            x = random.normal(size=3)
            if number % 3 == 0 and 400 <= step < 700:
                x[0] = 1.5
            if number % 3 == 1 and 400 <= step < 700:
                continue
            body = {"ax": x[0], "ay": x[1], "az": x[2], "ts": START + step}
            key = f"s{number}".encode()
            sent.append(Sent(key, json.dumps(body).encode(), zlib.crc32(key) % PARTITIONS, int((START + step) * 1000)))
    return sent


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_no_alarm_of_a_sensor_is_lost_or_doubled(broker: Any, tmp_path: Path, guarantee: str) -> None:
    name = f"sensors-{guarantee.replace('_', '-')}"
    source = {"topic": f"{name}.in", "fields": ["ax", "ay", "az"], "time": "ts"}
    job = {"name": name, "guarantee": guarantee}
    on_broker = KafkaJob(broker.bootstrap, tmp_path, name, job=job, source=source, **SECTIONS)
    sent = stream()
    half = len(sent) // 2
    on_broker.produce(sent[:half])
    crashed = Worker(on_broker, program=program("crash-after-outputs"), **STATIC)
    try:
        assert crashed.process.wait(120) == -9, crashed.text()[-2000:]
    finally:
        crashed.end()
    on_broker.produce(sent[half:])
    with running_worker(on_broker, **STATIC) as worker:
        on_broker.wait_until_done([worker])
        assert worker.stop() == 0
    exactly = guarantee == "exactly_once"
    verify(on_broker, repeats=not exactly, expect=len(sent), committed_only=exactly)
    found = [_value(message) for message in on_broker.sink("alarms", committed_only=exactly)]
    kinds = {(one["watch"], one["key"], one["open"]) for one in found}
    expected = {"stuck": range(0, KEYS, 3), "silent": range(1, KEYS, 3)}
    assert kinds == {(kind, f"s{key}", state) for kind, keys in expected.items() for key in keys for state in (True, False)}


def _value(message: Any) -> dict:
    return json.loads(message.value())
