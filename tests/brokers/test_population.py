"""Somebody nobody has seen, on the population of all others: a worker on a real Kafka says what the figures say."""

import json

import pytest

from papers.core_population import CONVOLVED, GATED, left_out, raw, through_core
from streamjobs.core.job import Job
from streamjobs.fit.learning import Way
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, Sent
from tests.brokers.killing import STATIC, kill_in_the_middle
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker

LONG = pytest.mark.long
WAYS = [pytest.param(CONVOLVED, id="convolutions"), pytest.param(GATED, id="prototypes", marks=LONG)]


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("people", ["watch", pytest.param("phone", marks=LONG)])
@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=LONG)])
def test_a_killed_worker_and_its_successor_give_the_bits_of_the_activity_figures(
    make_job: MakeJob, by: Way, people: str, guarantee: str, fork_server: ForkServer
) -> None:
    """30 s between recordings, which the filter counts; labels in records of their own, 20 windows late."""
    exactly, convolving = guarantee == "exactly_once", by.recipe.convolving
    data = raw(people, 0 if convolving is None else convolving.numbers)
    person = left_out(data, 1, by)
    records = through_core(Job.from_settings(person.settings, population=person.population), data, person.stream).records
    sections = person.settings.model_dump(mode="json", exclude_unset=True)
    del sections["source"]["topic"], sections["population"]  # the job's own
    few = by.recipe.directions or None
    name, sections["job"] = f"figures-{people}-{few}", {"guarantee": guarantee}
    job = make_job(name, population=person.population, directions=few, **sections)
    sent = [Sent(one.key, one.value, 1 % PARTITIONS, one.timestamp) for one in records]
    assert kill_in_the_middle(job, sent, fork_server) > 0
    with running_worker(job, fork_server=fork_server, **STATIC) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    said = {}
    for message in job.sink("predictions", committed_only=exactly):
        one = json.loads(message.value())
        said.setdefault(one["seq"], one)
    assert len(said) == len(person.chosen) > 500 and person.same([said[seq] for seq in sorted(said)])
    verify(job, repeats=not exactly, expect=len(sent), committed_only=exactly)
