"""Moves the states of keys to the partitions that their producers use since the input has grown.

What holds before: the input had `before` partitions and has more now, a multiple of that, so keys move to new partitions
only. The group's commits of the old partitions are marked with `before` (`kafka.layout`): no worker applies anything from
the new ones, and `run --drain` applies the old ones to their ends. So a moving key's records in its old partition are
applied before those in its new one, as its producer sent them.

1. No worker runs; the producers of all partitions are opened, which fences the previous writer and ends what it left open.
   The group's commits are read after that.
   Commits of old partitions that an earlier release left without a mark get the mark of the old number.
2. The keys of the old partitions are read, and those of the first records in the new ones. The producers' partitioner must
   put each of them where it is.
3. The old partitions hold no record of a moving key that is not applied yet; otherwise nothing is written.
4. New partitions: each gets a copy of the states that move there, without offsets: nothing of this partition is applied.
   A key with a state that has ended in its old partition since an earlier attempt gets a tombstone.
5. New partitions: offset 0 is committed with the mark of the new number, in a transaction after its copies.
6. Old partitions, one after the other: once more as step 3; then one transaction with a tombstone for every key that has
   moved, and the partition's offset with the mark of the new number.

Workers start when every commit has the new mark, so the transaction of the last old partition is the moment from which the
states count where they are now. Crashes, each mended by running it again:

- before 4, or in it: the old partitions have every state, and `run --drain` may still run. Copies are written again.
- between 4 and 6: the same. Copies are never read before the end, and a newer state replaces an older copy.
- in 6: an old partition has either all of its moving keys and the old mark, or none and the new one. One with the new mark
  is left alone from here on, by `run --drain` too; its keys' only states are those in the new partitions.
- after 6: nothing is left to do, and it reports it.

A worker that starts meanwhile finds an old mark and ends. It fences the producers of its partitions, so this ends too.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from streamjobs.core.decoding.keys import each_keyed
from streamjobs.core.messages import Stored
from streamjobs.core.partitioners import MOST_ELSEWHERE, PARTITIONERS, Partitioner, misplaced
from streamjobs.core.state import snapshot
from streamjobs.errors import ConfigError, SetupError, SnapshotError
from streamjobs.kafka import client, layout, preflight, reader, topics
from streamjobs.kafka.topic_id import Origin, newest_input, require_same_input
from streamjobs.maintenance import changelog_edit
from streamjobs.maintenance.changelog_edit import Change
from streamjobs.maintenance.grow import await_marks, commit_marked
from streamjobs.maintenance.renew import without_offsets
from streamjobs.maintenance.scan import newest_by_key
from streamjobs.settings.sections import Settings
from streamjobs.worker.changelog import Changelog
from streamjobs.worker.failures import FencedError

SAMPLED = 20_000  # most records of the new partitions that are read to find the partitioner
CHUNK_BYTES = 8 << 20  # of copies in one transaction


class Plan(NamedTuple):
    """What moves. Counts of keys are of the partitions with states that have not moved yet."""

    before: int
    partitions: int
    partitioner: str  # "" where none is known, with start_over
    keys: int
    moves: dict[tuple[int, int], int]  # (old partition, new one) -> keys
    elsewhere: int  # keys that are not where the partitioner puts them

    @property
    def moving(self) -> int:
        return sum(self.moves.values())


def repartition(
    settings: Settings, *, partitioner: str | None = None, start_over: bool = False, dry_run: bool = False
) -> Plan | None:
    """Move the states, or with `start_over` leave them; None where nothing is pending.

    partitioner: the producers', None: the one that explains where the keys are. dry_run: check and count only.
    Raises SetupError where a worker runs, records have to be applied first, or the broker does not answer; ConfigError where
    the partitioner is unknown or does not explain where the keys are; DeliveryError where the broker refuses writes, and
    FencedError where a worker took over.
    """
    partitions = _same_count_everywhere(settings)
    pending = _pending(settings, partitions)
    if pending is None:
        return None
    if partitions % pending.before and not start_over:
        raise ConfigError(
            f"topic {settings.source.topic} (input): grew from {pending.before} to {partitions} partitions, which is not a "
            "multiple: keys also move between the old partitions, which may have applied newer records. "
            "Nothing was written; let keys that move start over with --start-over."
        )
    if dry_run:
        changelog_edit.require_changeable(settings)
        return _Work(settings, partitions, pending, partitioner, start_over).plan()
    changelog_edit.begin(settings)
    pending = _pending(settings, partitions)  # again: a killed command's last commit may not have been visible before
    if pending is None:
        return None
    return asyncio.run(_Work(settings, partitions, pending, partitioner, start_over).run())


def _pending(settings: Settings, partitions: int) -> layout.Growth | None:
    return layout.growth(changelog_edit.commits(settings, range(partitions)), partitions)


def _same_count_everywhere(settings: Settings) -> int:
    """The input's partitions. Raises SetupError unless the changelog has as many."""
    _, counts = topics.connect(settings.broker, [settings.source.topic, topics.changelog(settings)])
    for name in (settings.source.topic, topics.changelog(settings)):
        if name not in counts:
            raise SetupError(f"topic {name}: it does not exist; create it with 'streamjobs topics create'.")
    partitions, held = counts[settings.source.topic], counts[topics.changelog(settings)]
    if held < partitions:
        raise SetupError(layout.grown(settings.source.topic, partitions, {topics.changelog(settings): held}))
    return partitions


def _unknown(key: bytes, partitions: int) -> int:
    """No partitioner: no states show it, or keys start over."""
    return -1


class _Work:
    def __init__(
        self, settings: Settings, partitions: int, pending: layout.Growth, partitioner: str | None, start_over: bool
    ) -> None:
        self.settings, self.partitions, self.pending = settings, partitions, pending
        self.partitioner, self.start_over = partitioner, start_over
        self.changelog = topics.changelog(settings)
        present = preflight.origin_of(settings, changelog_edit.admin_of(settings))
        self.origin = present._replace(life=preflight.kept_life(settings))
        self.choose: Partitioner = _unknown

    # Reading.

    def plan(self) -> Plan:
        """Steps 2 and 3. Raises ConfigError and SetupError."""
        before, waiting = self.pending
        keys: dict[int, list[bytes]] = {
            number: list(self._newest(number, lambda record: None)) for number in sorted(waiting)
        }
        total = sum(map(len, keys.values()))
        name, elsewhere = self._chosen(keys, total)
        moves: dict[tuple[int, int], int] = {}
        if name:
            self.choose = PARTITIONERS[name]
            for number, held in keys.items():
                for target in map(self._target, held, [number] * len(held)):
                    if target != number:
                        moves[number, target] = moves.get((number, target), 0) + 1
        plan = Plan(before, self.partitions, name, total, dict(sorted(moves.items())), elsewhere)
        new = [self._copies(number) for number in range(before, self.partitions)]
        copied, learned = sum(len(copies) for copies, _ in new), sum(count for _, count in new)
        if self.start_over and copied:
            raise ConfigError(
                f"state repartition: an earlier run has copied {copied:,} states, so keys cannot start over now; run it "
                "without --start-over."
            )
        if learned and not self.start_over:
            raise SetupError(
                f"topic {self.changelog}: {learned:,} states in partitions from {before} on have learned from their own "
                "records, so workers have processed these partitions; nothing was written. If its commits were lost, "
                "write them again with --start-over."
            )
        if not self.start_over:
            self._require_applied(waiting)
        return plan

    def _copies(self, target: int) -> tuple[set[bytes], int]:
        """Of a new partition: keys with copied states, and the number of states that have learned there."""

        def is_copy(record: Stored) -> bool:
            try:
                return not snapshot.decode(record.value or b"").offsets
            except SnapshotError:
                return True

        held = self._newest(target, is_copy)
        copies = {key for key, copied in held.items() if copied}
        return copies, len(held) - len(copies)

    def _newest(self, number: int, keep: Callable[[Stored], Any]) -> dict[bytes, Any]:
        """What `keep` makes of every key's newest record in a partition of the changelog.

        Raises SetupError, and SnapshotError for a record that no one can read.
        """
        learned_from: Origin | None = None

        def noted() -> Iterator[Stored]:
            nonlocal learned_from
            for record in map(reader.readable, reader.read(self.settings.broker, self.changelog, {number: (0, None)})):
                learned_from = newest_input([record.headers], learned_from)
                yield record

        newest = newest_by_key(noted(), keep)
        require_same_input(self.settings.job.name, self.origin, learned_from or Origin())
        return {key: kept for (_, key), kept in newest.items()}

    def _chosen(self, keys: Mapping[int, Sequence[bytes]], total: int) -> tuple[str, int]:
        """The partitioner that explains where the keys are, and how many keys it does not explain."""
        if not total and not self.partitioner:
            return "", 0
        tried, new = [self.partitioner] if self.partitioner else list(PARTITIONERS), self._seen_in_new()
        fitting, found = [], []
        for name in tried:
            wrong = misplaced(PARTITIONERS[name], keys, self.pending.before)
            wrong_in_new = misplaced(PARTITIONERS[name], new, self.partitions)
            in_new = sum(map(len, new.values()))
            found.append(f"{name} {total - wrong:,} and {in_new - wrong_in_new:,}")
            if wrong <= MOST_ELSEWHERE * total and wrong_in_new <= MOST_ELSEWHERE * in_new:
                fitting.append((name, wrong))
        if len(fitting) == 1:
            return fitting[0]
        if self.start_over:
            return "", 0
        explained = (
            f"{total:,} keys in the {self.pending.before} old partitions and {in_new:,} in the new ones (each one explains: "
            f"{'; '.join(found)})"
        )
        if fitting:
            raise ConfigError(
                f"state repartition: several partitioners explain {explained}. Nothing was written; name the producers' one "
                "with --partitioner."
            )
        raise ConfigError(
            f"state repartition: no partitioner explains {explained}. Nothing was written; name the producers' one with "
            "--partitioner, or let keys that move start over with --start-over."
        )

    def _seen_in_new(self) -> dict[int, set[bytes]]:
        """The keys of the first records in the new partitions."""
        ranges = {number: (0, None) for number in range(self.pending.before, self.partitions)}
        keys: dict[int, set[bytes]] = {number: set() for number in ranges}
        settings = self.settings
        records = reader.read(settings.broker, settings.source.topic, ranges, max_bytes=settings.source.max_bytes)
        for record in each_keyed(settings.source, islice(records, SAMPLED)):
            if record.key is not None:
                keys[record.partition].add(record.key)
        records.close()
        return keys

    def _target(self, key: bytes, number: int) -> int:
        """Where a key of this old partition belongs now; keys that were put elsewhere stay."""
        return self.choose(key, self.partitions) if self.choose(key, self.pending.before) == number else number

    def _require_applied(self, numbers: Iterable[int]) -> None:
        """Raises SetupError while old partitions hold records of moving keys that are not applied."""
        start = {number: commit.offset for number, commit in changelog_edit.commits(self.settings, numbers).items()}
        ranges = {number: (start.get(number, 0), None) for number in numbers}
        source, known = self.settings.source, self.choose is not _unknown
        topic, records, keys = source.topic, 0, set[bytes]()
        records_after = reader.read(self.settings.broker, topic, ranges, max_bytes=source.max_bytes)
        for record in each_keyed(source, records_after):
            if record.key is not None and not (known and self._target(record.key, record.partition) == record.partition):
                records += 1
                keys.add(record.key)
        if records:
            raise SetupError(
                f"topic {topic} (input): {records:,} records of {len(keys):,} keys that move are in their old partitions "
                "and not applied yet. Run 'streamjobs run JOB --drain' and repeat the command; if more keep coming, restart "
                "their producers, which have not noticed the new partitions."
            )

    # Writing.

    async def run(self) -> Plan:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # as in `changelog_edit`
        settings, kafka = self.settings, client.for_aiokafka(self.settings.broker)
        writers = {
            number: Changelog(kafka, settings.job.name, self.changelog, number, self.origin)
            for number in range(self.partitions)
        }
        try:
            for writer in writers.values():
                await writer.open()
            await asyncio.to_thread(changelog_edit.require_no_workers, settings)
            await self._mark_old(writers)
            plan = await asyncio.to_thread(self.plan)
            moved = {} if self.start_over else await self._copy(writers)
            await self._commit_new(writers)
            await self._leave(writers, moved)
        except FencedError:
            raise FencedError(
                f"job {settings.job.name}: a worker started meanwhile and took a partition over; no state is lost. Stop it "
                "and repeat the command."
            ) from None
        finally:
            for writer in writers.values():
                await writer.close()
        await asyncio.to_thread(await_marks, settings, {number: {self.partitions} for number in writers})
        return plan

    async def _mark_old(self, writers: Mapping[int, Changelog]) -> None:
        """Without marks in the old partitions, those in the new ones would mean that the job is laid out for all."""
        commits = await asyncio.to_thread(changelog_edit.commits, self.settings, self.pending.waiting)
        for number in sorted(self.pending.waiting):
            commit = commits.get(number, layout.Commit(0, ""))
            if layout.marked(commit.metadata) is None:
                await commit_marked(self.settings, writers[number], commit, self.pending.before)
        old = {number: {self.pending.before} for number in self.pending.waiting}
        await asyncio.to_thread(await_marks, self.settings, old)

    async def _copy(self, writers: Mapping[int, Changelog]) -> dict[int, list[bytes]]:
        """Step 4. Returns the keys that move, by old partition."""
        ended: dict[int, set[bytes]] = {}  # new partition -> copies of an earlier attempt without a state any more
        for target in range(self.pending.before, self.partitions):
            copies, _ = await asyncio.to_thread(self._copies, target)
            ended[target] = {key for key in copies if self.choose(key, self.pending.before) in self.pending.waiting}
        moved: dict[int, list[bytes]] = {}
        for number in sorted(self.pending.waiting):
            states = await asyncio.to_thread(self._moving, number)
            moved[number] = list(states)
            by_target: dict[int, list[bytes]] = {}
            for key in states:
                by_target.setdefault(self._target(key, number), []).append(key)
            for target, keys in by_target.items():
                ended[target].difference_update(keys)
                for chunk in _chunks((key, states[key]) for key in keys):
                    await writers[target].write(chunk)
        for target, gone in ended.items():
            if gone:
                await writers[target].write([(key, None) for key in sorted(gone)])
        return moved

    def _moving(self, number: int) -> dict[bytes, bytes]:
        def value(record: Stored) -> bytes | None:
            return record.value if self._target(record.key or b"", number) != number else None

        return {key: data for key, data in self._newest(number, value).items() if data is not None}

    async def _commit_new(self, writers: Mapping[int, Changelog]) -> None:
        """Step 5."""
        new = range(self.pending.before, self.partitions)
        commits = await asyncio.to_thread(changelog_edit.commits, self.settings, new)
        for number in new:
            commit = commits.get(number, layout.Commit(0, self.origin.metadata))
            await commit_marked(self.settings, writers[number], commit, self.partitions)

    async def _leave(self, writers: Mapping[int, Changelog], moved: Mapping[int, Sequence[bytes]]) -> None:
        """Step 6."""
        for number in sorted(self.pending.waiting):
            if not self.start_over:
                await asyncio.to_thread(self._require_applied, [number])
            commits = await asyncio.to_thread(changelog_edit.commits, self.settings, [number])
            if moved.get(number):
                await writers[number].send([(key, None) for key in moved[number]])
            commit = commits.get(number, layout.Commit(0, ""))
            await commit_marked(self.settings, writers[number], commit, self.partitions)


def _chunks(states: Iterable[tuple[bytes, bytes]]) -> Iterator[list[Change]]:
    """Copies for one transaction each."""
    chunk: list[Change] = []
    size = 0
    for key, data in states:
        chunk.append((key, without_offsets(data) or data))  # a damaged one as it is: the worker that meets it reports it
        size += len(data)
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
