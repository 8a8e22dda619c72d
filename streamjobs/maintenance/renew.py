"""Makes a key's new snapshot: reset, with a new reference, started from an exported model, or restored; and exports models.

Last applied offsets never go back, so a key learns nothing twice. The exceptions are `without_offsets`, for an input that
was recreated, and `without_lost`, where the broker has lost records of the input that states have learned from.

`place_all` puts the states of a copy into a changelog, whatever its number of partitions. A state belongs to the partition
that its key's records come in. With as many partitions as in the copy, that is the one it had; with another number, the
producers' partitioner tells. A state in another partition than in the copy, or of another input topic, has applied none of
the records there, so it comes without the offsets that the copy has.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from streamjobs.core.job import Job
from streamjobs.core.live.stored import starting_from
from streamjobs.core.partitioners import MOST_ELSEWHERE, PARTITIONERS, misplaced
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import Offsets
from streamjobs.errors import ConfigError, SetupError, SnapshotError
from streamjobs.kafka import client, groups
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.topic_id import PROGRESS, epoch_of, progress_of
from streamjobs.maintenance.copies import Copy, Entry, printable
from streamjobs.maintenance.summary import decode_entry
from streamjobs.settings.sections import Settings

NOTHING: Mapping[int, int] = {}
KEEP = "keep"  # instead of a partitioner: the partitions of the copy

Counted = Callable[[Iterable[Entry], str], Iterable[Entry]]


def offsets_of(entry: Entry | None) -> Offsets | None:
    """Last applied offsets, also of another job's snapshot; {} without an entry, None if its bytes are damaged."""
    if entry is None:
        return {}
    try:
        return snapshot.decode(entry.data).offsets
    except SnapshotError:
        return None


def reset_snapshot(job: Job, entry: Entry) -> bytes | None:
    """A new key's state with the entry's offsets; None, a tombstone, if they cannot be read."""
    offsets = offsets_of(entry)
    return None if offsets is None else job.encode(job.init(entry.key), job.names(), offsets)


def relearned_snapshot(job: Job, entry: Entry) -> bytes:
    """The entry's state with drift stages that begin, so that the rows to come are normal. Raises SnapshotError.

    The state may be one of another [drift]. The rest stays to the last bit. An open alarm stays in the state: the key's next
    row ends it, as learned anew.
    """
    states, names, offsets = decode_entry(job, entry, drift_anew=True)
    begun = job.normal_of(job.fresh(job.seed_of(entry.key)))
    return job.encode(states | begun, names, offsets)


def without_offsets(data: bytes) -> bytes | None:
    """The same state without offsets, to go on with another input's records; None if it is damaged."""
    try:
        return snapshot.encode(snapshot.decode(data)._replace(offsets={}))
    except SnapshotError:
        return None


def exported_model(job: Job, entry: Entry) -> bytes:
    """The model alone, as [state] start_from reads it: no offsets, and a new signal. Raises SnapshotError."""
    states, names, _ = decode_entry(job, entry)
    return job.encode_model(states, names)


def snapshot_from_model(job: Job, model: bytes, key: bytes, present: Entry | None) -> bytes:
    """A new key's state that starts from an exported model, with the present offsets. Raises SnapshotError."""
    started = starting_from(job, model)
    return job.encode(started.init(key), started.names(), offsets_of(present) or {})


def restored_snapshot(
    job: Job,
    saved: Entry,
    key: bytes,
    present: Entry | None,
    partition: int | None = None,
    foreign: Mapping[int, int] = NOTHING,
) -> bytes:
    """A saved state to the last bit, except for offsets: the present ones are kept where they are higher.

    partition: of the job's input, where the state goes: offsets of any other are left out; None: where it was saved.
    foreign: partition -> a saved offset from this one on is of another topic: no record of the present one may be skipped
    for it, see `changelog_edit.foreign_offsets`.
    Raises SnapshotError.
    """
    decode_entry(job, saved)  # refuses what is damaged or another job's
    saved_state, source = snapshot.decode(saved.data), job.settings.source.topic
    applied = offsets_of(present) or {}
    offsets = {place: max(offset, applied.get(place, -1)) for place, offset in saved_state.offsets.items()}
    if partition is not None:
        offsets = {place: offset for place, offset in offsets.items() if place == (source, partition)}
    for number, bound in foreign.items():
        if saved_state.offsets.get((source, number), -1) >= bound:
            offsets.pop((source, number), None)
    if saved.key != key:
        offsets = {}  # what another key has applied does not matter here
    return snapshot.encode(saved_state._replace(offsets=applied | offsets))


class Placed(NamedTuple):
    changes: dict[int, list[tuple[bytes, bytes | None]]]  # by partition: key, snapshot
    beginning: int  # states that had learned from another partition or topic, and have applied nothing where they are now
    foreign: int  # of these, the ones with offsets of another topic of the input's name
    older: list[str]  # keys with several states for one partition: the one that was written last is taken
    elsewhere: int  # states of keys that also have one in another partition of the changelog

    @property
    def states(self) -> int:
        return sum(map(len, self.changes.values()))


def place_all(
    job: Job,
    copy: Copy,
    present: Copy,
    partitions: int,
    partitioner: str | None = None,
    counted: Counted = lambda entries, what: entries,
    foreign: Mapping[int, int] = NOTHING,
) -> Placed:
    """The states of a copy as they go into a changelog with so many partitions.

    present: its states now; offsets that it has are kept where they are higher. counted: passes entries on, and may print
    how many these are. foreign: as of `restored_snapshot`. Raises ConfigError where it is not clear which partition a
    key belongs to, and SnapshotError for a state that is damaged or another job's.
    """
    choose = _chosen(copy, partitions, partitioner)
    newest: dict[tuple[int, bytes], Entry] = {}
    older = []
    for entry in copy.entries.values():
        where = choose(entry), entry.key
        other = newest.get(where)
        if other is not None:
            older.append(printable(entry.key))
        if other is None or entry.timestamp > other.timestamp:
            newest[where] = entry
    held: dict[bytes, set[int]] = {}
    for number, key in present.entries:
        held.setdefault(key, set()).add(number)
    changes: dict[int, list[tuple[bytes, bytes | None]]] = {}
    beginning = of_another = elsewhere = 0
    for entry in counted(newest.values(), "states checked"):
        number = choose(entry)
        data = restored_snapshot(job, entry, entry.key, present.entries.get((number, entry.key)), number, foreign)
        changes.setdefault(number, []).append((entry.key, data))
        applied = (offsets_of(entry) or {}).get((job.settings.source.topic, number))
        of_another += applied is not None and applied >= foreign.get(number, applied + 1)
        beginning += applied is None
        elsewhere += bool(held.get(entry.key, set()) - {number})
    return Placed(dict(sorted(changes.items())), beginning + of_another, of_another, older, elsewhere)


def _chosen(copy: Copy, partitions: int, name: str | None) -> Callable[[Entry], int]:
    before = max([len(copy.ends), *(entry.partition + 1 for entry in copy.entries.values())])
    if name is None and before != partitions:
        raise ConfigError(
            f"the copy is of {before} partitions, {copy.topic} has {partitions} now; name the producers' partitioner with "
            f"--partitioner ({', '.join(PARTITIONERS)}), or '{KEEP}' if each key's records still come in its old partition."
        )
    if name is None or name == KEEP:
        outside = [entry for entry in copy.entries.values() if entry.partition >= partitions]
        if outside:
            raise ConfigError(
                f"key {printable(outside[0].key)!r}: its state was in partition {outside[0].partition}, and there are "
                f"{partitions} now; name the producers' partitioner with --partitioner ({', '.join(PARTITIONERS)})."
            )
        return lambda entry: entry.partition
    if name not in PARTITIONERS:
        raise ConfigError(f"--partitioner: expected one of {', '.join((*PARTITIONERS, KEEP))}, got {name!r}.")
    partitioner = PARTITIONERS[name]
    keys: dict[int, list[bytes]] = {}
    for entry in copy.entries.values():
        keys.setdefault(entry.partition, []).append(entry.key)
    wrong = misplaced(partitioner, keys, before)
    if wrong > MOST_ELSEWHERE * len(copy.entries):
        raise ConfigError(
            f"--partitioner {name}: in the copy, which has {before} partitions, {wrong:,} of {len(copy.entries):,} keys are "
            "not where this partitioner puts them; the producers use another one."
        )
    return lambda entry: partitioner(entry.key, partitions)


def first_lost(settings: Settings, commits: Mapping[int, Commit]) -> dict[int, int]:
    """partition -> the first offset of the records that the group has read and the broker has lost, see `patches.epochs`.

    Raises SetupError if the broker does not tell, or a partition has no leader.
    """
    epochs = {number: epoch_of(one.metadata) for number, one in commits.items()}
    asked = {TopicPartition(settings.source.topic, number): one for number, one in epochs.items() if one is not None}
    try:
        ends = groups.ends_of_epochs(client.for_aiokafka(settings.broker), asked) if asked else {}
    except KafkaError as error:
        raise client.unanswered(settings.broker, error) from None
    if silent := sorted(place.partition for place in asked.keys() - ends.keys()):  # their epoch would be forgotten too
        raise SetupError(
            f"topic {settings.source.topic}{silent}: no leader answers; nothing was changed. Repeat the command later."
        )
    return {place.partition: end for place, end in ends.items() if 0 <= end < progress_of(*commits[place.partition])}


def commit_before(end: int, commit: Commit) -> Commit:
    """The commit that continues with the record that now has offset `end`."""
    return Commit(min(commit.offset, end), f"{PROGRESS}{end}")


def without_lost(entry: Entry, end: int) -> bytes | None:
    """The same state as if its last record were before `end`; None where that is so, or it is damaged."""
    try:
        decoded = snapshot.decode(entry.data)
    except SnapshotError:
        return None
    kept = {
        place: min(offset, end - 1) if place[1] == entry.partition else offset
        for place, offset in decoded.offsets.items()
        if place[1] != entry.partition or end > 0
    }
    return None if kept == decoded.offsets else snapshot.encode(decoded._replace(offsets=kept))
