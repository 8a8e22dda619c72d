"""Puts all states of a copy into a changelog, whatever its number of partitions.

A state belongs to the partition that its key's records come in. With as many partitions as in the copy, that is the one it
had; with another number, the producers' partitioner tells. A state in another partition than in the copy, or of another
input topic, has applied none of the records there, so it comes without the offsets that the copy has.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from streamjobs.core.job import Job
from streamjobs.core.partitioners import MOST_ELSEWHERE, PARTITIONERS, misplaced
from streamjobs.errors import ConfigError
from streamjobs.maintenance.copies import Copy, Entry, printable
from streamjobs.maintenance.renew import NOTHING, offsets_of, restored_snapshot

KEEP = "keep"  # instead of a partitioner: the partitions of the copy

Counted = Callable[[Iterable[Entry], str], Iterable[Entry]]


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
