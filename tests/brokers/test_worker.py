"""The worker on a quiet day: everything answered once, stopped cleanly."""

from tests.brokers.fixtures import MakeJob
from tests.brokers.load import SOURCE, samples
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker


def test_a_stopped_worker_has_answered_committed_and_stored_everything_once(make_job: MakeJob) -> None:
    job = make_job("quiet", source=SOURCE, head={"name": "rls"}, drift={"detector": "page_hinkley"})
    count = job.produce(samples(20_000))
    with running_worker(job) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    assert job.committed() == job.ends()
    verify(job, repeats=False, expect=count)
