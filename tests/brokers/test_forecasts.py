"""Forecasts on a real broker, through a kill between outputs and their checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.killing import run_to_the_end, run_until_crash
from tests.brokers.load import sensors
from tests.brokers.verification import verify

KEYS, STEPS = 12, 900
SECTIONS = {
    "learner": {"name": "okfeb", "rank": 3, "budget": 5},
    "forecast": {"fields": ["ax", "ay"], "ahead": [1, "5s"], "every": "1s"},
}


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_no_forecast_is_lost_or_changed(broker: Any, tmp_path: Path, guarantee: str, fork_server: ForkServer) -> None:
    name = f"forecasts-{guarantee.replace('_', '-')}"
    source = {"topic": f"{name}.in", "fields": ["ax", "ay", "az"], "time": "ts"}
    job = {"name": name, "guarantee": guarantee}
    on_broker = KafkaJob(broker.bootstrap, tmp_path, name, job=job, source=source, **SECTIONS)
    sent = sensors(KEYS, STEPS)
    half = len(sent) // 2
    on_broker.produce(sent[:half])
    run_until_crash(on_broker, "crash-after-outputs", fork_server=fork_server)
    on_broker.produce(sent[half:])
    run_to_the_end(on_broker, fork_server=fork_server)
    exactly = guarantee == "exactly_once"
    verify(on_broker, repeats=not exactly, expect=len(sent), committed_only=exactly)
    made = [json.loads(one.value()) for one in on_broker.sink("forecasts", committed_only=exactly)]
    assert len({(one["key"], one["seq"]) for one in made}) == len(sent)
    assert all(one["forecasts"][0]["intervals"][0]["low"] is not None for one in made if one["seq"] > 100)
