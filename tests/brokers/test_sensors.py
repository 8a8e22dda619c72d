"""Several sensors of a device on a real broker: killed with -9 while samples wait for a slower sensor, equal to a replay."""

from collections.abc import Iterator

import pytest

from streamjobs.core.live.stored import decode_snapshot
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, Sent
from tests.brokers.killing import PATIENCE, STATIC, kill_in_the_middle
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker
from tests.core.phones import SOURCE, push, readings

PER_SECOND = 4  # messages of a phone
JOB = {
    "source": {name: value for name, value in SOURCE.items() if name != "topic"},
    "window": {"length": "1s", "hop": "500ms", "rate": 100},
}


def messages(phones: int, seconds: int) -> Iterator[Sent]:
    """What the phones push, in turn; each has its gyroscope off for a few seconds."""
    for number in range(seconds * PER_SECOND):
        for phone in range(phones):
            begin = number / PER_SECOND
            payload = readings(begin, begin + 1 / PER_SECOND, phone)
            if phone + 5 <= begin < phone + 8:
                payload = [one for one in payload if one["name"] != "gyroscope"]
            made = push(number, payload, b"phone-%d" % phone)
            assert made.key is not None
            yield Sent(made.key, made.value, phone % PARTITIONS, made.timestamp)


@pytest.mark.parametrize(("phones", "seconds"), [(8, 30), pytest.param(30, 60, marks=pytest.mark.long)])
def test_a_job_of_several_sensors_killed_while_samples_wait_ends_with_the_states_of_a_replay(
    make_job: MakeJob, fork_server: ForkServer, phones: int, seconds: int
) -> None:
    records = list(messages(phones, seconds))
    often = {
        "checkpoint": "20ms",
        "checkpoint_records": 50,
        "replay": "0s",
    }  # many checkpoints, so that the kill finds work left
    job = make_job("sensors", **JOB, state=often)
    left = kill_in_the_middle(job, records, fork_server)
    waiting = [len(decode_snapshot(job.core, snapshot)[0]["sensors"].times) for snapshot in job.snapshots().values()]
    assert len(waiting) == phones and min(waiting) > 0, "the kill came while samples of every phone waited"
    with running_worker(job, fork_server=fork_server, **STATIC) as worker:
        job.wait_until_done([worker], PATIENCE)
        assert worker.stop() == 0
    results = verify(job, repeats=True, expect=len(records))
    gaps = [int(decode_snapshot(job.core, snapshot)[0]["books"].rows) for snapshot in job.snapshots().values()]
    print(f"{left} of {len(records)} records were left, {sum(waiting)} samples waited, {sum(gaps)} rows, {results}")
    assert max(gaps) < 2 * (seconds - 3), "the gap of the gyroscope is a gap of the windows"
