"""A crash between any two steps of a checkpoint; and the bed itself: it notices workers with planted bugs."""

import pytest

from tests.brokers.bed import Bed
from tests.brokers.fixtures import MakeBed
from tests.brokers.load import SOURCE, samples
from tests.brokers.nursery import Nursery
from tests.brokers.planted import program
from tests.brokers.truth import verify
from tests.brokers.workers import Worker, working

JOB = {"source": SOURCE, "head": {"name": "rls"}, "drift": {"detector": "page_hinkley"}}
STATIC = {"STREAMJOBS_BROKER__INSTANCE_ID": "one"}  # a restart need not wait for the dead one's session to end


def dies(bed: Bed, fault: str, **options: object) -> None:
    """A worker with this fault runs until it has killed itself."""
    worker = Worker(bed, program=program(fault), **options, **STATIC)  # type: ignore[arg-type]
    try:
        assert worker.process.wait(120) == -9, worker.text()[-2000:]
        assert bed.behind() > 0, "it died after its work was done"
    finally:
        worker.end()


def finishes(bed: Bed, **options: object) -> None:
    with working(bed, **options, **STATIC) as worker:
        bed.until_done([worker])
        assert worker.stop() == 0


def test_a_crash_after_any_step_of_a_checkpoint_loses_nothing_and_trains_nothing_twice(make_bed: MakeBed) -> None:
    bed = make_bed("steps", **JOB)
    more = iter(range(1, 100))
    for stage in ("outputs", "changelog", "store", "commit"):
        bed.produce(samples(3000, seed=next(more)))
        dies(bed, f"dies-after-{stage}")
    finishes(bed)
    results = verify(bed, repeats=True, expect=12_000)
    assert results["features"].repeated > 0  # the crashes had something to repeat


def test_a_reader_of_committed_records_sees_each_output_once_through_crashes(make_bed: MakeBed, nursery: Nursery) -> None:
    """One with a whole transaction that is never committed, one with a commit the local store has not followed."""
    bed = make_bed("exactly", **JOB, job={"guarantee": "exactly_once"})
    for seed, stage in enumerate(("offsets", "commit"), start=1):
        bed.produce(samples(3000, seed=seed))
        dies(bed, f"dies-after-{stage}", nursery=nursery)
    finishes(bed, nursery=nursery)
    results = verify(bed, repeats=False, expect=6000, committed_only=True)
    assert len(bed.sink("features")) > results["features"].answers  # the first crash left some that do not count


def test_the_bed_notices_a_worker_that_commits_before_it_stores(make_bed: MakeBed) -> None:
    bed = make_bed("first", **JOB)
    bed.produce(samples(2000))
    dies(bed, "commits-first")
    finishes(bed)
    with pytest.raises(AssertionError, match=r"final states differ|missing=[1-9]|wrong=[1-9]|the changelog has"):
        verify(bed, repeats=True)


def test_the_bed_notices_a_worker_that_trains_twice_on_what_is_delivered_twice(make_bed: MakeBed) -> None:
    bed = make_bed("twice", **JOB)
    bed.produce(samples(2000))
    dies(bed, "dies-after-store")
    finishes(bed, program=program("forgets-offsets"))
    with pytest.raises(AssertionError, match=r"final states differ|wrong=[1-9]"):
        verify(bed, repeats=True)
