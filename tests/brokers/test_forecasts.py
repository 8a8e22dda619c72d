"""Forecasts on a real broker, through a kill between outputs and their checkpoint."""

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
    "forecast": {"fields": ["ax", "ay"], "ahead": [1, "5s"], "every": "1s"},
}


def stream() -> list[Sent]:
    """A sample of each key every second. For a while, every third key sends nothing."""
    random, sent = np.random.default_rng(7), []
    for step in range(STEPS):
        for number in range(KEYS):
            x = random.normal(size=3)
            if number % 3 == 1 and 400 <= step < 700:
                continue
            body = {"ax": x[0], "ay": x[1], "az": x[2], "ts": START + step}
            key = f"s{number}".encode()
            sent.append(Sent(key, json.dumps(body).encode(), zlib.crc32(key) % PARTITIONS, int((START + step) * 1000)))
    return sent


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_no_forecast_is_lost_or_changed(broker: Any, tmp_path: Path, guarantee: str) -> None:
    name = f"forecasts-{guarantee.replace('_', '-')}"
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
    made = [json.loads(one.value()) for one in on_broker.sink("forecasts", committed_only=exactly)]
    assert len({(one["key"], one["seq"]) for one in made}) == len(sent)
    assert all(one["forecasts"][0]["intervals"][0]["low"] is not None for one in made if one["seq"] > 100)
