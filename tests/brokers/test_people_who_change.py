"""Alarms by the population's reference, on a real broker, through kills between an alarm and its checkpoint."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from streamjobs.demo.job import FILE
from streamjobs.demo.player import Player
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob, Sent
from tests.brokers.killing import run_to_the_end, run_until_crash
from tests.brokers.verification import verify

SAMPLES, PARTS = 36_000, 3  # of five people, half of the demo


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_no_alarm_is_lost_and_none_is_opened_under_two_ids(
    broker: Any, tmp_path: Path, guarantee: str, fork_server: ForkServer
) -> None:
    sections = tomllib.loads(FILE.read_text(encoding="utf-8"))
    del sections["population"]
    name = guarantee.replace("_", "-")
    sections["job"] = {"name": name, "guarantee": guarantee}
    sections["source"]["topic"] = f"{name}.in"
    sections["state"] = {"checkpoint_records": 4000}
    job = KafkaJob(broker.bootstrap, tmp_path, name, population=(FILE.parent / "population.state").read_bytes(), **sections)
    sent = [Sent(one.key, one.value, one.partition, one.timestamp) for one in Player("nowhere", "wrist", 20.0).records]
    for part in range(PARTS):
        job.produce(sent[part * SAMPLES // PARTS : (part + 1) * SAMPLES // PARTS])
        if part == PARTS - 1:
            break
        run_until_crash(job, "crash-after-outputs", fork_server=fork_server)
    run_to_the_end(job, fork_server=fork_server)
    exactly = guarantee == "exactly_once"
    results = verify(job, repeats=not exactly, expect=SAMPLES, committed_only=exactly)
    all_sent = len(job.sink("alarms"))
    assert all_sent > results["alarms"].answers > 60, "the crashes had alarms to repeat, or to undo"
    alarms = [json.loads(message.value()) for message in job.sink("alarms", committed_only=exactly)]
    opened = {(one["key"], one["start"]): one["id"] for one in alarms if one["open"]}
    assert len(opened) == len(set(opened.values())), "an id of its own for every alarm"
    assert {one["id"] for one in alarms if not one["open"]} <= set(opened.values())
