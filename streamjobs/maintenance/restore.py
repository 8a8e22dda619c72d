"""Writes local stores back into a changelog that was recreated or has lost its last states; or accepts it as it is.

The group's offsets say which changelog they were committed with. As long as that is not the present one, no worker starts.
Each partition ends with an offset that is committed with the present one, after its states are written. So an interrupted
run can be repeated, and each machine can restore the partitions that its workers had.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.core.job import Job
from streamjobs.core.state import snapshot
from streamjobs.errors import ConfigError, ForeignStateError, SetupError, SnapshotError
from streamjobs.kafka import preflight, topics
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.topic_id import Origin, another_input, changelog_of, life_of, states_of
from streamjobs.maintenance import changelog_edit, scan
from streamjobs.maintenance.copies import Copy, Entry, Place, printable, short_key
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import many
from streamjobs.worker.store import LocalCopy

PIECE_BYTES = 16 << 20  # of one transaction: the broker aborts one that stays open for minutes

OnState = Callable[[str, int, int], None]  # what is done, partition, states of it so far


class Source(NamedTuple):
    """A local store to restore a partition from; None: there is none, as for a partition without a record."""

    copy: LocalCopy | None
    keys: int
    next_offset: int  # of the input: nothing from there on is in the states
    damaged: Sequence[bytes] = ()  # keys


class Done(NamedTuple):
    """A partition that workers can go on with."""

    keys: int
    next_offset: int  # of the input
    reread: int  # records before the offset that was committed
    damaged: Sequence[bytes] = ()  # keys with states that cannot be read, which are written back as they are


class Restored(NamedTuple):
    done: dict[int, Done]
    settled: list[int]  # partitions that needed nothing
    problems: list[str]  # one sentence for each partition that was left as it is


class _Situation(NamedTuple):
    present: Origin
    read_at: dict[int, int]  # end offsets of the changelog
    commits: dict[int, Commit]  # the group's
    first: dict[int, int]  # first offsets of the input

    def origin(self, number: int) -> Origin:
        commit = self.commits.get(number)
        return self.present if commit is None else self.present.kept(commit.metadata)

    def committed(self, number: int, otherwise: int) -> int:
        """The group's next input offset; `otherwise` without one."""
        commit = self.commits.get(number)
        return otherwise if commit is None else commit.offset

    def written(self, number: int) -> int | None:
        """Up to where a commit says that the present changelog has states; None without a commit with it."""
        commit = self.commits.get(number)
        if commit is None or changelog_of(commit.metadata) != self.present.changelog_id:
            return None
        return states_of(commit.metadata)

    def lost(self, number: int, copies: Iterable[LocalCopy] = ()) -> int:
        """How many offsets the changelog has lost, by the group's commit and these local stores.

        So many records go before those that are written to it: a local store reads only what comes after what it holds.
        """
        present = [copy.reached + 1 for copy in copies if copy.marks.get("changelog") == self.present.changelog_id]
        return max(0, max([self.written(number) or 0, *present]) - self.read_at[number])

    @property
    def settled(self) -> list[int]:
        """Partitions with an offset committed with the present changelog, which has what was written."""
        ends = sorted(self.read_at.items())
        return [number for number, end in ends if (written := self.written(number)) is not None and written <= end]

    @property
    def unsettled(self) -> list[int]:
        settled = self.settled
        return [number for number in sorted(self.read_at) if number not in settled]


def _situation(settings: Settings) -> _Situation:
    """Raises SetupError if a worker runs, or the changelog or some of its partitions are missing."""
    changelog_edit.require_no_workers(settings)
    changelog, admin = topics.changelog(settings), changelog_edit.admin_of(settings)
    present = preflight.origin_of(settings, admin)
    if not present.changelog_id:
        raise SetupError(
            f"topic {changelog}: missing, or the broker does not report its id; 'streamjobs topics create' creates it."
        )
    read_at = changelog_edit.settled_ends(settings)
    commits = preflight.commits_of(settings)
    if lacking := sorted(commits.keys() - read_at.keys()):
        raise SetupError(
            f"topic {changelog}: it has {many(len(read_at), 'partition')}, and this job has states in partition "
            f"{lacking[-1]} too. Delete the topic, run 'streamjobs topics create JOB', and repeat the command."
        )
    return _Situation(
        present._replace(life=life_of(one.metadata for one in commits.values())),
        read_at,
        dict(commits),
        changelog_edit.first_offsets(settings, settings.source.topic),
    )


def accept(job: Job) -> Restored:
    """Let workers go on with what the changelog holds; keys that are not in it start over.

    Raises SetupError if a worker runs, FencedError if one started meanwhile.
    """
    situation, held = _situation(job.settings), scan.newest_snapshots(job.settings, job.fingerprint).entries
    keys = {number: sum(entry.partition == number for entry in held.values()) for number in situation.unsettled}
    offsets = {number: situation.committed(number, situation.first.get(number, 0)) for number in situation.unsettled}
    lost = {number: situation.lost(number) for number in offsets}
    states: dict[int, list[tuple[bytes, bytes | None]]] = {
        number: [(one.key, one.data) for one in held.values() if one.partition == number and count]
        for number, count in lost.items()
    }
    changelog_edit.write(
        job.settings,
        {number: [changelog_edit.OF_NO_KEY] * count + states[number] for number, count in lost.items()},
        situation.read_at,
        offsets=offsets,
        origins={number: situation.origin(number) for number in offsets},
        former=situation.commits,
    )
    done = {number: Done(keys[number], offset, 0) for number, offset in offsets.items()}
    return Restored(done, situation.settled, [])


def from_local(
    job: Job, folders: Iterable[Path], *, reread: bool = False, accept: bool = False, on_state: OnState
) -> Restored:
    """Write the states of local stores back, of each partition from the store that is furthest.

    A store holds the states of all its keys as of one input offset, so the input has to go on from there or before. Where
    the changelog has a key's newer state, the store's replaces it, and the key learns the records in between again.
    A key's damaged state goes back as it is: workers set its key aside, and the other keys go on.
    folders: [state] directories. reread: let the input go back to where a store ends, if the committed offset is beyond.
    accept: with reread, also if the input has deleted records that the store lacks; no key learns them.
    Raises SetupError if a worker runs or the store is missing, ConfigError for stores of another input, StoreError for
    damaged ones, FencedError if a worker started meanwhile.
    """
    situation = _situation(job.settings)
    newest = {(record.partition, record.key): record.value for record in scan.changelog_records(job.settings)}
    paths = [folder / job.settings.job.name for folder in folders]
    copies = [(number, copy) for path in paths for number, copy in LocalCopy.all_below(path)]
    try:
        if not copies:
            raise SetupError(f"{', '.join(map(str, paths))}: no local store; give the workers' [state] directories.")
        by_partition = {number: [copy for partition, copy in copies if partition == number] for number, _ in copies}
        return _written_back(job, situation, newest, by_partition, reread, accept, on_state)
    finally:
        for _, copy in copies:
            copy.close()


def of_local_stores(settings: Settings, folders: Iterable[Path], key: str) -> Copy:
    """The states of a key in local stores, of each partition that of the store that is furthest.

    Raises StoreError for a store that is damaged or in use.
    """
    furthest: dict[Place, Entry] = {}
    inputs: dict[int, Origin] = {}
    paths, exact = [folder / settings.job.name for folder in folders], key.encode("utf-8", "surrogateescape")
    for number, copy in (one for path in paths for one in LocalCopy.all_below(path)):
        for name, data in copy.items():
            known = furthest.get((number, name))
            if (name == exact or printable(name) == key) and (known is None or known.offset < copy.reached):
                furthest[number, name] = Entry(number, name, data, copy.reached, 0)
                inputs[number] = Origin.of(copy.marks)
        copy.close()
    known_inputs = {number: one for number, one in inputs.items() if one.input_id}
    return Copy(settings.job.name, f"local stores in {', '.join(map(str, paths))}", "", 0, {}, furthest, known_inputs)


def _written_back(
    job: Job,
    situation: _Situation,
    newest: Mapping[Any, bytes | None],
    copies: Mapping[int, list[LocalCopy]],
    reread: bool,
    accept: bool,
    on_state: OnState,
) -> Restored:
    ahead = {number for number in situation.settled if situation.lost(number, copies.get(number, ()))}
    settled, problems = [number for number in situation.settled if number not in ahead], list[str]()
    sources: dict[int, Source] = {}
    done: dict[int, Done] = {}
    for number in sorted({*situation.unsettled, *ahead}):
        # An empty store says as little as none: its worker may have ended before a state was due.
        mine = [copy for copy in copies.get(number, ()) if copy.marks or copy.reached >= 0]
        former = [copy for copy in mine if _is_former(copy, situation, number)]
        if mine and not former:  # the changelog is the one that the store follows
            if (written := situation.written(number) or 0) > (end := situation.read_at[number]):
                problems.append(
                    f"partition {number}: its states were written up to offset {written}, the changelog ends at {end}, and "
                    f"the local store {mine[0].path} goes no further; nothing was changed. Restore it from the [state] "
                    "directory of the worker that had it last; without it, 'streamjobs state restore JOB --accept' "
                    "continues with the states in the changelog."
                )
            else:
                settled.append(number)
            continue
        candidates = [_source(job, number, copy, on_state) for copy in former]
        source = max(candidates, key=lambda one: one.next_offset, default=Source(None, 0, 0))
        committed = situation.committed(number, source.next_offset)
        behind = max(0, committed - source.next_offset)
        problem = _problem(number, source, behind, situation.first.get(number, 0), reread, accept)
        if problem is not None:
            problems.append(problem)
            continue
        sources[number] = source
        done[number] = Done(source.keys, committed - behind, behind, source.damaged)
    changes = {
        number: chain(
            [changelog_edit.OF_NO_KEY] * situation.lost(number, copies.get(number, ())),
            _states(source.copy, number, newest, on_state),
        )
        for number, source in sources.items()
    }
    origins = {number: _origin(source, situation.origin(number)) for number, source in sources.items()}
    offsets = {number: one.next_offset for number, one in done.items()}
    if done:
        changelog_edit.write(
            job.settings,
            changes,
            situation.read_at,
            offsets=offsets,
            origins=origins,
            former=situation.commits,
            piece_bytes=PIECE_BYTES,
        )
    return Restored(done, settled, problems)


def _is_former(copy: LocalCopy, situation: _Situation, number: int) -> bool:
    """Whether the store follows another changelog than the present one, or has what the present one lacks."""
    known = copy.marks.get("changelog", "")  # "" in a store of an older release
    return known not in ("", situation.present.changelog_id) or copy.reached >= situation.read_at[number]


def _origin(source: Source, present: Origin) -> Origin:
    """Of the records: the input that the store's states have learned from, which may have been recreated too."""
    if source.copy is None:
        return present
    former = Origin.of(source.copy.marks)
    return present._replace(input_id=former.input_id, life=present.life or former.life)


def _source(job: Job, number: int, copy: LocalCopy, on_state: OnState) -> Source:
    """Reads the whole store. Raises ForeignStateError for a snapshot of another release, ConfigError for another input's."""
    place, keys, damaged, ends = (job.settings.source.topic, number), 0, [], list[int]()
    names = {Origin.of(copy.marks).topic} - {""}
    for keys, (key, data) in enumerate(copy.items(), 1):
        try:
            offsets = snapshot.decode(data).offsets
        except ForeignStateError as error:
            raise ForeignStateError(f"local store {copy.path}, key {short_key(key)!r}: {error}") from None
        except SnapshotError:
            damaged.append(key)
            continue
        names.update(topic for topic, _ in offsets)
        ends.append(offsets.get(place, -1) + 1)
        on_state("checked", number, keys)
    if others := names - {place[0]}:
        raise ConfigError(another_input(job.settings.job.name, min(others), place[0]))
    # Without the mark a recovery has filled it, and no worker has begun: states with a pace are as of their own offsets.
    of_all = (min if job.settings.state.replay else max)(ends, default=0)
    return Source(copy, keys, int(copy.marks.get("replay", of_all)), damaged)


def _problem(number: int, source: Source, behind: int, first: int, reread: bool, accept: bool) -> str | None:
    """Why the partition cannot be restored from this store, which ends so many records behind the committed offset."""
    if not behind:
        return None
    store = (
        "this machine has no local store of it" if source.copy is None else f"the local store {source.copy.path} is behind"
    )
    ends = f"partition {number}: {store}, {many(behind, 'record')} before the committed input offset"
    if not reread:
        return (
            f"{ends}; nothing was changed. Restore it from the [state] directory of the worker that had it last, or let its "
            "input be read again from there with --reread."
        )
    if source.next_offset < first and not accept:
        return (
            f"{ends}, and the input has deleted {first - source.next_offset:,} of them; nothing was changed. Restore it "
            "from another [state] directory, or add --accept: its keys keep these states and do not learn what was deleted."
        )
    return None


def _states(
    copy: LocalCopy | None, number: int, newest: Mapping[Any, bytes | None], on_state: OnState
) -> Iterator[tuple[bytes, bytes]]:
    """All states of the store but those that were ended since, such as by `state forget`."""
    for count, (key, data) in enumerate(copy.items() if copy is not None else (), 1):
        if newest.get((number, key), data) is not None:
            yield key, data
        on_state("written", number, count)
