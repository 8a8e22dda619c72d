"""Copies an input with keys inside the values to a topic where they are the records' own keys.

Each transaction holds the copies of the records since the last one, the dead letters of those without a key, and the offset
that follows them, committed for the group TOPIC.by-key: so every record is copied once, whatever is killed when. Opening
the transactional producer TOPIC.by-key fences its previous owner, and ends what that left open; the offset is read
after that. Of two processes the later one goes on, the other ends.

A copy is its record with another key: value, headers and timestamp are the same. Its partition is the key's by murmur2.
Records of one key and one partition of the input keep their order; those of several partitions are copied in the order of
their timestamps. A partition that has more to read, and gives nothing for ten seconds, is not waited for any longer.

Group and producer are named for the copy, not for the job: of several jobs that read it, one at a time writes it.

The metadata of the committed offsets tells which topics they belong to, by their ids, and the field with the key. Where a
topic was recreated, nothing is copied: offsets of another topic would leave records out, or a new copy would lack the old
records. Nor is anything where another field was the key: a copy keyed by two fields is keyed by none.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition as Place
from confluent_kafka import Consumer, TopicPartition

from streamjobs.core.decoding.keys import key_reader
from streamjobs.core.decoding.records import refusal
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import Record, dead_letter
from streamjobs.errors import ConfigError, SetupError
from streamjobs.kafka import client, groups, patches, reader, timeouts, topics
from streamjobs.kafka.authorization import missing_rights
from streamjobs.kafka.patches import decompression
from streamjobs.kafka.topic_id import topic_ids
from streamjobs.maintenance import changelog_edit
from streamjobs.maintenance.rekey.writer import METADATA_EVERY_MS, InTimeOrder, Topics, Writer
from streamjobs.schema_registry.ready_now import ready_now
from streamjobs.settings.sections import Settings
from streamjobs.worker.changelog import CLOSE_WITHIN, KEEP_ALIVE
from streamjobs.worker.outbox import Fields

TELL_EVERY = 5.0  # seconds between two lines of progress
MOST_WAITING = 20_000  # records of all partitions that wait for older ones of another
LEAST_WAITING = 200  # of a partition
WAITS = 10.0  # seconds for a partition that has more to read and gives nothing


class Progress(NamedTuple):
    """Since the start."""

    copied: int
    letters: int
    left: int  # records of the input that are not read yet, markers of transactions among them


def prepare(settings: Settings, letters: str, sinks: Mapping[str, str], partitions: int | None = None) -> Topics:
    """Check everything that a copy needs, and create the topics it writes to where they are missing.

    letters: the job's topic of dead letters; partitions: of a new copy, None: as many as the input has.
    Raises ConfigError for a job without rekeyed = true, SetupError for what is missing at the broker.
    """
    source = settings.source
    if not source.rekeyed:
        what = "set [source] rekeyed = true" if source.key is not None else "set [source] key and rekeyed = true"
        raise ConfigError(f"rekey: {what}; the job then reads the topic {source.base_topic}.by-key, which rekey writes.")
    _, counts = topics.connect(settings.broker, [source.base_topic])
    if source.base_topic not in counts:
        raise SetupError(
            f"topic {source.base_topic}: it does not exist, so there is nothing to rekey; correct [source] topic."
        )
    new = topics.create(settings, job_sinks=sinks, partitions=partitions, roles=("input", "dlq"))
    admin, counts = topics.connect(settings.broker, [source.base_topic, source.topic, letters])
    group, roles = settings.source.topic, {source.base_topic: "input", source.topic: "output", letters: "output"}
    who = client.principal(settings.broker)
    if problems := missing_rights(admin, client.for_aiokafka(settings.broker), roles, group, [group], who):
        raise SetupError("\n".join(problems))
    ids = topic_ids(admin, [source.base_topic, source.topic])
    return Topics(
        source.base_topic,
        source.topic,
        letters,
        [one.name for one in new],
        counts[source.base_topic],
        counts[source.topic],
        counts[letters],
        f"source={ids[source.base_topic]} copy={ids[source.topic]} key={quote(source.key or '')}",
    )


def committed(settings: Settings, known: Topics) -> dict[int, int]:
    """The next offset of each partition of the input that has one. Call it once the producer is open.

    Waits until offsets of the last transaction count: a broker answers its commit before that. Raises SetupError where the
    offsets belong to topics that were recreated since, or the broker does not tell.
    """
    asking = {**client.for_confluent(settings.broker), "group.id": settings.source.topic, "enable.auto.commit": False}
    consumer = Consumer({**asking, "isolation.level": "read_committed"})  # never becomes a member
    wanted = [TopicPartition(known.source, number) for number in range(known.source_partitions)]
    try:
        answers = changelog_edit.ask(settings, lambda: consumer.committed(wanted, timeout=timeouts.SETTLED))
    finally:
        consumer.close()
    found: dict[int, int] = {}
    for one in answers:
        if one.error is not None:
            raise SetupError(
                f"group {settings.source.topic}: its offsets cannot be read ({one.error.str()}); start rekey again."
            )
        if one.offset >= 0:
            found[one.partition] = one.offset
    if found:
        _require_same_topics(settings, known)
    return found


def _require_same_topics(settings: Settings, present: Topics) -> None:
    """librdkafka reads beyond the end of metadata, so aiokafka is asked for it."""
    kafka, group = client.for_aiokafka(settings.broker), settings.source.topic
    now = _ids(present.metadata)
    found = changelog_edit.ask(settings, lambda: groups.commits(kafka, group))
    for place, one in found.items():
        before = _ids(one.metadata or "") if place.topic == present.source else {}
        if before.get("key", now.get("key")) != now.get("key"):
            raise SetupError(
                f"topic {present.target}: it is keyed by field {unquote(before['key'])!r}, and [source] key is "
                f"{settings.source.key!r}; one copy has one kind of key. Correct [source] key, or copy the input under "
                "another name first."
            )
        for role, name in (("source", present.source), ("copy", present.target)):
            if before.get(role) and now.get(role) and before[role] != now[role]:
                raise SetupError(
                    f"topic {name}: it was deleted and recreated since 'streamjobs rekey' committed its offsets (expected "
                    f"id {before[role]}, got {now[role]}). To copy {present.source} from its beginning, delete the offsets "
                    f"of group {group} (kafka-consumer-groups.sh --delete-offsets) and start rekey again."
                )


def _ids(metadata: str) -> dict[str, str]:
    """Of the topics, by their role in the copy; and the field with the key."""
    return dict(word.split("=", 1) for word in metadata.split() if "=" in word)


async def copy(
    settings: Settings,
    known: Topics,
    stop: asyncio.Event,
    tell: Callable[[Progress], None],
    warn: Callable[[str], None],
    *,
    schemas: Schemas | None = None,
    once: bool = False,
) -> Progress:
    """Copy until `stop` is set, or with `once` until the end that the input has now.

    tell: takes progress every few seconds; warn: takes a sentence about records that were lost, and new partitions.
    schemas: of a format that has them.

    Raises FencedError where another one took over, DeliveryError where the broker refuses writes, SetupError where it does
    not answer or the input is not the one that was copied.
    """
    patches.apply()
    decompression.set_limit(settings.source.max_bytes)
    changelog_edit.quiet()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # as in `changelog_edit`
    writer = Writer(settings, known)
    consumer = reader.consumer_of(settings.broker, metadata_max_age_ms=METADATA_EVERY_MS)
    try:
        await writer.open()
        starts = await asyncio.to_thread(committed, settings, known)
        await consumer.start()
        return await _Copy(settings, schemas, known, consumer, writer, starts, warn).run(stop, tell, once)
    except KafkaError as error:
        raise await asyncio.to_thread(client.unanswered, settings.broker, error) from None
    finally:
        await writer.close()
        with suppress(Exception):
            await asyncio.wait_for(consumer.stop(), CLOSE_WITHIN)


class _Copy:
    def __init__(
        self,
        settings: Settings,
        schemas: Schemas | None,
        known: Topics,
        consumer: Any,
        writer: Writer,
        starts: Mapping[int, int],
        warn: Callable[[str], None],
    ) -> None:
        self.settings, self.known, self.consumer, self.writer, self.warn = settings, known, consumer, writer, warn
        self._expected: dict[int, int] = {}  # offset of each partition's next record
        self.next = dict(starts)  # offset of each partition
        self.partitions = known.source_partitions
        self.copied = self.letters = 0
        self._waiting = InTimeOrder()
        self._gave: dict[int, float] = {}  # time.monotonic() at which each partition last gave something, or had nothing
        self._pending = 0  # records of the open transaction
        self._since = 0.0  # time.monotonic() of its first one
        self._all_at = time.monotonic()  # of the last commit of all offsets
        self._schemas, self._keyed = schemas, key_reader(settings.source, schemas)

    async def run(self, stop: asyncio.Event, tell: Callable[[Progress], None], once: bool) -> Progress:
        await self._assign()
        ends = await self.consumer.end_offsets([Place(self.known.source, number) for number in range(self.partitions)])
        at_once = min(reader.MAX_AT_ONCE, self.settings.state.checkpoint_records)
        logged_at, logged = time.monotonic(), 0
        while not stop.is_set():
            polled = await self.consumer.getmany(*self._with_room(), timeout_ms=reader.POLL_MS, max_records=at_once)
            for place, records in ((place, records) for place, records in polled.items() if records):
                await self._arrived(place.partition, records)
            if records := self._waiting.take(self._unread(ends)):
                await self._copy(records)
            if (self._pending and self._due()) or time.monotonic() - self._all_at > KEEP_ALIVE:
                await self._commit()
            if once and all(self._position(place.partition) >= end for place, end in ends.items()):
                break
            if time.monotonic() - logged_at > TELL_EVERY and logged < self.copied + self.letters:
                logged_at, logged = time.monotonic(), self.copied + self.letters
                tell(self.progress())
            await self._take_new_partitions()
        if self._pending:
            await self._commit()
        return self.progress()

    def progress(self) -> Progress:
        """Ends are those that the newest fetches reported."""
        places = [Place(self.known.source, number) for number in range(self.partitions)]
        left = [(self.consumer.highwater(place) or 0) - self._position(place.partition) for place in places]
        return Progress(self.copied, self.letters, sum(max(0, one) for one in left))

    async def _assign(self) -> None:
        """Continue behind what is committed, else at the first record. Raises SetupError for offsets behind the end."""
        places = [Place(self.known.source, number) for number in range(self.partitions)]
        self.consumer.assign(places)
        self._waiting.clear()  # it is read again
        first, ends = await self.consumer.beginning_offsets(places), await self.consumer.end_offsets(places)
        for place in places:
            start = self.next.get(place.partition, first[place])
            if start > ends[place]:
                raise SetupError(
                    f"topic {place.topic}[{place.partition}]: rekey has copied it up to offset {start}, but it ends at "
                    f"{ends[place]}; it was deleted or recreated. Restore it, or delete the offsets of group "
                    f"{self.known.target} to copy it from its beginning."
                )
            self._warn_of_deleted(place.partition, start, first[place])
            self.next[place.partition] = max(start, first[place])
            self.consumer.seek(place, self.next[place.partition])

    def _position(self, number: int) -> int:
        """The offset behind what was copied."""
        first = self._waiting.first(number)
        return max(self.next[number], self._read(number)) if first is None else first

    def _read(self, number: int) -> int:
        return reader.position_of(self.consumer, Place(self.known.source, number))

    def _with_room(self) -> list[Place]:
        """Partitions to read from; one of those that others wait for is always among them."""
        most = max(LEAST_WAITING, MOST_WAITING // self.partitions)
        numbers = [number for number in range(self.partitions) if self._waiting.count(number) < most]
        return [Place(self.known.source, number) for number in numbers]

    def _unread(self, ends: Mapping[Place, int]) -> list[int]:
        """Partitions with more to read, which may be older than what the others gave; not those that give nothing."""
        now, unread = time.monotonic(), []
        for number in range(self.partitions):
            place = Place(self.known.source, number)
            stable = self.consumer.last_stable_offset(place)
            end = max(ends.get(place, 0), self.consumer.highwater(place) or 0 if stable in (None, -1) else stable)
            has_more = self._read(number) < end
            if not has_more or self._waiting.count(number):
                self._gave[number] = now
            if has_more and now - self._gave.setdefault(number, now) < WAITS:
                unread.append(number)
        return unread

    async def _take_new_partitions(self) -> None:
        there = len(self.consumer.partitions_for_topic(self.known.source) or ())
        if there > self.partitions:
            if self._pending:
                await self._commit()
            self.warn(f"topic {self.known.source}: it has {there} partitions now, {self.partitions} before")
            self.partitions = there
            await self._assign()

    def _due(self) -> bool:
        state, every, waited = self.settings.state, self.settings.checkpoint, time.monotonic() - self._since
        full = self._pending >= state.checkpoint_records or self.writer.bytes >= state.checkpoint_bytes
        return full or waited >= every

    def _warn_of_deleted(self, number: int, expected: int, first: int) -> None:
        if first > expected:
            self.warn(
                f"topic {self.known.source}[{number}]: {first - expected:,} records were deleted before they were rekeyed; "
                "raise its retention.ms"
            )

    async def _arrived(self, number: int, records: Sequence[Record]) -> None:
        expected = self._expected.get(number, records[0].offset)
        if records[0].offset > expected:  # markers and compacted records leave gaps too: those are not a loss
            place = Place(self.known.source, number)
            self._warn_of_deleted(number, expected, (await self.consumer.beginning_offsets([place]))[place])
        self._expected[number] = records[-1].offset + 1
        self._waiting.add(number, records)

    async def _copy(self, records: Sequence[Record]) -> None:
        """Hand the copies, or the dead letters, to the producer."""
        if self._schemas is not None:
            records = await asyncio.to_thread(ready_now, self.settings, self._schemas, records)
        by_partition: dict[int, list[Fields]] = {}
        letters: dict[int, list[Fields]] = {}
        for record in records:
            one = self._keyed(record)
            problem = refusal(one, self.settings.source)
            if problem is not None:
                place = record.partition % self.known.letters_partitions
                letters.setdefault(place, []).append(dead_letter(one, problem))
            else:
                assert one.key is not None
                fields = ("", one.key, one.value, one.timestamp, list(one.headers))
                by_partition.setdefault(self.writer.place(one.key), []).append(fields)
        if not self._pending:
            self._since = time.monotonic()
        for partition, copies in by_partition.items():
            await self.writer.send(self.known.target, partition, copies)
        for partition, refused in letters.items():
            await self.writer.send(self.known.letters, partition, refused)
        count = sum(map(len, letters.values()))
        self._pending += len(records)
        self.copied += len(records) - count
        self.letters += count

    async def _commit(self) -> None:
        moved, now = {number: self._position(number) for number in range(self.partitions)}, time.monotonic()
        if now - self._all_at > KEEP_ALIVE:  # the broker forgets idle offsets and an idle transactional id after 7 days
            changed, self._all_at = moved, now
        else:
            changed = {number: offset for number, offset in moved.items() if offset > self.next[number]}
        await self.writer.commit(changed)
        self.next |= changed
        self._pending = 0
