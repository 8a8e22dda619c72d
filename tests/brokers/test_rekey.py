"""`rekey` on a real broker: a topic keyed inside its values becomes one keyed by them, exactly once, whatever is killed."""

import json
import time
from collections import Counter
from collections.abc import Iterable

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.core.partitioners import murmur2
from streamjobs.core.state import snapshot
from streamjobs.job_files import load_job
from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.growth import grow_topic, place
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent, create, until
from tests.brokers.load import SOURCE, samples
from tests.brokers.rekeyed import (
    BY_KEY,
    LATENESS,
    REKEY,
    copied,
    create_base,
    flushing,
    keyed_inside,
    kill_in_a_transaction,
    produce,
    rekey,
)
from tests.brokers.verification import replayed
from tests.brokers.workers import RUN, Worker, wait_for_exit
from tests.commands.jobs import command, output_of

KEYS = 20


def keyed_from_the_start(job: KafkaJob, records: list[Sent]) -> dict[tuple[int, bytes], bytes]:
    """Final states of the job where the same records come with their keys, by partition and key, without offsets."""
    source = {**SOURCE, "lateness": LATENESS}
    path = job.folder / "plain.toml"
    text = job.path.read_text().replace('key = "device.id"\n', "").replace("rekeyed = true\n", "")
    path.write_text(text)
    plain = Job.from_settings(load_job(path, env={}))
    assert plain.settings.source.key is None and plain.settings.source.lateness == source["lateness"]
    stored = [
        Stored("plain", murmur2(one.key or b"", PARTITIONS), number, one.timestamp, one.key, one.value, ())
        for number, one in enumerate(records)
    ]
    return without_offsets(replayed(plain, stored).snapshots)


def without_offsets(snapshots: dict[tuple[int, bytes], bytes]) -> dict[tuple[int, bytes], bytes]:
    return {place: snapshot.encode(snapshot.decode(data)._replace(offsets={})) for place, data in snapshots.items()}


def test_states_are_those_of_keyed_records_through_two_kills_inside_transactions(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    run_through_kills(
        make_job, fork_server, records=2_400, kills=2, keys=60
    )  # so many that a slow look leaves some for the next kill


@pytest.mark.long
def test_states_are_those_of_keyed_records_through_ten_kills_under_a_long_stream(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    run_through_kills(make_job, fork_server, records=30_000, kills=10, keys=100)


def run_through_kills(make_job: MakeJob, fork_server: ForkServer, *, records: int, kills: int, keys: int = KEYS) -> None:
    """keys: so many that all samples of a key may wait to be put in order (`max_held`)."""
    head = {"name": "rls", "classes": ["down", "up"]}  # else they are numbered as they come, before samples are sorted
    sections = LEARNING | {"source": {**BY_KEY, "lateness": LATENESS}, "head": head}
    job = make_job("rekeyed", make=False, **sections)
    base = create_base(job)
    sent = list(samples(records, keys=keys))
    inside = list(keyed_inside(iter(sent)))
    bad = [Sent(None, b'{"x": [1, 2, 3, 4], "ts": 1700000000, "device": {}}', 1, 5), Sent(b"own", b"{", 2, 6)]
    produce(job, [*inside[: records // 2], *bad, *inside[records // 2 :]])

    lost = [kill_in_a_transaction(job, f"kill{number}") for number in range(kills)]
    left = records - sum(1 for _ in job.read(job.input, committed_only=True))
    assert min(lost) > 0 and left > 0, "every kill fell into a transaction, with records still to copy"
    assert rekey(job, "--once")[0] == 0
    flush = list(flushing(keys))
    produce(job, list(keyed_inside(iter(flush))))  # only now: it is later than everything in other partitions
    code, said = rekey(job, "--once")
    assert code == 0 and f"{keys} records rekeyed, 0 dead letters" in said, said

    copies, originals = job.inputs(), list(job.read(base))
    assert Counter((one.value, one.timestamp, one.headers) for one in copies) == Counter(
        (one.value(), one.timestamp()[1], tuple(one.headers() or ())) for one in originals if b"key-" in one.value()
    )
    assert {(one.key, one.partition) for one in copies} == {(one.key, murmur2(one.key or b"", PARTITIONS)) for one in sent}
    assert len(list(job.read(job.input))) > len(copies), "what the killed ones had written is there, and does not count"
    verify_order(copies, originals)
    behind = furthest_behind((one.partition, one.timestamp) for one in copies)
    own = furthest_behind((one.partition(), one.timestamp()[1]) for one in originals if b"key-" in one.value())
    assert behind <= own, "partitions are copied side by side in time, however each of them is read"
    letters = job.sink("dlq", committed_only=True)
    assert sorted(dict(one.headers())["streamjobs-error-reason"] for one in letters) == [b"malformed", b"no_key"]
    assert {one.key() for one in letters} == {None, b"own"}

    assert command("topics", "create", job.path) == 0
    code, lines = wait_for_exit(Worker(job, program=(*RUN, "--once"), fork_server=fork_server))
    assert code == 0, lines
    assert len(job.sink("dlq", committed_only=True)) == len(letters), "the worker had none"
    assert without_offsets(job.snapshots()) == keyed_from_the_start(job, [*sent, *flush])
    assert job.snapshots() == replayed(job.core, copies).snapshots


def furthest_behind(records: Iterable[tuple[int, int]]) -> int:
    """By how many milliseconds a record is older than one before it in its partition, at most; of (partition, timestamp)."""
    newest: dict[int, int] = {}
    behind = 0
    for partition, at in records:
        newest[partition] = max(newest.get(partition, at), at)
        behind = max(behind, newest[partition] - at)
    return behind


def verify_order(copies: list[Stored], originals: list[object]) -> None:
    """Of a key and a partition of the input, the copies have the order of the originals; values are all different."""
    place = {one.value(): (one.partition(), one.offset()) for one in originals}  # type: ignore[attr-defined]
    newest: dict[tuple[bytes | None, int], int] = {}
    for one in copies:
        partition, offset = place[one.value]
        assert offset > newest.get((one.key, partition), -1)
        newest[one.key, partition] = offset


@pytest.mark.long
def test_of_two_rekeys_the_later_one_goes_on_and_every_record_is_copied_once(make_job: MakeJob) -> None:
    job = make_job("two", make=False, **LEARNING | {"source": BY_KEY})
    create_base(job)
    inside = list(keyed_inside(samples(90, keys=KEYS)))
    produce(job, inside[:30])
    first = Worker(job, "first", program=REKEY)
    second = None
    try:
        until(lambda: copied(job) == 30 or first.assert_running(), "the first one has copied all", 120)
        second = Worker(job, "second", program=REKEY)
        while first.process.poll() is None and len(inside) > 30:
            second.assert_running()
            produce(job, [inside.pop()])  # the first one notices when it writes
            time.sleep(0.5)
        code, lines = wait_for_exit(first)
        refused = (
            f"another one of {job.settings.source.base_topic} has taken over",
            "its transaction is void",
        )
        assert code == 1 and any(text in lines[-1] for text in refused), lines
        grow_topic(job, job.settings.source.base_topic, PARTITIONS + 1)
        produce(job, [inside.pop()._replace(partition=PARTITIONS)])
        sent = sum(job.ends(job.settings.source.base_topic).values())
        everything = "the second one has copied all, of the new partition too"
        until(lambda: len(job.inputs()) == sent or second.assert_running(), everything, 120, every=0.5)
        assert second.stop() == 0, second.text()
    finally:
        for process in filter(None, (first, second)):
            process.end()
    originals = [one.value() for one in job.read(job.settings.source.base_topic)]
    assert Counter(one.value for one in job.inputs()) == Counter(originals) and len(originals) == sent > 30


def test_a_key_on_two_partitions_stops_the_worker_and_a_decided_time_unit_is_found_again(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("strays", **LEARNING | {"source": {**SOURCE, "key": "device.id", "time_unit": "auto"}})
    placed = [one._replace(partition=murmur2(key_of(one), PARTITIONS)) for one in keyed_inside(samples(60))]
    job.produce(placed)
    code, lines = wait_for_exit(worker := Worker(job, program=(*RUN, "--once"), fork_server=fork_server))
    (decided,) = worker.events("time unit")
    assert code == 0 and (decided["unit"], decided["decided"]) == ("s", "now"), lines
    committed = job.committed()
    assert committed == job.ends() and len(job.snapshots()) == len({key_of(one) for one in placed})
    before = job.snapshots()

    stray = placed[0]._replace(partition=(placed[0].partition + 1) % PARTITIONS)
    job.produce([stray])
    code, lines = wait_for_exit(worker := Worker(job, "b", fork_server=fork_server))
    (found,) = worker.events("time unit")
    assert (found["unit"], found["decided"]) == ("s", "at an earlier start")
    assert code == 3 and len(lines) == 1 and "streamjobs rekey JOB" in lines[0], lines
    assert key_of(stray).decode() not in worker.text(), "keys are not for logs"
    assert job.committed() == committed and job.snapshots() == before


@pytest.mark.parametrize("rekeyed", [True, False], ids=["rekeyed", "by states"])
def test_letters_go_back_to_the_partitions_that_have_their_keys_now(
    make_job: MakeJob, fork_server: ForkServer, *, rekeyed: bool
) -> None:
    """Else a key whose state has moved starts a second state in its old partition."""
    job, small = make_job("moved", make=False, **LEARNING | {"source": BY_KEY if rekeyed else SOURCE}), "500"
    sent = [one._replace(partition=place(one.key, 2)) for one in samples(200, keys=KEYS)]
    sent[150:] = [one._replace(value=b" " * 600 + (one.value or b"")) for one in sent[150:]]
    if rekeyed:
        base = create_base(job)
        inside = [
            one._replace(value=b" " * 600 * (n >= 150) + (one.value or b""))
            for n, one in enumerate(keyed_inside(iter(sent)))
        ]
        produce(job, [*inside, Sent(None, b'{"device": {}}', 1, 5)])
        assert rekey(job, "--once", "--partitions", "2")[0] == 0
    else:
        create(job.admin, NewTopic(job.input, 2))
        job.produce(sent)
    assert command("topics", "create", job.path) == 0
    for program in ((*RUN, "--once"), (*RUN, "--drain")):  # all records of letters are longer
        worker = Worker(job, program=program, fork_server=fork_server, STREAMJOBS_SOURCE__MAX_BYTES=small)
        assert wait_for_exit(worker)[0] == 0
        if program[-1] == "--once":
            grow_topic(job, job.input, 4)
            assert command("topics", "grow", job.path) == 0
    assert command("state", "repartition", job.path) == 0
    before = job.ends()

    if rekeyed:
        reader = Consumer({"bootstrap.servers": job.bootstrap, "group.id": f"{job.name}-reader"})
        reader.commit(offsets=[TopicPartition(base, 1, 1)], asynchronous=False)
        reader.close()
        code, said = output_of("dlq", "redrive", job.path, "--all")
        assert code == 2 and f"{base} is also read by {job.name}-reader, which would get 1 record again" in said
    redrive = ("dlq", "redrive", job.path, "--reason", "too_large")
    assert output_of(*redrive) == (0, f"50 of {50 + rekeyed} dead letters went back to {job.input}\n")
    assert job.ends()[2] > before[2] and job.ends()[3] > before[3]
    assert "0 of" in output_of(*redrive)[1] and sum(job.ends().values()) == sum(before.values()) + 50
    assert wait_for_exit(Worker(job, program=(*RUN, "--once"), fork_server=fork_server))[0] == 0
    states = sorted(place_of for place_of, data in job.snapshots().items() if data)
    assert states == sorted({(place(one.key, 4), one.key) for one in sent})


def key_of(record: Sent) -> bytes:
    return str(json.loads(record.value or b"")["device"]["id"]).encode()
