"""Ten people exercise with a watch on the wrist; their recordings go through a real Kafka, sped up."""

import json
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob, Sent
from tests.brokers.recordings import JOB, as_frames, as_samples, recordings, windows_of
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker
from tests.data import dataset


def through(job: KafkaJob, records: Iterable[Sent], fork_server: ForkServer) -> None:
    """Everything in, everything done, the worker stopped."""
    job.produce(records)
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0


def rows(job: KafkaJob, sink: str) -> dict[str, list[dict]]:
    """A sink's decoded values of each person, in the order they came."""
    found: dict[str, list[dict]] = {}
    for message in job.sink(sink):
        found.setdefault(message.key().decode(), []).append(json.loads(message.value()))
    return found


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, list[dict]]]:
    """Features by how the recordings were sent."""
    return {}


@pytest.mark.parametrize(("kind", "split"), [("samples", as_samples), ("frames", as_frames)])
def test_every_window_of_ten_people_gives_features_prediction_and_drift_equal_to_a_replay(
    make_job: MakeJob, kept: dict[str, dict[str, list[dict]]], kind: str, split, fork_server: ForkServer
) -> None:
    people = recordings()
    job = make_job(f"people-{kind}", **JOB)
    through(job, split(people), fork_server)

    expected = windows_of(people)
    assert len(expected) == 10 and sum(expected.values()) > 4000
    for sink in ("features", "predictions", "drift"):
        found = rows(job, sink)
        assert {person: len(mine) for person, mine in found.items()} == expected
        assert all([row["seq"] for row in mine] == list(range(len(mine))) for mine in found.values())
    assert not job.sink("dlq")
    exercises = Counter(row["predicted_class"] for mine in rows(job, "predictions").values() for row in mine)
    assert len(set(exercises) - {None}) == 7
    verify(job, repeats=False)
    kept[kind] = rows(job, "features")


def test_frames_give_the_same_numbers_as_single_samples(kept: dict[str, dict[str, list[dict]]]) -> None:
    dataset("seglearn_watch")  # skips without the recordings
    if kept.keys() != {"samples", "frames"}:
        pytest.skip("the tests that send both did not run")
    assert kept["samples"] == kept["frames"]
