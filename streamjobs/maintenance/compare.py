"""Two states of a key field by field, and whether a whole changelog can be trusted."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.state import snapshot
from streamjobs.errors import SnapshotError
from streamjobs.maintenance.copies import Copy, Entry, shown
from streamjobs.maintenance.summary import leaves, opened

EXAMPLES = 3  # keys named for each kind of problem


class Change(NamedTuple):
    """A field that differs between two states of a key."""

    stage: str
    name: str
    before: tuple[int, ...]  # shapes
    after: tuple[int, ...]
    largest: float | None  # largest difference of two numbers, where the shapes agree
    share: float | None  # norm of the difference over the norm before


class Verified(NamedTuple):
    keys: int
    ahead: int  # keys that have applied more than the group has committed: they will skip it
    problems: list[str]


def changes(job: Job, old: Entry, new: Entry) -> list[Change]:
    """What differs, in the order of the stages; offsets and class names first. Raises SnapshotError."""
    before, after = opened(job, old), opened(job, new)
    found = []
    if before[2] != after[2]:
        found.append(Change("offsets", _offsets(before[2]) + " -> " + _offsets(after[2]), (), (), None, None))
    if before[1] != after[1]:
        added = [name for name in after[1] if name not in before[1]]
        found.append(Change("classes", f"+ {', '.join(added)}", (len(before[1]),), (len(after[1]),), None, None))
    for stage, state in after[0].items():
        for (name, was), (_, now) in zip(leaves(before[0][stage]), leaves(state), strict=True):
            a, b = np.asarray(was), np.asarray(now)
            if a.shape != b.shape or a.tobytes() != b.tobytes():
                found.append(_change(stage, name, a, b))
    return found


def _change(stage: str, name: str, a: Any, b: Any) -> Change:
    if a.shape != b.shape:
        return Change(stage, name, a.shape, b.shape, None, None)
    apart = (b.astype(float) - a.astype(float)).ravel() if np.isfinite(a).all() and np.isfinite(b).all() else None
    if apart is None:
        return Change(stage, name, a.shape, b.shape, None, None)
    whole = float(np.sqrt((a.astype(float) ** 2).sum()))
    share = float(np.sqrt((apart * apart).sum())) / whole if whole else None
    return Change(stage, name, a.shape, b.shape, float(np.abs(apart).max()), share)


def _offsets(offsets: snapshot.Offsets) -> str:
    return ", ".join(str(offset) for offset in offsets.values()) or "none"


def verified(
    job: Job, copy: Copy, ends: Mapping[int, int] | None, committed: Mapping[int, int] | None, against: Copy | None
) -> Verified:
    """Whether every snapshot decodes, belongs to the job and its partition, and stands on input that exists.

    ends: of the input's partitions, committed: the group's next offsets; both None where only a file is looked at.
    against: an older copy, which the present states must not fall behind.
    """
    kinds: dict[str, list[str]] = {}
    ahead = 0
    for entry in copy.entries.values():
        for kind in _problems(job, entry, ends):
            kinds.setdefault(kind, []).append(_place(entry))
        ahead += _is_ahead(job, entry, committed)
    if against is not None:
        for kind, entry in _behind(copy, against):
            kinds.setdefault(kind, []).append(_place(entry))
    return Verified(len(copy.entries), ahead, [_told(kind, places) for kind, places in kinds.items()])


def _place(entry: Entry) -> str:
    return f"{shown(entry.key)!r}[{entry.partition}]"


def _told(kind: str, places: list[str]) -> str:
    more = f" and {len(places) - EXAMPLES:,} more" if len(places) > EXAMPLES else ""
    return f"{len(places):,} {'key' if len(places) == 1 else 'keys'} ({', '.join(places[:EXAMPLES])}{more}): {kind}"


def _problems(job: Job, entry: Entry, ends: Mapping[int, int] | None) -> Iterator[str]:
    try:
        _, _, offsets = job.decode_snapshot(entry.data)
    except SnapshotError as error:
        yield str(error)
        return
    source = job.settings.source.topic
    for (topic, partition), offset in offsets.items():
        if topic != source:
            yield f"expected offsets of the input {source}, got some of {topic}; was [source] topic renamed?"
        elif partition != entry.partition:
            yield f"expected offsets of its own partition, got some of partition {partition}."
        elif ends is not None and offset >= ends.get(partition, 0):
            yield (
                f"its last applied offset lies beyond the end of {source}[{partition}], {ends.get(partition, 0)}: the topic "
                "was made anew, and its new records would be skipped; see 'state forget-offsets'."
            )


def _is_ahead(job: Job, entry: Entry, committed: Mapping[int, int] | None) -> bool:
    if committed is None:
        return False
    try:
        offsets = snapshot.decode(entry.data).offsets
    except SnapshotError:
        return False
    return offsets.get((job.settings.source.topic, entry.partition), -1) >= committed.get(entry.partition, 0)


def _behind(copy: Copy, against: Copy) -> Iterator[tuple[str, Entry]]:
    for place, old in against.entries.items():
        new = copy.entries.get(place)
        if new is None:
            yield "in the older copy, and not there any more; idle for [state] ttl, or forgotten since?", old
        elif new.offset < old.offset:
            yield "the older copy holds a newer snapshot: the changelog has lost something.", old
        elif new.offset == old.offset and new.data != old.data:
            yield "other bytes than the older copy has at the same changelog offset.", old
        elif _went_back(old, new):
            yield "its last applied offset lies behind the one in the older copy: input would be learned twice.", old


def _went_back(old: Entry, new: Entry) -> bool:
    try:
        was, now = snapshot.decode(old.data).offsets, snapshot.decode(new.data).offsets
    except SnapshotError:
        return False  # told on its own
    return any(now.get(place, -1) < offset for place, offset in was.items())
