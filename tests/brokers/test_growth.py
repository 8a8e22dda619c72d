"""Partitions added to a running input: noticed, refused, and every state moved with its key, through kills."""

import subprocess
import sys

import pytest
from confluent_kafka.admin import NewTopic

from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.growth import AFTER, BEFORE, GrowingLoad, grow_input, grow_topic, place, program, verify_sequences
from tests.brokers.kafka_job import KafkaJob, Sent, create, until
from tests.brokers.load import samples
from tests.brokers.workers import CHECKOUT, Worker, run_until_done, running_worker, wait_for_exit
from tests.commands.jobs import command, output_of
from tests.exit_codes import ExitCode
from tests.running import with_bytecode

DRAIN = ("-m", "streamjobs", "run", "--drain")
CRASHES = (1, 3, 6, 9, 12, 15)  # writes after which a repartition is killed; a later one has less left to do
STEPS = ("topics grow", "state repartition")


def repartition(
    job: KafkaJob, fault: tuple[str, ...] = ("-m", "streamjobs", "state", "repartition")
) -> tuple[ExitCode, str]:
    """The exit code of `state repartition` in a process of its own, and what it printed."""
    words = [sys.executable, *fault, str(job.path)]
    done = subprocess.run(words, cwd=CHECKOUT, env=with_bytecode(), capture_output=True, text=True, timeout=120, check=False)
    return ExitCode(done.returncode, done.stdout + done.stderr), done.stdout + done.stderr


def drain(job: KafkaJob) -> None:
    code, lines = wait_for_exit(Worker(job, program=DRAIN))
    assert code == 0, lines


def require_refusal(job: KafkaJob, fork_server: ForkServer, *says: str) -> None:
    """A worker ends with code 3 and one sentence that destroys nothing; so do the commands that check."""
    code, lines = wait_for_exit(Worker(job, fork_server=fork_server))
    assert code == 3 and len(lines) == 1 and all(text in lines[0] for text in says) and "recreate" not in lines[0], lines
    assert command("check", job.path, "--online") == 3


@pytest.mark.long
def test_a_grown_input_keeps_every_state_through_kills_in_every_phase_of_its_repartition(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("grown", partitions=BEFORE, **LEARNING, job={"guarantee": "exactly_once"})
    load = GrowingLoad(job, rate=300.0)
    with running_worker(job, fork_server=fork_server) as worker:
        until(lambda: sum(job.committed().values()) > 500, "500 records committed")
        grow_input(job)
        load.go_to("grown")
        code, lines = wait_for_exit(worker, within=60)
    assert code == 3 and len(lines) == 1 and all(step in lines[0] for step in STEPS), lines
    require_refusal(job, fork_server, *STEPS)
    assert command("topics", "create", job.path) == 3

    assert command("topics", "grow", job.path) == 0
    assert {len(job.ends(name)) for name in (job.changelog, *job.core.sinks.values())} == {AFTER}
    require_refusal(job, fork_server, "--drain", "state repartition")
    code, said = repartition(job)
    assert code == 3 and "--drain" in said  # the worker has ended, and its states lack records
    load.go_to("settled")
    drain(job)
    answered = job.ends(job.core.sinks["predictions"])
    assert answered[2] == answered[3] == 0 and job.ends()[2] > 0 and job.committed()[2] == 0

    crashes = 0
    for step in CRASHES:
        code = repartition(job, program("crash", step))[0]
        if code == 0:
            break
        assert code == -9
        crashes += 1
        if step == 3:  # copies are made, and keys that were silent send to their old partitions
            load.go_to("woken")
            code, said = repartition(job)
            assert code == 3 and "not applied yet" in said
            drain(job)
            load.go_to("all")
        if step == 1:
            require_refusal(job, fork_server, "state repartition")
    assert code == 0 and crashes >= 3
    assert repartition(job) == (0, "the states are laid out for all partitions of the input; nothing to do\n")

    with running_worker(job, fork_server=fork_server) as worker:
        until(lambda: job.committed()[2] > 0, "records of new partitions committed")
        sent = load.finish()
        job.wait_until_done([worker])
        assert worker.stop() == 0
    counts = verify_sequences(job, load.sent, repeats=False)
    assert counts["predictions"] == sent and counts["dlq"] == 0
    moved = {key for key in load.sent if place(key, AFTER) >= BEFORE}
    assert len(moved) > 50
    assert command("state", "verify", job.path) == 0


def test_states_that_leave_before_they_are_copied_are_noticed(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("planted", partitions=BEFORE, **LEARNING)
    records = list(samples(2500))
    sent = send_by(job, BEFORE, records[:2000])
    run_until_done(job, fork_server=fork_server)
    grow_input(job)
    send_by(job, AFTER, records[2000:], sent)
    assert command("topics", "grow", job.path) == 0
    assert repartition(job, program("tombstones-first"))[0] == -9
    assert repartition(job)[0] == 0
    run_until_done(job, fork_server=fork_server)
    with pytest.raises(AssertionError, match=r"the outputs of .* keys differ"):
        verify_sequences(job, sent, repeats=True)


def test_topics_grown_by_hand_after_an_earlier_release_are_noticed_and_states_move(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    """Every topic has as many partitions as the input, and the commits have no marks."""
    job = make_job("hand", partitions=BEFORE, **LEARNING)
    records = list(samples(1500))
    sent = send_by(job, BEFORE, records[:1000])
    run_until_done(job, fork_server=fork_server)
    unmark(job)
    for name in (job.changelog, *job.core.sinks.values()):
        grow_topic(job, name)
    grow_input(job)
    send_by(job, AFTER, records[1000:], sent)
    require_refusal(job, fork_server, "laid out for 2", "state repartition")
    assert repartition(job, program("crash", 12))[0] == -9  # new partitions are committed, old ones still hold the states
    require_refusal(job, fork_server, "laid out for 2", "state repartition")
    assert repartition(job)[0] == 0
    run_until_done(job, fork_server=fork_server)
    counts = verify_sequences(job, sent, repeats=True)
    assert counts["predictions"] == len(records)


def test_keys_start_over_only_where_that_is_asked_for_and_their_number_is_said(
    make_job: MakeJob, fork_server: ForkServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = make_job("over", partitions=BEFORE, **LEARNING)
    send_by(job, BEFORE, list(samples(1000)))
    run_until_done(job, fork_server=fork_server)
    before = job.snapshots()
    grow_input(job, 3)
    assert command("topics", "grow", job.path) == 0
    assert "not a multiple of 2" in capsys.readouterr().err
    assert command("state", "repartition", job.path) == 2
    assert "not a multiple" in capsys.readouterr().err
    moving = sum(place(key, 3) != place(key, BEFORE) for _, key in before)
    assert command("state", "repartition", job.path, "--start-over") == 0
    assert f"by murmur2: {moving} of {len(before)} keys start over" in capsys.readouterr().out
    run_until_done(job, fork_server=fork_server)
    assert job.snapshots() == before


def unmark(job: KafkaJob) -> None:
    """As an earlier release left its commits."""
    job.set_commits(job.ends())


def send_by(job: KafkaJob, partitions: int, records: list[Sent], sent: dict | None = None) -> dict:
    """Produce records by murmur2; returns the values of each key in order, with those of `sent` before."""
    sent = {} if sent is None else sent
    job.produce([one._replace(partition=place(one.key, partitions)) for one in records])
    for record in records:
        sent.setdefault(record.key, []).append(record.value)
    return sent


def test_two_jobs_of_one_name_are_distinguished_from_an_input_that_grew(make_job: MakeJob, fork_server: ForkServer) -> None:
    first = make_job("first", partitions=BEFORE, **LEARNING)
    first.produce(one._replace(partition=one.partition % BEFORE) for one in samples(50))
    run_until_done(first, fork_server=fork_server)
    second = make_job("second", make=False, **LEARNING, job={"name": first.name})
    for names in ((second.input,), second.core.sinks.values()):
        create(second.admin, *(NewTopic(name, AFTER) for name in names))
        code, said = output_of("topics", "create", second.path)
        assert code == 3 and "topics grow" not in said and "Give this job another [job] name." in said
    code, lines = wait_for_exit(Worker(second, fork_server=fork_server))
    assert code == 3 and len(lines) == 1 and "topics grow" not in lines[0], lines
    assert f"its states have learned from topic {first.input}" in lines[0] and "another [job] name" in lines[0]
    assert command("check", second.path, "--online") == 3
