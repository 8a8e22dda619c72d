"""How a worker ends: on request, having caught up, and on everything that stands in its way, each in one clear line.

The tiny hash core runs in the real worker here; `endings` of the real core are in the other files.
"""

import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from streamjobs.process import ENDED_AFTER
from tests.brokers.fault_injection import program
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.hash_jobs import HASH, ONCE, expected, hash_job, numbers, states
from tests.brokers.kafka_job import ANSWER, PARTITIONS, Sent, create, until
from tests.brokers.workers import Worker, running_worker, wait_for_exit
from tests.commands.jobs import output_of
from tests.worker.fake_core import MAGIC


def test_once_stops_when_everything_there_at_the_start_is_done(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "once")
    job.produce(numbers(5_000))
    for left in (5_000, 0):
        code, lines = wait_for_exit(worker := Worker(job, program=ONCE, fork_server=fork_server))
        assert (code, lines) == (0, [])
        passed = f"group {job.name} has already passed all 5,000 offsets of topic {job.input}; "
        assert [one["reason"].startswith(passed) for one in worker.events("no new record")] == ([] if left else [True])
        first = f"group {job.name} has no offsets yet: it begins at the first of 5,000 offsets"
        assert [one["reason"].startswith(first) for one in worker.events("new group")] == ([True] if left else [])
        assert job.committed() == job.ends() and states(job) == expected(job)
    assert len(job.sink("predictions")) == 5_000


def test_once_on_an_empty_input_stops_at_once(make_job: MakeJob, fork_server: ForkServer) -> None:
    assert wait_for_exit(Worker(hash_job(make_job, "empty"), program=ONCE, fork_server=fork_server)) == (0, [])


def test_the_memory_store_comes_back_from_the_changelog(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "memory", state={"store": "memory"})
    for _ in range(2):
        job.produce(numbers(2_000))
        assert wait_for_exit(Worker(job, program=ONCE, fork_server=fork_server))[0] == 0
    assert states(job) == expected(job) and not list(job.folder.rglob("*.db"))


def test_a_worker_asked_to_stop_while_starting_ends_with_code_0(make_job: MakeJob) -> None:
    job = hash_job(make_job, "early")
    job.produce(numbers(100))
    for wait in (0.0, 0.2, 0.5):
        worker = Worker(job, program=HASH)
        until(lambda worker=worker: worker.events("serving /metrics and /health"), "the worker's first line")  # type: ignore[misc]
        time.sleep(wait)
        assert worker.stop() == 0


def test_a_missing_topic_ends_it_with_code_3_before_anything_is_made_or_read(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = hash_job(make_job, "absent", make=False)
    code, lines = wait_for_exit(Worker(job, program=HASH, fork_server=fork_server))
    assert code == 3 and any(job.input in line and "streamjobs topics create" in line for line in lines)
    assert job.changelog not in job.admin.list_topics(timeout=ANSWER).topics


def test_a_wrong_number_of_partitions_ends_it_with_code_3(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "narrow", make=False)
    made = [NewTopic(job.input, 4, 1), NewTopic(f"{job.input}.predictions", 3, 1), NewTopic(f"{job.input}.dlq", 4, 1)]
    create(job.admin, *made)
    code, lines = wait_for_exit(Worker(job, program=HASH, fork_server=fork_server))
    assert code == 3 and len(lines) == 1
    assert f"{job.input}.predictions" in lines[0] and "expected 4 partitions" in lines[0] and "got 3" in lines[0]


def test_a_changelog_that_forgets_ends_it_with_code_3(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "forgetful")
    job.alter(job.changelog, "cleanup.policy", "delete")
    code, lines = wait_for_exit(Worker(job, program=HASH, fork_server=fork_server))
    assert code == 3 and len(lines) == 1 and job.changelog in lines[0] and "compact" in lines[0]


def test_a_taken_metrics_port_ends_it_with_code_3(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "port")
    with running_worker(job, program=HASH, fork_server=fork_server) as first:
        port = first.events("serving /metrics and /health")[0]["port"]
        code, lines = wait_for_exit(
            Worker(job, "b", program=HASH, fork_server=fork_server, STREAMJOBS_METRICS__PORT=str(port))
        )
    assert code == 3 and len(lines) == 1 and f"127.0.0.1:{port}" in lines[0]


def test_refused_outputs_end_it_before_their_offsets_move(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "refused")
    job.alter(f"{job.input}.predictions", "max.message.bytes", "60")
    job.produce(numbers(100))
    code, lines = wait_for_exit(Worker(job, program=HASH, fork_server=fork_server))
    assert code == 1 and len(lines) == 1
    assert f"{job.input}.predictions" in lines[0] and "refused" in lines[0]
    assert sum(job.committed().values()) == 0 and job.snapshots() == {}


def test_a_snapshot_the_changelog_does_not_take_ends_it_before_anything_moves(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = hash_job(make_job, "fat")
    job.alter(job.changelog, "max.message.bytes", "500")
    job.produce(numbers(100))
    code, lines = wait_for_exit(Worker(job, program=HASH, fork_server=fork_server))
    assert code == 1 and len(lines) == 1
    assert job.changelog in lines[0] and "max.message.bytes" in lines[0]
    assert sum(job.committed().values()) == 0 and job.snapshots() == {}


def test_stored_bytes_that_cannot_be_trusted_end_it_and_stay_as_they_are(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "damaged")
    damaged = b"evil" + bytes(1020)
    assert damaged[:4] != MAGIC
    producer = Producer({"bootstrap.servers": job.bootstrap})
    producer.produce(job.changelog, key=b"k1", value=damaged, partition=1)
    assert producer.flush(60) == 0
    job.produce(numbers(100))
    code, lines = wait_for_exit(Worker(job, program=HASH, fork_server=fork_server))
    assert code == 1 and len(lines) == 1 and "magic" in lines[0]
    assert job.snapshots()[(1, b"k1")] == damaged
    assert job.committed()[1] == 0


def test_offsets_beyond_the_end_of_the_input_end_it_with_code_3(make_job: MakeJob, fork_server: ForkServer) -> None:
    """A committed offset the topic does not reach: it is not the topic it was."""
    job = hash_job(make_job, "anew")
    job.produce(numbers(40))
    job.set_commits({2: 1_000})
    code, lines = wait_for_exit(Worker(job, program=HASH, fork_server=fork_server))
    assert code == 3 and len(lines) == 1 and f"{job.input}[2]" in lines[0] and "recreated" in lines[0]


def test_records_deleted_while_it_works_are_said_and_the_rest_is_processed(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = hash_job(make_job, "deleted")
    job.produce(numbers(40))
    with running_worker(job, program=HASH, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        worker.freeze()
        job.produce(numbers(400))
        job.delete_records(job.input, dict.fromkeys(range(PARTITIONS), 60))
        worker.wake()
        job.wait_until_done([worker])
        assert worker.stop() == 0
        told = sum(event["records"] for event in worker.events("records were deleted before this job read them"))
    assert told > 0 and told == 440 - len(job.sink("predictions"))


def test_lost_offsets_are_said_and_nothing_is_learned_twice(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "forgotten")
    job.produce(numbers(400))
    assert wait_for_exit(Worker(job, program=ONCE, fork_server=fork_server))[0] == 0
    job.delete_group()
    job.produce(numbers(40))
    worker = Worker(job, program=ONCE, fork_server=fork_server)
    assert wait_for_exit(worker)[0] == 0 and worker.text().count("states exist but no offset is committed") == 4
    assert states(job) == expected(job) and len(job.sink("predictions")) == 440


def test_of_a_transactional_input_only_what_counts_is_learned_and_markers_do_not_hold_it_up(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = hash_job(make_job, "transactions")
    producer = Producer({"bootstrap.servers": job.bootstrap, "transactional.id": job.name})
    producer.init_transactions()
    for counts in (True, False, True, False):
        producer.begin_transaction()
        for record in numbers(40):
            producer.produce(job.input, key=record.key, value=record.value, partition=record.partition)
        producer.flush()
        producer.commit_transaction() if counts else producer.abort_transaction()
    code, lines = wait_for_exit(Worker(job, program=ONCE, fork_server=fork_server))
    assert (code, lines) == (0, [])
    assert {key: count for key, (_, count, _) in states(job).items()} == {b"k%d" % n: 10 for n in range(8)}


def test_only_the_port_of_metrics_and_health_listens(make_job: MakeJob) -> None:
    job = hash_job(make_job, "ports")
    job.produce(numbers(1_000))
    with running_worker(job, program=HASH) as worker:
        port = worker.events("serving /metrics and /health")[0]["port"]
        job.wait_until_done([worker])
        assert listening(worker.pid) == {("127.0.0.1", port)}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=ANSWER) as answer:
            health = json.load(answer)
        assert health["state"] == "running" and health["partitions"] == [0, 1, 2, 3]
        assert sum(health["lag"].values()) == 0 and health["last_commit_age_seconds"] < 60
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=ANSWER) as answer:
            text = answer.read().decode()
        assert f'streamjobs_records_consumed_total{{topic="{job.input}"}} 1000.0' in text
        assert f'streamjobs_consumer_lag_records{{partition="3",topic="{job.input}"}} 0.0' in text
        assert worker.stop() == 0


def test_no_key_and_no_value_of_a_record_is_logged(make_job: MakeJob) -> None:
    job = hash_job(make_job, "secrets")
    job.produce([Sent(b"person-quokka", b"98765432100123", 0, 1), Sent(b"person-numbat", b"broken-wombat", 1, 1)])
    worker = Worker(job, program=(*ONCE, "--debug"))
    assert wait_for_exit(worker)[0] == 0
    assert job.sink("dlq")[0].value() == b"broken-wombat"
    for secret in ("quokka", "numbat", "wombat", "98765432100123"):  # not digits, which times have too
        assert secret not in worker.text()


def listening(pid: int) -> set[tuple[str, int]]:
    """Addresses a process listens on, from /proc."""
    if not Path(f"/proc/{pid}/net/tcp").exists():
        pytest.skip("needs Linux's /proc")
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    found = set()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                address, port = fields[1].split(":")
                host = ".".join(str(byte) for byte in reversed(bytes.fromhex(address))) if family == "tcp" else address
                found.add((host, int(port, 16)))
    return found


def test_a_worker_of_a_group_that_has_passed_everything_names_the_way_to_the_first_record(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = hash_job(make_job, "passed")
    job.produce(numbers(100))
    assert wait_for_exit(Worker(job, program=ONCE, fork_server=fork_server))[0] == 0
    worker, passed = Worker(job, program=HASH, fork_server=fork_server), f"{job.name} has already passed all 100 offsets"
    until(lambda: worker.events("waiting for new records"), "the sentence")
    assert worker.stop() == 0 and passed in worker.events("waiting for new records")[0]["reason"]
    way = "to begin at the first record, give the job another [job] name"
    assert f"group      {passed}: 'run' waits for new records; {way}" in output_of("check", job.path, "--online")[1]
    other = Worker(job, program=ONCE, fork_server=fork_server, STREAMJOBS_JOB__NAME=f"{job.name}-other")
    assert wait_for_exit(other)[0] == 0 and len(job.sink("predictions")) == 200


def test_of_two_workers_with_one_instance_id_the_former_one_ends_with_code_3(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    """Else each takes the partitions from the other for ever, and applies the records since the last commit again."""
    job, same = hash_job(make_job, "twins"), {"STREAMJOBS_BROKER__INSTANCE_ID": "one"}
    job.produce(numbers(400))
    with running_worker(job, "a", program=HASH, fork_server=fork_server, **same) as former:
        job.wait_until_done([former])
        with running_worker(job, "b", program=HASH, fork_server=fork_server, **same) as present:
            code, lines = wait_for_exit(former)
            assert code == 3 and len(lines) == 1 and "another worker of job" in lines[0] and "'one'" in lines[0], (
                code,
                lines,
            )
            job.produce(numbers(400))
            job.wait_until_done([present])
            assert present.stop() == 0
    assert states(job) == expected(job)


def test_a_worker_with_an_instance_id_goes_on_after_its_session_was_over(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = hash_job(make_job, "frozen-id")
    job.produce(numbers(400))
    with running_worker(job, program=HASH, fork_server=fork_server, STREAMJOBS_BROKER__INSTANCE_ID="one") as worker:
        job.wait_until_done([worker])
        worker.freeze()
        until(lambda: job.members() == [], "its session over")
        worker.wake()
        job.produce(numbers(400))
        job.wait_until_done([worker])
        assert worker.stop() == 0
    assert states(job) == expected(job)


def test_a_worker_asked_to_stop_while_it_is_assigned_partitions_ends_with_code_0(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    """The rebalance calls the consumer's thread, which waits for the rebalance."""
    job = make_job("signal-assigned", source={"dim": 3})
    assert wait_for_exit(Worker(job, program=program("stops-in-rebalance"), fork_server=fork_server)) == (0, [])


def test_a_worker_that_stops_as_a_rebalance_begins_leaves_its_group_at_once(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    """Faust closes its consumer from another thread then: it stayed a member until its session ended, or never ended."""
    job = make_job("stop-rebalance", source={"dim": 3}, broker={"session_timeout": "30s"})
    worker = Worker(job, program=program("stops-before-rebalance"), fork_server=fork_server)
    assert wait_for_exit(worker) == (0, [])
    assert not worker.events("a library did not end")
    assert job.members() == []


def test_a_worker_with_a_consumer_that_never_closes_ends_with_code_0_after_its_last_checkpoint(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    """aiokafka's fetcher may lose its cancellation during a rebalance; nothing of the job waits for it."""
    job = make_job("never-closes", source={"dim": 3})
    job.produce([Sent(b"k", b'{"f0": 1, "f1": 2, "f2": 3}', 0, 1_700_000_000_000)])
    worker = Worker(job, program=program("never-closes"), fork_server=fork_server)
    job.wait_until_done([worker])
    assert worker.stop() == 0
    assert "injected wait without end" in worker.text()
    (warned,) = worker.events("a library did not end")
    assert any("fault_injection.py" in place for place in warned["at"])
    assert worker.events("stopped") and job.committed() == job.ends()


def test_a_consumer_that_never_closes_hides_no_failure(make_job: MakeJob) -> None:
    job = make_job("never-closes-once", source={"dim": 3})
    job.produce([Sent(b"k", b"bad", 0, 1_700_000_000_000)])
    worker = Worker(job, program=(*program("never-closes"), "--once"))
    code, lines = wait_for_exit(worker)
    assert worker.events("a library did not end")
    assert code == 1 and sum("nothing was learned: all 1 records became dead letters" in line for line in lines) == 1


def standing(make_job: MakeJob, fork_server: ForkServer, fault: str) -> Worker:
    job = make_job(f"signal-{fault}", source={"dim": 3})
    job.produce([Sent(b"k", b'{"f0": 1, "f1": 2, "f2": 3}', 0, 1_700_000_000_000)])
    worker = Worker(job, program=program(fault), fork_server=fork_server)
    until(lambda: "injected stand" in worker.text(), "it stands", 120)
    return worker


def test_a_second_signal_ends_a_worker_with_an_event_loop_that_stands_still(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    worker = standing(make_job, fork_server, "stands")

    def ended() -> bool:
        worker.process.terminate()
        return worker.process.poll() is not None

    until(ended, "it ends")
    assert worker.process.poll() == 130


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other kernels send no signal for a byte in a pipe")
@pytest.mark.parametrize("fault", ["stands", "holds"])
def test_the_kernel_ends_a_worker_that_can_not_answer_a_signal(
    make_job: MakeJob, fork_server: ForkServer, fault: str
) -> None:
    assert standing(make_job, fork_server, fault).stop(ENDED_AFTER + 60) == -signal.SIGALRM
