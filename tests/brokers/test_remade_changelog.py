"""A changelog deleted and recreated under its name: noticed, refused, and restored from local stores or accepted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import rocksdict
from confluent_kafka.admin import NewTopic

from streamjobs.kafka import topics
from streamjobs.kafka.topic_id import topic_ids
from streamjobs.maintenance import changelog_edit
from tests.brokers.fault_injection import program
from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, create, until
from tests.brokers.load import samples
from tests.brokers.verification import replayed, verify
from tests.brokers.workers import Worker, run_until_done, running_worker, wait_for_exit
from tests.commands.jobs import output_of
from tests.exit_codes import ExitCode

RECORDS = list(samples(900, keys=40))
FORMER = "rebuilding the local store from the changelog"


def recreate_changelog(job: KafkaJob) -> None:
    before = topic_ids(job.admin, [job.changelog])
    job.delete(job.changelog)
    topics.create(job.settings, job_sinks=job.core.sinks, state_bytes=job.core.state_bytes, roles=("state",))
    assert topic_ids(job.admin, [job.changelog]) != before


def with_old_copy(job: KafkaJob, fork_server: ForkServer) -> tuple[Path, Path]:
    """A local store of all records and a copy of it from before the last 500; the changelog is recreated since."""
    job.produce(RECORDS[:400])
    worker = run_until_done(job, fork_server=fork_server)
    stale = job.folder / "stale"
    shutil.copytree(worker.state, stale)
    job.produce(RECORDS[400:])
    run_until_done(job, fork_server=fork_server)
    recreate_changelog(job)
    return worker.state, stale


def restored(job: KafkaJob, *folders: Path, more: tuple[str, ...] = ()) -> tuple[ExitCode, str]:
    named = [word for folder in folders for word in ("--directory", folder)]
    return output_of("state", "restore", job.path, "--from-local", *named, *more)


def assert_refused(worker: Worker, says: str = "state restore JOB --from-local") -> None:
    code, lines = wait_for_exit(worker)
    assert code == 3 and len(lines) == 1 and says in lines[0], f"{code} {lines}"


@pytest.fixture(params=[pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def learned(request: pytest.FixtureRequest, make_job: MakeJob) -> Iterator[KafkaJob]:
    job = make_job("regrown", job={"guarantee": request.param}, state={"replay": "0s"}, **LEARNING)
    job.produce(RECORDS[:400])
    yield job


def test_a_worker_ends_and_its_local_store_gives_every_state_back(learned: KafkaJob, fork_server: ForkServer) -> None:
    job = learned
    with running_worker(job, program=program("watchful"), fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        recreate_changelog(job)
        job.produce([record for record in RECORDS[400:500] if record.key in (b"key-1", b"key-2", b"key-3")])
        assert_refused(worker)
    assert_refused(Worker(job, fork_server=fork_server))
    assert_refused(Worker(job, "with-no-disk", fork_server=fork_server))
    code, text = output_of("check", job.path, "--online")
    assert code == 3 and "state restore JOB --from-local" in text
    code, text = output_of("state", "verify", job.path)
    assert code == 4 and "state restore JOB --from-local" in text
    assert len(job.snapshots()) < 40

    code, text = restored(job, worker.state)
    assert code == 0, text
    job.produce(RECORDS[500:])
    again = run_until_done(job, fork_server=fork_server)
    assert len(again.events(FORMER)) == PARTITIONS
    verify(job, repeats=True, committed_only=job.settings.job.guarantee == "exactly_once")
    assert output_of("state", "verify", job.path)[0] == 0 and output_of("check", job.path, "--online")[0] == 0
    code, text = restored(job, worker.state)
    assert code == 0 and "nothing to restore" in text
    run_until_done(job, "with-no-disk", fork_server=fork_server)


def test_a_running_job_is_not_restored(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("busy", **LEARNING)
    job.produce(RECORDS[:100])
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        job.wait_for_markers(job.changelog)
        before = job.ends(job.changelog, committed_only=False)
        for words in (("--from-local", "--directory", worker.state), ("--accept",)):
            code, text = output_of("state", "restore", job.path, *words)
            assert code == 3 and "1 worker is running" in text
        assert job.ends(job.changelog, committed_only=False) == before
        assert worker.stop() == 0


def test_a_store_that_is_behind_is_refused_until_the_input_is_to_be_read_again(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("stale", **LEARNING)
    _, stale = with_old_copy(job, fork_server)

    code, text = restored(job, stale)
    assert code == 3 and text.count("records before the committed input offset") == PARTITIONS and "--reread" in text
    assert_refused(Worker(job, "c", fork_server=fork_server))
    code, text = restored(job, stale, more=("--reread",))
    assert code == 0 and text.count("records again") == PARTITIONS
    run_until_done(job, "c", fork_server=fork_server)
    verify(job, repeats=False)


def test_of_several_directories_the_furthest_store_counts(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("several", **LEARNING)
    state, stale = with_old_copy(job, fork_server)
    code, text = restored(job, stale, state)
    assert code == 0, text
    run_until_done(job, "c", fork_server=fork_server)
    verify(job, repeats=False)


def test_commands_leave_a_recreated_changelog_alone_and_an_ended_state_stays_ended(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("ended", **LEARNING)
    job.produce(RECORDS[:200])
    worker = run_until_done(job, fork_server=fork_server)
    before = job.snapshots()
    recreate_changelog(job)
    for words in (("reset", job.path, "--all"), ("forget", job.path, "key-7"), ("forget-offsets", job.path)):
        code, text = output_of("state", *words)
        assert code == 3 and "state restore JOB --from-local" in text
    assert job.snapshots() == {}
    ((number, key), _) = min(before.items())
    changelog_edit.write(job.settings, {number: [(key, None)]}, dict.fromkeys(range(PARTITIONS), 0))
    code, text = restored(job, worker.state)
    assert code == 0, text
    assert job.snapshots() == before | {(number, key): None}


def test_a_changelog_with_fewer_partitions_is_refused_until_it_has_all(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("narrower", **LEARNING)
    job.produce(RECORDS[:400])
    worker = run_until_done(job, fork_server=fork_server)
    job.delete(job.changelog)
    create(job.admin, NewTopic(job.changelog, 2, 1, config={"cleanup.policy": "compact"}))
    assert_refused(Worker(job, fork_server=fork_server))
    for more in (("--from-local", "--directory", worker.state), ("--accept",)):
        code, text = output_of("state", "restore", job.path, *more)
        assert code == 3 and "it has 2 partitions, and this job has states in partition 3 too" in text, text
    job.delete(job.changelog)
    assert output_of("topics", "create", job.path)[0] == 0
    code, text = restored(job, worker.state)
    assert code == 0 and text.count("states written back") == PARTITIONS, text
    job.produce(RECORDS[400:])
    run_until_done(job, fork_server=fork_server)
    verify(job, repeats=False)


def test_a_changelog_with_deleted_records_is_refused_where_a_store_lacks_them(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("retained", state={"replay": "0s"}, **LEARNING)
    job.produce(RECORDS[:400])
    worker = run_until_done(job, fork_server=fork_server)
    job.wait_for_markers(job.changelog)
    job.alter(job.changelog, "cleanup.policy", "delete")
    job.delete_records(job.changelog, job.ends(job.changelog))
    job.alter(job.changelog, "cleanup.policy", "compact")
    job.produce(RECORDS[400:500])
    run_until_done(job, fork_server=fork_server)
    assert_refused(Worker(job, "with-no-disk", fork_server=fork_server))
    assert "the broker has deleted its records" in output_of("check", job.path, "--online")[1]
    code, text = output_of("state", "verify", job.path)
    assert code == 4 and "the broker has deleted its records" in text

    copy = job.folder / "left.copy"
    assert output_of("state", "export", job.path, "--all", "-o", copy)[0] == 0
    recreate_changelog(job)
    assert restored(job, worker.state)[0] == 0 == output_of("state", "import", job.path, copy, "--all")[0]
    job.produce(RECORDS[500:])
    run_until_done(job, "with-no-disk", fork_server=fork_server)
    verify(job, repeats=False)
    assert output_of("state", "verify", job.path)[0] == 0


def test_a_store_unused_for_longer_than_tombstones_are_kept_is_rebuilt(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("unused", state={"replay": "0s"}, **LEARNING)
    job.produce(RECORDS[:400])
    run_until_done(job, fork_server=fork_server)
    job.produce(RECORDS[400:600])
    assert not run_until_done(job, "b", fork_server=fork_server).events(FORMER)
    job.alter(job.changelog, "delete.retention.ms", "1")
    job.produce(RECORDS[600:])
    assert len(run_until_done(job, fork_server=fork_server).events(FORMER)) == PARTITIONS
    verify(job, repeats=False)


def test_accepting_starts_over_where_the_input_was(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("accepted", **LEARNING)
    job.produce(RECORDS[:400])
    run_until_done(job, fork_server=fork_server)
    begin = job.committed()
    recreate_changelog(job)
    assert_refused(Worker(job, "with-no-disk", fork_server=fork_server))
    code, text = output_of("state", "restore", job.path, "--accept")
    assert code == 0 and text.count("0 states in it stay") == PARTITIONS
    job.produce(RECORDS[400:])
    worker = run_until_done(job, fork_server=fork_server)  # its former store is known to be one
    assert len(worker.events(FORMER)) == PARTITIONS
    assert job.snapshots() == replayed(job.core, job.inputs(begin)).snapshots


def test_an_older_releases_store_beyond_the_changelog_is_refused_and_restored(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    """Its offsets and stores know no id: the store's own offset shows that the changelog is another one."""
    job = make_job("older", **LEARNING)
    job.produce(RECORDS[:400])
    worker = run_until_done(job, program=program("no-ids"), fork_server=fork_server)
    recreate_changelog(job)
    assert_refused(Worker(job, fork_server=fork_server))
    code, text = restored(job, worker.state)
    assert code == 0, text
    job.produce(RECORDS[400:])
    run_until_done(job, fork_server=fork_server)
    verify(job, repeats=False)


def test_committed_offsets_without_states_are_said_where_no_id_is_known(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("unknown", **LEARNING)
    job.produce(RECORDS[:400])
    run_until_done(job, program=program("no-ids"), fork_server=fork_server)
    recreate_changelog(job)
    worker = run_until_done(job, "with-no-disk", fork_server=fork_server)
    assert len(worker.events("offsets are committed but there are no states")) == PARTITIONS


def test_a_worker_ends_if_its_changelog_is_deleted(make_job: MakeJob, fork_server: ForkServer) -> None:
    """Before a state was due: the input has all that the states have learned."""
    job = make_job("gone", **LEARNING)
    job.produce(RECORDS[:400])
    with running_worker(job, program=program("watchful"), fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        job.delete(job.changelog)
        job.produce(RECORDS[400:])
        assert_refused(worker)
    assert_refused(Worker(job, fork_server=fork_server))  # which creates it
    until(lambda: job.members() == [], "the session of a worker that could not leave")
    code, text = restored(job, worker.state)
    assert code == 0, text
    run_until_done(job, fork_server=fork_server)
    verify(job, repeats=True)


def same_name(job: KafkaJob) -> KafkaJob:
    """A job of the same name on another topic."""
    folder = job.folder / "other"
    folder.mkdir()
    return KafkaJob(job.bootstrap, folder, job.name, **LEARNING | {"source": LEARNING["source"] | {"topic": "another"}})


def forget_name(folder: Path) -> None:
    """Older releases' stores know the input's id only; each snapshot has its name."""
    for path in folder.rglob("*.db"):
        store = rocksdict.Rdict(str(path), options=rocksdict.Options(raw_mode=True))
        assert store.get(b"topic") and store.get(b"source")
        store.delete(b"topic")
        store.close()


def test_a_job_name_that_another_topics_states_have_is_refused_without_advice_that_destroys(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("named", **LEARNING)
    job.produce(RECORDS[:400])
    worker = run_until_done(job, fork_server=fork_server)
    before, other = job.snapshots(), same_name(job)
    says = f"its states have learned from topic {job.input}, but [source] topic is another"
    other.produce(RECORDS[:100])
    assert_refused(Worker(other, fork_server=fork_server), says)
    code, text = output_of("check", other.path, "--online")
    assert code == 3 and says in text
    for forget_ids in (False, True):
        if forget_ids:  # as an older release left them
            job.set_commits(job.ends())
            assert_refused(Worker(other, fork_server=fork_server), says)
            shutil.copytree(worker.state, job.folder / "used")
            forget_name(job.folder / "used")
            used = Worker(other, "used", fork_server=fork_server, STREAMJOBS_STATE__DIRECTORY=str(job.folder / "used"))
            assert_refused(used, says)
        code, text = output_of("state", "forget-offsets", other.path)
        assert code in (2, 3) and says in text and "forget-offsets" not in text
    assert job.snapshots() == before and not other.sink("predictions")
    run_until_done(job, fork_server=fork_server)
