"""Bouts on a real broker, through a kill between outputs and their checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.killing import run_to_the_end, run_until_crash
from tests.brokers.load import SOURCE, samples
from tests.brokers.verification import verify

KEYS, SAMPLES = 12, 12_000


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_no_bout_is_lost_and_none_is_sent_twice(
    broker: Any, tmp_path: Path, guarantee: str, fork_server: ForkServer
) -> None:
    name = f"bouts-{guarantee.replace('_', '-')}"
    job = {"name": name, "guarantee": guarantee}
    sections: dict[str, Any] = {"source": SOURCE, "head": {"name": "rls"}, "bouts": {"shortest": "0.1s"}}
    on_broker = KafkaJob(broker.bootstrap, tmp_path, name, job=job, **sections)
    sent = list(samples(SAMPLES, keys=KEYS))
    on_broker.produce(sent[: SAMPLES // 2])
    run_until_crash(on_broker, "crash-after-outputs", fork_server=fork_server)
    on_broker.produce(sent[SAMPLES // 2 :])
    run_to_the_end(on_broker, fork_server=fork_server)
    exactly = guarantee == "exactly_once"
    verify(on_broker, repeats=not exactly, expect=SAMPLES, committed_only=exactly)
    told = [json.loads(one.value()) for one in on_broker.sink("bouts", committed_only=exactly)]
    begun = {(one["key"], one["start"]) for one in told}
    assert len(begun) > 3 * KEYS, "every key had bouts to lose"
    assert len(begun) == len(told) or not exactly, "each is sent once"
    assert len(on_broker.sink("bouts")) > len(told) or not exactly, "the crash had bouts to undo"
