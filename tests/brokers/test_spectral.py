"""A learner whose map turns under its head, through a kill -9: the state is the map, the head, and how they fit."""

import pytest

from streamjobs.core.live.stored import decode_snapshot
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import until
from tests.brokers.load import SOURCE, samples
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker

LEARNER = {"name": "sispeed", "rank": 5, "budget": 15, "seed_size": 8, "novelty": 1.0}
STATIC = {"STREAMJOBS_BROKER__INSTANCE_ID": "one"}  # a restart need not wait for the dead one's session to end
PATIENCE = 120.0  # seconds; a check of what must come, not of how fast


@pytest.mark.long
def test_sispeed_with_an_rls_head_ends_a_kill_9_with_the_states_of_a_replay(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("spectral", source=SOURCE, learner=LEARNER, head={"name": "rls"}, state={"checkpoint": "50ms"})
    sent = job.produce(samples(4000, keys=20))
    with running_worker(job, fork_server=fork_server, **STATIC) as worker:
        until(lambda: any(job.committed().values()), "something committed", PATIENCE)
        worker.kill()
    sent += job.produce(samples(2000, keys=20, seed=2))
    with running_worker(job, fork_server=fork_server, **STATIC) as worker:
        job.wait_until_done([worker], PATIENCE)
        assert worker.stop() == 0
    verify(job, repeats=True, expect=sent)
    states = [decode_snapshot(job.core, snapshot)[0]["learner"] for snapshot in job.snapshots().values()]
    assert len(states) == 20
    assert all(len(state.extractor.dictionary) == LEARNER["budget"] for state in states), "nobody had to leave"
    assert all(state.head.weights.any() for state in states)
