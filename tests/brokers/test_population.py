"""Somebody nobody has seen, on the population of all others: a worker on a real Kafka says what the figures say."""

import json

from streamjobs.core.job import Job
from tests.brokers.bed import PARTITIONS, Sent
from tests.brokers.fixtures import MakeBed
from tests.brokers.truth import verify
from tests.brokers.workers import working
from tests.paper.core_population import left_out, raw, through_core


def test_a_killed_worker_and_its_successor_give_the_bits_of_the_activity_figures(make_bed: MakeBed) -> None:
    data = raw("watch")
    person = left_out(data, 1)
    records = through_core(Job.from_settings(person.settings, population=person.population), data, person.stream).records
    sections = person.settings.model_dump(mode="json", exclude_unset=True)
    del sections["source"]["topic"], sections["population"]  # the bed's own
    bed = make_bed("figures", population=person.population, **sections)
    bed.produce(Sent(one.key, one.value, 1 % PARTITIONS, one.timestamp) for one in records[: len(records) // 2])
    with working(bed, STREAMJOBS_BROKER__INSTANCE_ID="one") as worker:
        bed.until_done([worker])
        bed.produce(Sent(one.key, one.value, 1 % PARTITIONS, one.timestamp) for one in records[len(records) // 2 :])
        assert worker.kill() == -9
    with working(bed, STREAMJOBS_BROKER__INSTANCE_ID="one") as worker:
        bed.until_done([worker])
        assert worker.stop() == 0
    said = {}
    for message in bed.sink("predictions"):
        one = json.loads(message.value())
        said.setdefault(one["seq"], one)
    assert len(said) == len(person.chosen) > 500 and person.same([said[seq] for seq in sorted(said)])
    verify(bed, repeats=True)
