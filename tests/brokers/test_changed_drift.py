"""[drift] of a job that has run is changed: its worker says what to do, and after that goes on with every model."""

from pathlib import Path

import pytest

from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.state import snapshot
from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.load import samples
from tests.brokers.verification import replayed
from tests.brokers.workers import Worker, running_worker
from tests.commands.jobs import command

ANOTHER = {"watch": "columns", "false_alarms": "1 per 1000 rows"}


@pytest.mark.parametrize(
    ("drift", "done"),
    [(ANOTHER, "drift detection begins again"), pytest.param(None, "drift detection is removed", marks=pytest.mark.long)],
    ids=["another", "none"],
)
def test_a_worker_goes_on_with_another_drift_and_the_same_models(
    make_job: MakeJob,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    drift: dict[str, str] | None,
    done: str,
    fork_server: ForkServer,
) -> None:
    before = make_job("changed", **LEARNING)
    before.produce(samples(3000, seed=1))
    with running_worker(before, fork_server=fork_server) as worker:
        before.wait_until_done([worker])
        assert worker.stop() == 0
    sections = {name: table for name, table in LEARNING.items() if name != "drift"}
    after = KafkaJob(before.bootstrap, tmp_path, before.name, **sections | ({"drift": drift} if drift else {}))
    said = "[drift] was changed: undo that in the job file, or run 'streamjobs drift relearn JOB --all', which keeps"
    for records in (0, 1000):  # a worker says so before a record comes
        after.produce(samples(records, seed=2))
        worker = Worker(after, "a", fork_server=fork_server)
        assert worker.process.wait(400) == 1 and said in worker.text()  # it may compile first
    assert after.lag() == 1000, "nothing was learned"
    assert command("drift", "relearn", after.path, "--all") == 0
    assert f"200 keys: {done}" in capsys.readouterr().out
    with running_worker(after, fork_server=fork_server) as worker:
        after.wait_until_done([worker])
        assert worker.stop() == 0
    truth, stored = replayed(after.core, after.inputs()).snapshots, after.snapshots()
    assert truth.keys() == stored.keys()
    for key, data in stored.items():
        (ours, names, offsets), (theirs, *same) = load_snapshot(after.core, data), load_snapshot(after.core, truth[key])
        assert [names, offsets] == same
        for stage in ("order", "learner", "books"):
            mine, uninterrupted = snapshot.flatten(ours[stage]), snapshot.flatten(theirs[stage])
            assert all(a.tobytes() == b.tobytes() for a, b in zip(mine, uninterrupted, strict=True)), (key, stage)
