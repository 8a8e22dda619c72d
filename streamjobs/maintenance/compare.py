"""Compares two states of a key field by field, and verifies the snapshots of a whole changelog."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.state.snapshot import Offsets, state_fields
from streamjobs.errors import SnapshotError
from streamjobs.maintenance.copies import Copy, Entry, short_key
from streamjobs.maintenance.renew import offsets_of
from streamjobs.maintenance.summary import decode_entry, with_remedy

EXAMPLES = 3  # keys named for each problem


class Change(NamedTuple):
    stage: str
    name: str
    before: tuple[int, ...]  # shapes
    after: tuple[int, ...]
    largest: float | None  # largest difference of two numbers; None if the shapes differ
    share: float | None  # norm of the difference over the norm before


class Verified(NamedTuple):
    keys: int
    ahead: int  # keys that have applied more than the group has committed; they will skip those records
    problems: list[str]


def changes(job: Job, old: Entry, new: Entry) -> list[Change]:
    """The fields that differ, in the order of the stages; offsets and class names first. Raises SnapshotError."""
    before, after = decode_entry(job, old), decode_entry(job, new)
    differing = []
    if before[2] != after[2]:
        differing.append(Change("offsets", _offsets(before[2]) + " -> " + _offsets(after[2]), (), (), None, None))
    if before[1] != after[1]:
        added = [name for name in after[1] if name not in before[1]]
        differing.append(Change("classes", f"+ {', '.join(added)}", (len(before[1]),), (len(after[1]),), None, None))
    for stage, state in after[0].items():
        for (name, was), (_, now) in zip(state_fields(before[0][stage]), state_fields(state), strict=True):
            a, b = np.asarray(was), np.asarray(now)
            if a.shape != b.shape or a.tobytes() != b.tobytes():
                differing.append(_change(stage, name, a, b))
    return differing


def _change(stage: str, name: str, a: Any, b: Any) -> Change:
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return Change(stage, name, a.shape, b.shape, None, None)
    apart = (b.astype(float) - a.astype(float)).ravel()
    whole = float(np.sqrt((a.astype(float) ** 2).sum()))
    share = float(np.sqrt((apart * apart).sum())) / whole if whole else None
    return Change(stage, name, a.shape, b.shape, float(np.abs(apart).max()), share)


def _offsets(offsets: Offsets) -> str:
    return ", ".join(str(offset) for offset in offsets.values()) or "none"


def verified(
    job: Job, copy: Copy, ends: Mapping[int, int] | None, committed: Mapping[int, int] | None, against: Copy | None
) -> Verified:
    """Whether every snapshot decodes, belongs to the job and its partition, and has applied only input that exists.

    ends: end offsets of the input's partitions; committed: the group's next offsets; both None for a copy in a file.
    against: an older copy; the present states must not be behind it.
    """
    keys_by_problem: dict[str, list[str]] = {}
    ahead = 0
    for entry in copy.entries.values():
        for problem in _problems(job, entry, ends):
            keys_by_problem.setdefault(problem, []).append(_place(entry))
        ahead += _is_ahead(job, entry, committed)
    if against is not None:
        for problem, entry in _behind(copy, against):
            keys_by_problem.setdefault(problem, []).append(_place(entry))
    return Verified(len(copy.entries), ahead, [_sentence(problem, keys) for problem, keys in keys_by_problem.items()])


def _place(entry: Entry) -> str:
    return f"{short_key(entry.key)!r}[{entry.partition}]"


def _sentence(problem: str, keys: list[str]) -> str:
    more = f" and {len(keys) - EXAMPLES:,} more" if len(keys) > EXAMPLES else ""
    return f"{len(keys):,} {'key' if len(keys) == 1 else 'keys'} ({', '.join(keys[:EXAMPLES])}{more}): {problem}"


def _problems(job: Job, entry: Entry, ends: Mapping[int, int] | None) -> Iterator[str]:
    try:
        _, _, offsets = load_snapshot(job, entry.data)
    except SnapshotError as error:
        yield with_remedy(error)
        return
    source = job.settings.source.topic
    for (topic, partition), offset in offsets.items():
        if topic != source:
            yield f"expected offsets of the input {source}, got offsets of {topic}; was [source] topic renamed?"
        elif partition != entry.partition:
            yield f"expected offsets of its own partition, got offsets of partition {partition}."
        elif ends is not None and offset >= ends.get(partition, 0):
            yield (
                f"its last applied offset is beyond the end of {source}[{partition}], {ends.get(partition, 0)}: the topic "
                "was recreated, and its new records would be skipped; use 'streamjobs state forget-offsets'."
            )


def _is_ahead(job: Job, entry: Entry, committed: Mapping[int, int] | None) -> bool:
    applied = (offsets_of(entry) or {}).get((job.settings.source.topic, entry.partition), -1)
    return committed is not None and applied >= committed.get(entry.partition, 0)


def _behind(copy: Copy, against: Copy) -> Iterator[tuple[str, Entry]]:
    for place, old in against.entries.items():
        new = copy.entries.get(place)
        if new is None:
            yield "in the older copy, but not here; idle longer than [state] ttl, or forgotten since?", old
        elif new.offset < old.offset:
            yield "the older copy has a newer snapshot: the changelog has lost records.", old
        elif new.offset == old.offset and new.data != old.data:
            yield "its bytes differ from those in the older copy at the same changelog offset.", old
        elif _has_older_offsets(new, old):
            yield "its last applied offset is behind the one in the older copy: input would be learned twice.", old


def _has_older_offsets(new: Entry, old: Entry) -> bool:
    was, now = offsets_of(old), offsets_of(new)
    if was is None or now is None:
        return False  # `_problems` has a sentence for it
    return any(now.get(place, -1) < offset for place, offset in was.items())
