"""Alarms of sensors on a real broker, through a kill between outputs and their checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, KafkaJob
from tests.brokers.killing import run_to_the_end, run_until_crash
from tests.brokers.load import sensors
from tests.brokers.verification import verify

KEYS, STEPS = 12, 900
SECTIONS = {
    "learner": {"name": "okfeb", "rank": 3, "budget": 5},
    "alarms": {"stuck": True, "silent": "60s", "expected": ["s0", "never"]},
}


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_no_alarm_of_a_sensor_is_lost_or_doubled(
    broker: Any, tmp_path: Path, guarantee: str, fork_server: ForkServer
) -> None:
    name = f"sensors-{guarantee.replace('_', '-')}"
    source = {"topic": f"{name}.in", "fields": ["ax", "ay", "az"], "time": "ts", "partitioner": "crc32"}
    job = {"name": name, "guarantee": guarantee}
    on_broker = KafkaJob(broker.bootstrap, tmp_path, name, job=job, source=source, **SECTIONS)
    on_broker.core = on_broker.core.on_partitions(PARTITIONS)  # what the replay compares with, as the worker knows
    sent = sensors(KEYS, STEPS, stuck=True)
    half = len(sent) // 2
    on_broker.produce(sent[:half])
    run_until_crash(on_broker, "crash-after-outputs", fork_server=fork_server)
    on_broker.produce(sent[half:])
    run_to_the_end(on_broker, fork_server=fork_server)
    exactly = guarantee == "exactly_once"
    verify(on_broker, repeats=not exactly, expect=len(sent), committed_only=exactly)
    found = [_value(message) for message in on_broker.sink("alarms", committed_only=exactly)]
    kinds = {(one["watch"], one["key"], one["open"]) for one in found}
    expected = {"stuck": range(0, KEYS, 3), "silent": range(1, KEYS, 3)}
    kinds.remove(("missing", "never", True))
    assert kinds == {(kind, f"s{key}", state) for kind, keys in expected.items() for key in keys for state in (True, False)}


def _value(message: Any) -> dict:
    return json.loads(message.value())
