"""An input deleted and made anew under its name: noticed, refused, and then gone on with, models as they were."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.kafka import topic_id, topics
from streamjobs.maintenance.renew import without_offsets
from tests.brokers.fault_injection import program
from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent
from tests.brokers.load import START, samples
from tests.brokers.verification import identity
from tests.brokers.workers import Worker, run_until_done, wait_for_exit
from tests.commands.jobs import command


def make_anew(job: KafkaJob) -> None:
    job.delete(job.input)
    topics.create(job.settings, partitions=PARTITIONS, job_sinks=job.core.sinks)


def gone_on(job: KafkaJob, before: dict[tuple[int, bytes], bytes]) -> tuple[dict[tuple[int, bytes], bytes], int]:
    """States after the present input, from those before without their place; and how many predictions were made."""
    kept: Any = {place: without_offsets(data) for place, data in before.items()}
    records, made, predictions = job.inputs(), {}, 0
    for number in range(PARTITIONS):
        live = Live(job.core, partial(lambda number, key: kept.get((number, key)), number))
        outputs, _ = advance(job.core, live, [record for record in records if record.partition == number])
        predictions += sum(output.sink == "predictions" for output in outputs)
        made |= {(number, key): data for key, data in live.snapshots()}
    return kept | made, predictions


def test_a_remade_input_is_refused_until_the_states_are_to_go_on_with_it(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("remade", **LEARNING)
    job.produce(samples(400, keys=40))
    run_until_done(job, fork_server=fork_server)
    before, answered = job.snapshots(), len(job.sink("predictions"))
    assert command("state", "forget-offsets", job.path) == 2  # it is still the same topic

    make_anew(job)
    job.produce(samples(200, keys=20, seed=2))
    code, lines = wait_for_exit(Worker(job, fork_server=fork_server))
    assert code == 3 and len(lines) == 1 and "recreated" in lines[0] and "state forget-offsets" in lines[0]
    code, lines = wait_for_exit(Worker(job, "with-no-disk", fork_server=fork_server))
    assert code == 3 and "recreated" in lines[0]
    assert command("check", job.path, "--online") == 3
    assert job.snapshots() == before and len(job.sink("predictions")) == answered

    assert command("state", "forget-offsets", job.path) == 0 == command("check", job.path, "--online")
    run_until_done(job, fork_server=fork_server)
    states, predictions = gone_on(job, before)
    assert job.snapshots() == states and job.committed() == job.ends()
    assert len(job.sink("predictions")) == answered + predictions > answered


def test_an_input_that_is_remade_after_the_first_checkpoint_is_refused(make_job: MakeJob, fork_server: ForkServer) -> None:
    """No state was due yet. Without one, the ids of outputs would repeat those of the former topic."""
    job = make_job("early", **LEARNING)
    job.produce(samples(40, keys=4))
    run_until_killed(job, "commit", fork_server)
    make_anew(job)
    job.produce(samples(40, keys=4, seed=2))
    code, lines = wait_for_exit(Worker(job, "with-no-disk", fork_server=fork_server))
    assert code == 3 and "recreated" in lines[0] and "state forget-offsets" in lines[0]
    assert command("check", job.path, "--online") == 3


FIRST, SECOND, STEP = 100, 50, 1000.0  # records of each life; seconds of event time between lives


def life(number: int, count: int) -> Iterable[Sent]:
    """The records of a life of the topic, and one that cannot be used."""
    broken = Sent(b"key-0", b"{", 0, round(1000 * START))
    return itertools.chain(samples(count, keys=8, seed=number, start=START + number * STEP), [broken])


def begin_life(job: KafkaJob, number: int) -> None:
    make_anew(job)
    job.produce(life(number, SECOND))
    assert command("state", "forget-offsets", job.path) == 0


def ids_of(job: KafkaJob, sink: str) -> list[str]:
    return [identity(message.headers()).decode() for message in job.sink(sink, committed_only=True)]


def places(job: KafkaJob) -> set[str]:
    """The ids of a topic that was never recreated: those of its records, but for the broken one."""
    usable = [record for record in job.inputs() if record.value != b"{"]
    return {f"{record.topic}-{record.partition}-{record.offset}" for record in usable}


def renamed(job: KafkaJob) -> str:
    """The topic as the ids of its present life name it."""
    present = topic_id.topic_ids(job.admin, [job.input])[job.input]
    return f"{job.input}~{topic_id.life_of_topic(present)}"


def run_until_killed(job: KafkaJob, step: str, fork_server: ForkServer) -> None:
    worker = Worker(
        job, program=program(f"crash-after-{step}"), STREAMJOBS_BROKER__INSTANCE_ID="one", fork_server=fork_server
    )
    try:
        assert worker.process.wait(400) == -9 and job.lag() > 0, worker.text()[-2000:]
    finally:
        worker.end()


@pytest.mark.parametrize(("guarantee", "step"), [("at_least_once", "outputs"), ("exactly_once", "commit")])
def test_outputs_of_a_remade_input_have_ids_of_their_own_through_a_kill(
    make_job: MakeJob, fork_server: ForkServer, guarantee: str, step: str
) -> None:
    job = make_job("lives", **LEARNING, job={"guarantee": guarantee}, state={"replay": "0s"})
    job.produce(life(1, FIRST))
    run_until_done(job, fork_server=fork_server)
    first = places(job)
    assert set(ids_of(job, "predictions")) == first and len(first) == FIRST

    begin_life(job, 2)
    second = {one.replace(job.input, renamed(job), 1) for one in places(job)}
    run_until_killed(job, step, fork_server)
    run_until_done(job, "with-no-disk", fork_server=fork_server, STREAMJOBS_BROKER__INSTANCE_ID="one")
    ids = ids_of(job, "predictions")
    assert set(ids) == first | second and len(set(ids)) == FIRST + SECOND
    assert (len(ids) > FIRST + SECOND) == (guarantee == "at_least_once")  # the kill repeated outputs, with the same ids
    assert len(ids_of(job, "dlq")) >= 2 == len(set(ids_of(job, "dlq")))

    file = job.folder / "out.jsonl"
    assert command("export", job.path, "predictions", "--output", file) == 0
    assert [json.loads(line)["output_id"] in set(ids) for line in file.open()] == [True] * (FIRST + SECOND)
    assert command("replay", job.path, "--input", "topic", "--output-dir", job.folder / "replayed") == 0
    assert {json.loads(line)["id"] for line in (job.folder / "replayed" / "predictions.jsonl").open()} == second


def test_a_life_stays_known_without_the_groups_offsets_and_a_third_one_is_another(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("thrice", **LEARNING)
    job.produce(life(1, FIRST))
    run_until_done(job, fork_server=fork_server)
    begin_life(job, 2)
    run_until_done(job, fork_server=fork_server)
    second, before = renamed(job), Counter(ids_of(job, "predictions"))
    job.delete_group()  # as when its offsets expire
    job.produce(samples(SECOND, keys=8, seed=3, start=START + 3 * STEP))
    run_until_done(job, "with-no-disk", fork_server=fork_server)
    later = Counter(ids_of(job, "predictions")) - before
    assert later.total() == SECOND and all(one.startswith(f"{second}-") for one in later)

    begin_life(job, 4)
    run_until_done(job, fork_server=fork_server)
    ids = ids_of(job, "predictions")
    assert len(set(ids)) == len(ids) == FIRST + 3 * SECOND
    assert sum(one.startswith(f"{renamed(job)}-") for one in ids) == SECOND and renamed(job) != second


def test_a_life_that_an_earlier_release_began_keeps_its_ids(
    make_job: MakeJob, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That release wrote no life; other ids for its outputs would let a repeat after a crash count twice.

    Dead letters of former lives are sent back once.
    """
    job = make_job("earlier", **LEARNING)
    job.produce(life(1, FIRST))
    run_until_done(job, fork_server=fork_server)
    first = Counter(ids_of(job, "predictions"))
    with monkeypatch.context() as earlier:
        earlier.setattr(topic_id, "life_of_topic", lambda input_id: "")
        begin_life(job, 2)
    run_until_done(job, fork_server=fork_server)
    second = Counter(ids_of(job, "predictions"))
    assert second - first == Counter(places(job))
    begin_life(job, 3)
    run_until_done(job, fork_server=fork_server)
    third = Counter(ids_of(job, "predictions")) - second
    assert third == Counter(one.replace(job.input, renamed(job), 1) for one in places(job))

    for sent in (1, 0):  # the first life's letter: it comes back before its own offset
        capsys.readouterr()
        assert command("dlq", "redrive", job.path, "--offset", "0:0", "--json") == 0
        assert json.loads(capsys.readouterr().out)["sent"] == sent
