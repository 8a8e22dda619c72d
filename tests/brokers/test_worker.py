"""The worker on a quiet day: everything answered once, stopped cleanly."""

from tests.brokers.fixtures import MakeBed
from tests.brokers.load import SOURCE, samples
from tests.brokers.truth import verify
from tests.brokers.workers import working


def test_a_stopped_worker_has_answered_committed_and_stored_everything_once(make_bed: MakeBed) -> None:
    bed = make_bed("quiet", source=SOURCE, head={"name": "rls"}, drift={"detector": "page_hinkley"})
    count = bed.produce(samples(20_000))
    with working(bed) as worker:
        bed.until_done([worker])
        assert worker.stop() == 0
    assert bed.committed() == bed.ends()
    verify(bed, repeats=False, expect=count)
