"""What a worker meets before it works, where it listens, and how it is stopped."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from streamjobs.kafka import topics
from streamjobs.kafka.devbroker.broker import free_port
from streamjobs.kafka.topic_id import has_learned
from streamjobs.worker.changelog import KEEP_ALIVE, Changelog
from tests.brokers.fault_injection import program
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.hash_jobs import HASH, expected, hash_job, numbers, states
from tests.brokers.kafka_job import ANSWER, KafkaJob, Sent, create, until
from tests.brokers.load import SOURCE, Load, samples
from tests.brokers.verification import verify
from tests.brokers.workers import CHECKOUT, Worker, running_worker, wait_for_exit
from tests.commands.jobs import output_of
from tests.exit_codes import ExitCode
from tests.worker.flood import LIMIT, flooded


def commands(job: KafkaJob, *every: tuple[str, ...]) -> list[tuple[ExitCode, list[str]]]:
    """Of commands that run at once: exit code, and the lines on stderr that are not the log's."""
    env = {**os.environ, "STREAMJOBS_STATE__DIRECTORY": str(job.folder / "state")}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "streamjobs", *words, str(job.path)],
            cwd=CHECKOUT,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in every
    ]
    errors = [process.communicate(timeout=120)[1] for process in running]
    return [
        (ExitCode(process.returncode, error), [line for line in error.splitlines() if not line.startswith("{")])
        for process, error in zip(running, errors, strict=True)
    ]


def command(job: KafkaJob, *words: str) -> tuple[ExitCode, list[str]]:
    return commands(job, words)[0]


def made(job: KafkaJob, *topics: tuple[str, int]) -> None:
    """Create these topics with these numbers of partitions."""
    create(job.admin, *(NewTopic(name, count, 1) for name, count in topics))


def test_without_a_broker_each_command_says_so_in_one_line_and_ends_with_3(tmp_path: Path) -> None:
    job = KafkaJob(f"127.0.0.1:{free_port()}", tmp_path, "alone", make=False, source=SOURCE)
    for code, lines in commands(job, ("run",), ("check", "--online"), ("topics", "create")):
        assert code == 3 and len(lines) == 1, (code, lines)
        assert job.bootstrap in lines[0] and "no answer within" in lines[0] and "streamjobs broker start" in lines[0]
        assert "[broker] url" in lines[0]


def test_a_missing_topic_is_one_line_and_exit_code_3(make_job: MakeJob) -> None:
    job = make_job("missing", source=SOURCE)
    features = f"{job.input}.features"
    job.delete(features)
    for code, lines in commands(job, ("run",), ("check", "--online")):
        assert code == 3 and len(lines) == 1, (code, lines)
        assert f"topic {job.input}.features (features)" in lines[0] and "streamjobs topics create" in lines[0]


def test_a_wrong_partition_count_is_one_line_and_exit_code_3(make_job: MakeJob) -> None:
    job = make_job("count", make=False, source=SOURCE)
    made(job, (f"{job.input}.features", 3))
    code, lines = command(job, "topics", "create")
    assert code == 0 and len(lines) == 1 and f"{job.input}.features existed before: if another job" in lines[0]
    for code, lines in commands(job, ("run",), ("check", "--online")):
        assert code == 3 and len(lines) == 1, (code, lines)
        assert f"topic {job.input}.features (features): expected 4 partitions like the input" in lines[0]
        assert "got 3" in lines[0]


def test_topics_create_makes_what_check_online_asks_for(make_job: MakeJob) -> None:
    job = make_job("plan", make=False, source=SOURCE)
    assert command(job, "check", "--online")[0] == 3
    assert command(job, "topics", "create") == (0, [])
    assert command(job, "check", "--online")[0] == 0
    job.alter(job.changelog, "max.message.bytes", "1000")
    code, lines = command(job, "check", "--online")
    assert code == 3 and len(lines) == 1 and f"{job.changelog} (state): its max.message.bytes is 1,000" in lines[0]


def test_check_online_names_an_input_that_loses_records_to_compaction(make_job: MakeJob) -> None:
    job = make_job("compacted", source=SOURCE)
    assert topics.compacting(job.settings, job.admin) is None
    job.alter(job.input, "cleanup.policy", "compact,delete")
    code, said = output_of("check", job.path, "--online")
    assert code == 0 and f"topic {job.input} (input): its cleanup.policy is compact,delete" in said
    job.alter(job.input, "min.compaction.lag.ms", str(topics.DAY))
    assert topics.compacting(job.settings, job.admin) is None


def test_commands_on_states_name_a_job_that_has_not_run(make_job: MakeJob) -> None:
    job = make_job("unborn", make=False, source=SOURCE)
    missing = f"topic {job.changelog}: missing; create it with 'streamjobs topics create', run the job once"
    for words in (["state", "reset", job.path, "k1"], ["state", "reset", job.path, "--all"], ["state", "list", job.path]):
        code, text = output_of(*words)
        assert code == 3 and missing in text, text
    assert output_of("topics", "create", job.path, "--partitions", "2")[0] == 0
    assert output_of("state", "reset", job.path, "--all") == (0, "0 keys reset: no state is written yet\n")
    code, text = output_of("state", "forget-offsets", job.path)
    assert code == 2 and "it has no states; nothing was changed. If the input was recreated, start a worker" in text


@pytest.mark.parametrize(("at_once", "partitions"), [(False, 4), (True, 4), (True, 1)])
def test_one_of_two_topics_under_one_name_continues(
    make_job: MakeJob, fork_server: ForkServer, *, at_once: bool, partitions: int
) -> None:
    """No state names its topic yet. The first one ready has committed offsets, unless both are ready at once.

    With one partition each, one worker has the changelog's only partition, and the other one nothing to write to.
    """
    job = make_job("twins", source=SOURCE, partitions=partitions)
    other = f"a-{job.input}"  # the first by name
    made(job, *((name, partitions) for name in (other, f"{other}.features", f"{other}.dlq")))
    second_has = {"STREAMJOBS_SOURCE__TOPIC": other, "STREAMJOBS_SINKS__FEATURES": f"{other}.features"}
    first = Worker(job, fork_server=fork_server)
    if not at_once:
        first.ready()
    second = Worker(job, "b", fork_server=fork_server, **second_has)
    try:
        until(lambda: first.process.poll() is not None or second.process.poll() is not None, "one ends", 400)
        ends, continues = (first, second) if first.process.poll() is not None else (second, first)
        assert at_once or ends is second
        assert ends.process.poll() == 3 and f"job {job.name}: another worker of this name reads topic" in ends.text()
        until(lambda: job.members() == [partitions * (continues is first)], "the other has every partition")
        continues.ready().assert_running()
    finally:
        for worker in (first, second):
            worker.end()


async def leave_idle_markers(job: KafkaJob) -> None:
    """As a worker leaves them in a changelog to which it has written nothing for an hour."""
    for number in range(4):
        changelog = Changelog({"bootstrap_servers": job.bootstrap}, job.name, job.changelog, number)
        await changelog.open()
        changelog._committed -= 2 * KEEP_ALIVE
        await changelog.keep_alive()
        await changelog.close()


@pytest.mark.parametrize("idle", [False, True])
def test_the_topic_that_states_have_learned_from_continues(
    make_job: MakeJob, fork_server: ForkServer, *, idle: bool
) -> None:
    """Both topics have committed offsets: one gave nothing but dead letters, and it is the first by name.

    With idle, its commits name an end of the changelog too.
    """
    job = make_job("mistaken", source=SOURCE)
    other = f"a-{job.input}"
    made(job, (other, 4), (f"{other}.features", 4), (f"{other}.dlq", 4))
    of_other = {"STREAMJOBS_SOURCE__TOPIC": other, "STREAMJOBS_SINKS__FEATURES": f"{other}.features"}
    right = job.input

    def passed() -> int:
        return sum(one.offset for place, one in job.commits().items() if place.topic == other)

    def give_letters(offsets: int) -> None:
        job.input = other
        job.produce(Sent(b"k", b"{}", number, 0) for number in range(4))
        job.input = right
        with running_worker(job, "b", fork_server=fork_server, **of_other) as mistaken:
            until(lambda: passed() == offsets, "commits")
            assert mistaken.stop() == 0

    give_letters(4)
    if idle:
        asyncio.run(leave_idle_markers(job))
        give_letters(8)
        assert all(has_learned(*one) for one in job.commits().values())  # as far as a commit tells
    job.produce(samples(400))
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        joins = Worker(job, "b", program=program("unwatched"), fork_server=fork_server, **of_other)
        code, lines = wait_for_exit(joins)  # it joins the group
        assert code == 3 and f" topic {right}, " in lines[-1]  # who looks first: at the group, or at the states
        code, lines = wait_for_exit(Worker(job, "c", fork_server=fork_server, **of_other))
        assert code == 3 and f"its states have learned from topic {right}, but [source] topic is {other}" in lines[-1]
        worker.assert_running()
        until(lambda: job.members() == [4], "it has every partition")
        assert worker.stop() == 0


def test_sigterm_in_the_middle_of_a_load_commits_everything_applied_and_exits_0(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("sigterm", source=SOURCE, head={"name": "rls"}, drift={"detector": "page_hinkley"})
    with Load(job, 3000) as load:
        with running_worker(job) as worker:
            until(lambda: sum(job.committed().values()) > 0, "a commit")
            assert worker.stop() == 0
        committed, answered = (sum(ends.values()) for ends in (job.committed(), job.ends(job.core.sinks["features"])))
        assert answered == committed  # every record gives one: nothing applied was left uncommitted
        assert job.lag() > 0  # it was in the middle of it
        load.finish()
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    verify(job, repeats=False)


def test_sighup_stops_a_worker_in_order(make_job: MakeJob) -> None:
    job = hash_job(make_job, "hangup")
    job.produce(numbers(400))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a worker of tests that run under nohup would ignore it too
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGHUP, before)
        worker = stack.enter_context(running_worker(job, program=HASH))
        job.wait_until_done([worker])
        worker.process.send_signal(signal.SIGHUP)
        assert worker.process.wait(90) == 0
        assert worker.events("partitions checkpointed and released")
    assert states(job) == expected(job)


def test_a_flood_of_connections_to_the_metrics_port_does_not_stop_a_worker(make_job: MakeJob) -> None:
    job = hash_job(make_job, "flood", metrics={"port": free_port()})
    job.produce(numbers(400))
    with running_worker(job, program=HASH) as worker:
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        port = worker.events("serving /metrics and /health")[0]["port"]
        with flooded(port):
            with running_worker(
                job, "b", program=HASH, STREAMJOBS_METRICS__PORT="0"
            ) as other:  # stores close, and open again
                assert other.stop() == 0
            job.produce(numbers(400))
            job.wait_until_done([worker])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=ANSWER) as answer:
                assert json.load(answer)["state"] == "running"
        assert worker.stop() == 0
    assert states(job) == expected(job)
