"""A job on a real broker: its job file, its topics and what they hold, the offsets and members of its group."""

import asyncio
import itertools
import json
import logging
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka.errors
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, OffsetSpec

from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.job_files import load_job
from streamjobs.kafka import groups, topics
from streamjobs.kafka.topic_id import progress_of

PARTITIONS = 4
ANSWER = 60.0  # seconds
MARKERS = 10.0  # seconds a broker under load takes to write a commit's markers
STALE = (  # answers of a moment, after a leader or a topic's partitions have changed
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
NO_COORDINATOR = (  # of a group, a moment after the broker has started
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)

_changes = itertools.count()  # numbers of settings that `alter` has changed


class Sent(NamedTuple):
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    partition: int
    timestamp: int  # milliseconds
    headers: Sequence[tuple[str, bytes]] = ()


class _Asking:
    """A client of aiokafka for questions that are repeated many times a second; a new one after an error."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop: asyncio.AbstractEventLoop | None = None
        self._admin: Any = None

    def ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """Asks again while nodes start or go, for ANSWER seconds; then raises KafkaError."""
        if self._loop is None:
            logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
            self._loop = asyncio.new_event_loop()
            self._loop.set_exception_handler(lambda loop, context: None)  # its connections end with it
            weakref.finalize(self, self._loop.close)
        giving_up = time.monotonic() + ANSWER
        while True:
            try:
                return self._loop.run_until_complete(self._ask(question))
            except aiokafka.errors.KafkaError as error:
                if not error.retriable or time.monotonic() > giving_up:
                    raise
            time.sleep(0.05)

    async def _ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        self._admin = self._admin or AIOKafkaAdminClient(
            bootstrap_servers=self._bootstrap, request_timeout_ms=round(1000 * ANSWER)
        )
        try:
            await self._admin.start()  # does nothing the second time
            return await question(self._admin)
        except BaseException:
            admin, self._admin = self._admin, None
            await admin.close()
            raise


class KafkaJob:
    """One job under test. `sections` are those of a job file; the topics are made with so many partitions.

    folder: for the job file, state directories and logs.  make: False = the topics are not made.
    population: bytes of a population file; the job names that file, and its directions.
    """

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        name: str,
        *,
        make: bool = True,
        partitions: int = PARTITIONS,
        population: bytes | None = None,
        directions: int | None = None,
        **sections: dict[str, Any],
    ) -> None:
        self.bootstrap, self.folder, self.name = bootstrap, folder, name
        table = {
            "job": {"name": name},
            "broker": {"url": f"kafka://{bootstrap}", "session_timeout": "4s"},
            "source": {"topic": f"{name}.in"},
            "learner": {"name": "okfeb", "rank": 3, "budget": 5},
            "metrics": {"port": 0},
        }
        for section, values in sections.items():
            other = section == "learner" and values.get("name") != table["learner"]["name"]  # it has other settings
            table[section] = values if other else table.get(section, {}) | values
        if table["learner"]["name"] == "okfeb" or "head" in table:  # others may predict by themselves and give none
            table["sinks"] = {"features": f"{table['source']['topic']}.features", **table.get("sinks", {})}
        if population is not None:
            (folder / f"{name}.state").write_bytes(population)
            few = {"directions": directions} if directions else {}
            table["population"] = {"file": str(folder / f"{name}.state"), **few}
        self.path = folder / f"{name}.toml"
        self.path.write_text(toml(table), encoding="utf-8")
        self.settings = load_job(self.path, env={})
        self.core = Job.from_settings(self.settings, population=population)
        self.input, self.changelog = self.settings.source.topic, topics.changelog(self.settings)
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._of_group = _Asking(bootstrap)
        if make:
            topics.create(self.settings, partitions=partitions, job_sinks=self.core.sinks, state_bytes=self.core.state_bytes)

    def produce(self, records: Iterable[Sent]) -> int:
        """Produce to the input and wait for every acknowledgement; gives how many."""
        producer = new_producer(self.bootstrap)
        problems: list[str] = []
        count = 0
        for record in records:
            send(producer, self.input, record, lambda error, _: problems.append(str(error)) if error else None)
            count += 1
        assert producer.flush(60) == 0 and not problems, f"{len(problems)} records refused: {problems[:1]}"
        return count

    def ends(self, topic: str | None = None, *, committed_only: bool = True) -> dict[int, int]:
        """The offset each partition of a topic (None: the input) ends at; of transactions only what counts."""
        name = topic or self.input
        giving_up = time.monotonic() + ANSWER
        while True:  # with new metadata each time: librdkafka keeps the epoch of a former leader
            parts = range(len(self.admin.list_topics(name, timeout=ANSWER).topics[name].partitions))
            if not parts and time.monotonic() < giving_up:  # a node may not know yet a topic that was just created
                time.sleep(0.05)
                continue
            asked = self.admin.list_offsets(
                {TopicPartition(name, number): OffsetSpec.latest() for number in parts},
                isolation_level=IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED,
            )
            try:
                return {tp.partition: answer.result(ANSWER).offset for tp, answer in asked.items()}
            except KafkaException as error:  # a new leader epoch has not reached everybody: ask again
                if error.args[0].code() not in STALE or time.monotonic() > giving_up:
                    raise
                time.sleep(0.2)

    def committed(self) -> dict[int, int]:
        """Up to where the outputs of each partition are committed, 0 where nothing is."""
        commits = {place.partition: one for place, one in self.commits().items() if place.topic == self.input}
        progress = {number: progress_of(one.offset, one.metadata) for number, one in commits.items()}
        return {number: max(progress.get(number, 0), 0) for number in range(PARTITIONS)}

    def commits(self) -> dict[Any, Any]:
        """Everything that the group has committed."""
        return self._of_group.ask(lambda admin: groups.all_commits(admin, self.name))

    def set_commits(self, offsets: Mapping[int, int]) -> None:
        """Commit these offsets of the input, without what workers write beside them; all workers have ended."""
        self._wait_for_end_of_members()
        places = [TopicPartition(self.input, number, offset) for number, offset in offsets.items()]
        (done,) = self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(self.name, places)]).values()
        assert all(one.error is None for one in done.result(ANSWER).topic_partitions)

    def delete_group(self) -> None:
        """The group and its offsets, of workers that have ended."""
        self._wait_for_end_of_members()
        self.admin.delete_consumer_groups([self.name])[self.name].result(ANSWER)

    def _wait_for_end_of_members(self) -> None:
        """A broker may apply the departure of a worker after its process has ended."""
        until(lambda: self.members() == [], f"{self.name}: no members", every=0.02)

    def alter(self, topic: str, setting: str, value: str) -> None:
        """Change a setting of a topic and wait until the broker applies it.

        A broker's metadata has a change a moment before its logs. They get changes one after the other: once the metadata
        has a later change as well, the logs have the first one.
        """
        for name, wanted in ((setting, value), ("file.delete.delay.ms", str(1_000 + next(_changes)))):
            entry = ConfigEntry(name, wanted, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
            self.admin.incremental_alter_configs([resource])[resource].result(ANSWER)
            self._wait_for_setting(topic, name, wanted)

    def topic_setting(self, topic: str, setting: str) -> str:
        (found,) = self.admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        return str(found.result(ANSWER)[setting].value)

    def _wait_for_setting(self, topic: str, setting: str, value: str) -> None:
        until(lambda: self.topic_setting(topic, setting) == value, f"{topic}: {setting} = {value}", every=0.02)

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until the broker does not know it any more."""
        self.admin.delete_topics([topic])[topic].result(ANSWER)
        until(lambda: topic not in self.admin.list_topics(timeout=ANSWER).topics, f"{topic} gone")

    def delete_records(self, topic: str, upto: dict[int, int]) -> None:
        """Delete each partition's records before the offset of `upto`."""
        partitions = [TopicPartition(topic, number, offset) for number, offset in upto.items()]
        for answer in self.admin.delete_records(partitions).values():
            answer.result(ANSWER)

    def wait_for_markers(self, topic: str) -> None:
        """Until every commit that was answered counts in a topic: the broker writes its markers after the answer."""
        until(lambda: self.ends(topic) == self.ends(topic, committed_only=False), f"{topic}: all markers written")

    def lag(self) -> int:
        """Records whose offsets are not committed."""
        return sum(self.ends().values()) - sum(self.committed().values())

    def members(self) -> list[int]:
        """How many input partitions each member of the group has, most first."""
        found = self._of_group.ask(lambda admin: groups.description(admin, self.name))
        return sorted((sum(tp.topic == self.input for tp in member) for member in found.members), reverse=True)

    def wait_until_done(self, workers: Iterable[Any] = (), within: float = 180.0) -> None:
        """Wait until everything in the input is committed; `workers` must live meanwhile."""

        end = sum(self.ends().values())

        def done() -> bool:
            nonlocal end
            for worker in workers:
                worker.assert_running()
            if sum(self.committed().values()) < end:  # a node works longer for the ends than for the commits
                return False
            end = sum(self.ends().values())
            return self.lag() == 0

        until(done, f"{self.name}: every input offset committed", within, every=0.1)

    def read(self, topic: str, *, committed_only: bool = False, start: Mapping[int, int] | None = None) -> Iterator[Any]:
        """Every message of a topic from the beginning (or from these offsets), partition by partition in order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
                "enable.partition.eof": True,
                "log_level": 0,
                "fetch.queue.backoff.ms": 5,
                "fetch.wait.max.ms": 20,
                "queued.min.messages": 100_000,
            }
        )
        held: dict[int, list[Any]] = {number: [] for number in self.ends(topic)}
        try:
            consumer.assign([TopicPartition(topic, number, (start or {}).get(number, 0)) for number in held])
            ended: set[int] = set()
            while len(ended) < len(held):
                for message in consumer.consume(1000, 0.02):
                    error = message.error()
                    if error is None:
                        held[message.partition()].append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition())
                    else:
                        assert error.retriable(), f"{topic}: {error}"
        finally:
            consumer.close()
        return itertools.chain(*held.values())

    def inputs(self, start: Mapping[int, int] | None = None) -> list[Stored]:
        """The input as the broker holds it, partition by partition in offset order; from these offsets on."""
        return [
            Stored(m.topic(), m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), tuple(m.headers() or ()))
            for m in self.read(self.input, start=start, committed_only=True)
        ]

    def sink(self, name: str, *, committed_only: bool = False) -> list[Any]:
        return list(self.read(self.core.sinks[name], committed_only=committed_only))

    def snapshots(self) -> dict[tuple[int, bytes], bytes]:
        """The last snapshot of every (partition, key) in the changelog that counts.

        A commit is answered before its markers are written: what an ended worker committed may come to count a moment
        later. What a killed one left open never does, and is not waited for beyond that.
        """
        giving_up = time.monotonic() + MARKERS
        while self.ends(self.changelog) != self.ends(self.changelog, committed_only=False) and time.monotonic() < giving_up:
            time.sleep(0.05)
        return {(m.partition(), m.key()): m.value() for m in self.read(self.changelog, committed_only=True)}


def create(admin: Any, *made: NewTopic) -> None:
    """Create these topics and wait until the broker knows them: a controller answers before that."""
    for answer in admin.create_topics(list(made)).values():
        answer.result(ANSWER)

    def known() -> bool:
        found = admin.list_topics(timeout=ANSWER).topics
        return all(one.topic in found and len(found[one.topic].partitions) == one.num_partitions for one in made)

    until(known, f"{', '.join(one.topic for one in made)} known", every=0.02)


def toml(table: dict[str, Any]) -> str:
    """A job file. JSON's texts, numbers and lists are TOML's; tables within a section are written inline."""

    def value(one: Any) -> str:
        if isinstance(one, dict):
            return "{ " + ", ".join(f"{json.dumps(name)} = {value(item)}" for name, item in one.items()) + " }"
        return json.dumps(one)

    lines = []
    for section, values in table.items():
        lines += [f"[{section}]", *(f"{name} = {value(one)}" for name, one in values.items()), ""]
    return "\n".join(lines)


def new_producer(bootstrap: str, **settings: Any) -> Producer:
    """An idempotent producer that keeps the order and every acknowledged record."""
    usual = {"linger.ms": 5, "queue.buffering.max.messages": 1_000_000, "message.max.bytes": 4 << 20, "log_level": 0}
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **usual, **settings})


def send(producer: Producer, topic: str, record: Sent, acknowledged: Callable[[Any, Any], None]) -> None:
    while True:
        try:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                partition=record.partition,
                timestamp=record.timestamp,
                headers=list(record.headers) or None,
                on_delivery=acknowledged,
            )
        except BufferError:
            producer.poll(0.05)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            producer.poll(0.05)  # of a topic that has grown: its metadata comes
        else:
            producer.poll(0)
            return


def committed_by(consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
    """The committed offsets of the consumer's group; waits while a broker that has just started chooses its coordinator."""
    giving_up = time.monotonic() + ANSWER
    while True:
        try:
            found: list[TopicPartition] = consumer.committed(places, timeout=ANSWER)
            return found
        except KafkaException as error:
            if error.args[0].code() not in NO_COORDINATOR or time.monotonic() > giving_up:
                raise
        time.sleep(0.05)


def until(holds: Callable[[], Any], what: str | Callable[[], str], within: float = 120.0, every: float = 0.1) -> float:
    """Wait until `holds()` is true and give the seconds it took; fails with `what` after `within` seconds."""
    begin = time.monotonic()
    while not holds():
        if time.monotonic() - begin > within:
            raise AssertionError(f"not within {within:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(every)
    return time.monotonic() - begin
