"""Which keys of a partition are silent: no sample for so long, by the event time of the other keys' samples.

The partition's clock follows its newest event time, but from one sample to the next it advances by half of the stated time
at most. Therefore, if all keys pause together, as at night, the first sample after the pause makes no key silent. A key is
heard of when it sends a sample that is newer than all of its samples before. It stores the clock of this moment, and falls
silent when the clock has advanced by the stated time.

After a crash all of this follows from the stored states, which are as of different records, and from one commit with R, P
(`worker.pace`) and the clock at R. From R on every sample moves the clock, also one that its key's state has applied. So
the clock at each record, and what a key stores there, have the same bits as before the crash. Keys that are behind the clock
by the stated time have alarmed before. What a crash leaves:
1. before the states are written: R, P and the clock are the old ones. A key that is silent from R to P needs no other state.
2. after the states, before the commit (at_least_once): their keys may be ahead of the clock until it reaches the newest of
   them. They raise nothing until then: what they raised was acknowledged before the states were written. The other keys
   raise the same alarms again.
3. after the commit, before or after the local store: as 1, with the new R.
A commit may lack the clock: it is of an earlier release, of a tool, of a job without `silent`, or not there yet, or R was
moved because records were deleted. Then the clock is the largest stored one, and the first checkpoint writes all states.
`tests/worker/test_silent_at_pace.py` tries the crashes.

The commit also has what alarms up to P have reported (`Silence.reported`): up to which clock keys are silent, and since
when a group is open. Until P this does not change, so it holds if the job file was changed. From P on the present settings
decide.

A key that is expected is missing when the clock, which begins with the partition's first sample, has come to the stated time
without a sample of the key. It then gets a state that tells so, in which its newest sample is of -inf. All states are
written with it, so no key became missing from R to P, and a key that the job file expects since then is missing from P on.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from streamjobs.core.messages import Record
from streamjobs.core.state import held_stages, snapshot
from streamjobs.errors import SnapshotError
from streamjobs.stages.events.silent import Alarmed, Grouped, Heard, SilentKeys
from streamjobs.stages.names import GROUP, SILENT
from streamjobs.stages.stage import JobStage, Shape

LEAST = 5  # keys of a group
AT_ONCE = 1000  # snapshots read together
MOST_PAUSE = 0.5  # of the stated time, that a pause of the whole partition counts for


class Turn(NamedTuple):
    """A group opens, or ends."""

    start: float
    over: bool
    keys: list[bytes]  # that alarmed in it


class Group:
    """Keys of a partition that alarm together: `share` of all its known keys, `within` so many seconds of its clock.

    A group opens with the alarm that makes it large enough. It ends when fewer keys have alarmed within the time. Each key
    stores the clock of its newest alarm, and the group to which the alarm belongs. Therefore the open group follows from the
    stored states of all keys: the number of known keys only grows and only alarms add to a group, so only alarms open one.
    """

    def __init__(self, share: float, within: float) -> None:
        self.share, self.within, self.start = share, within, 0.0  # start: of the group that is open; 0: none is
        self.alarmed: dict[bytes, Alarmed] = {}  # the newest alarm of each key
        self.changed: dict[bytes, None] = {}  # keys with states to be written
        self.depends = False  # the group now depends on more than the newest alarm of each key before, see `alarm`
        self._recent: deque[tuple[float, bytes]] = deque()  # alarms within the time, by clock
        self._members: dict[bytes, float] = {}

    def meet(self, stored: Mapping[bytes, Alarmed], clock: float, known: int) -> None:
        """The stored alarms of keys, before anything else; again where the clock has passed records without an alarm."""
        self.start = 0.0
        self.alarmed |= stored
        self._recent = deque(sorted((one.clock, key) for key, one in self.alarmed.items()))
        self._members = {key: at for at, key in self._recent}
        self._forget(clock)
        if len(self._members) >= self._least(known):
            self.start = max((one.clock, one.start) for one in map(self.alarmed.__getitem__, self._members))[1]

    def alarm(self, key: bytes, clock: float, time: float, known: int) -> Turn | None:
        """A key alarms at this clock and event time of the partition; known: keys of the partition.

        A state has its key's newest alarm alone. Where the alarm before still counts, or the group is open, the states as of
        different records do not say what the group was: `depends`.
        """
        self._forget(clock)
        self.depends |= key in self._members or bool(self.start)
        self._members[key] = clock
        self._recent.append((clock, key))
        self.alarmed[key] = Alarmed(clock, self.start)
        self.changed[key] = None
        if self.start or len(self._members) < self._least(known):
            return None
        self.start, self.depends = time, True
        for member, at in self._members.items():
            self.alarmed[member] = Alarmed(at, time)
            self.changed[member] = None
        return Turn(time, False, self.keys())

    def remember(self, key: bytes, clock: float) -> Alarmed:
        """A key alarms again before the group continues (`Silence.group_at`); no group was open then."""
        self.depends |= clock - self.alarmed.get(key, Alarmed(-math.inf, 0.0)).clock < self.within
        self.alarmed[key], self.changed[key] = Alarmed(clock, 0.0), None
        return self.alarmed[key]

    def tick(self, clock: float, known: int) -> Turn | None:
        """The clock goes on, or a key is new, while a group is open: whether it ends."""
        self._forget(clock)
        if len(self._members) >= self._least(known):
            return None
        over = Turn(self.start, True, self.keys())
        self.start = 0.0
        return over

    def keys(self) -> list[bytes]:
        """The keys that alarmed in the open group, by the time of their alarms."""
        return [key for _, key in sorted((one.clock, key) for key, one in self.alarmed.items() if one.start == self.start)]

    def _least(self, known: int) -> int:
        return max(LEAST, math.ceil(self.share * known))

    def _forget(self, clock: float) -> None:
        while self._recent and self._recent[0][0] <= clock - self.within:
            at, key = self._recent.popleft()
            if self._members.get(key) == at:
                del self._members[key]


class Change(NamedTuple):
    """A key falls silent or is missing, or comes."""

    key: bytes
    heard: Heard  # before; of a key that is missing: when that began
    back: bool

    @property
    def missing(self) -> bool:
        return self.heard.newest == float("-inf")


class Silence:
    """group: of keys that alarm together, where the job asks."""

    def __init__(self, silent: SilentKeys, group: Grouped | None) -> None:
        self.group = None if group is None else Group(group.share, group.within)
        self.after, self.time, self.clock = silent.after, float("-inf"), 0.0
        self.until = float("-inf")  # keys that were last heard of at this clock or before are silent
        self._reported: list[float] = []  # of the commit, see `reported`
        self.heard: dict[bytes, Heard] = {}
        self.quiet: dict[bytes, Heard] = {}  # keys that are silent now
        self.absent: set[bytes] | None = None  # keys that are expected and may still come in time; None: not known yet
        self.progress = 0  # no key is expected in records before this offset, because their outputs are out
        self.missing: dict[bytes, Heard] = {}
        self._due: list[tuple[float, bytes]] = []  # heap of a clock of each other key, no later than its newest
        self._stored: dict[tuple[str, int], int] = {}  # the last offset that a stored state has applied, by place
        self._alarmed: dict[bytes, Alarmed] | None = None  # as stored, until the group continues

    @property
    def moment(self) -> str:
        """The partition's event time and clock now, for the commit of an offset."""
        return f"{self.time!r},{self.clock!r}"

    @property
    def reported(self) -> str:
        """Behind the moment in the commit: up to which clock keys are silent at P, and the start of the open group, 0: none.

        "" while the group is not known.
        """
        reported = self._reported
        if self.absent is not None:
            continues = self.group is None or self._alarmed is None
            reported = [self.until, self.group.start if self.group is not None else 0.0] if continues else []
        return "".join(f",{one!r}" for one in reported)

    def meet(self, stored: Iterable[tuple[bytes, Heard]], moment: str = "") -> None:
        """All keys with a stored state, once, before the first `hear`. moment: where the input continues."""
        for key, heard in stored:
            if heard.time > float("-inf"):
                (self.missing if heard.newest == float("-inf") else self.heard)[key] = heard
        if moment and self.heard:
            self.time, self.clock, *self._reported = map(float, moment.split(","))
        else:
            self.time = max((heard.time for heard in self.heard.values()), default=self.time)
            self.clock = max((heard.clock for heard in self.heard.values()), default=self.clock)
        self.until = self._reported[0] if self._reported else self.clock - self.after
        self.quiet = {key: heard for key, heard in self.heard.items() if heard.clock <= self.until}
        self._due = [(heard.clock, key) for key, heard in self.heard.items() if key not in self.quiet]
        heapify(self._due)

    def meet_all(
        self, own: Mapping[str, JobStage], scan: Callable[[bytes | None, int], list[tuple[bytes, bytes]]], moment: str
    ) -> None:
        """Keys by their snapshots. Those of jobs without this stage, and damaged ones, are not known.

        own: the job's stages. moment: see `meet`.
        """
        places: dict[str, tuple[int, int] | None] = {}  # by description
        known: dict[bytes, Heard] = {}
        alarmed: dict[bytes, Alarmed] = {}
        last = 0  # arrays of a snapshot that are read
        after: bytes | None = None
        while some := scan(after, AT_ONCE):
            after = some[-1][0]
            for key, data in some:
                try:
                    held = snapshot.decode(data, last)
                    if held.description not in places:
                        places[held.description] = found = _places(own, held.description)
                        last = max(last, -min(found or (0,)))
                        held = snapshot.decode(data, last)
                except SnapshotError:
                    continue
                if (found := places[held.description]) is not None:
                    known[key], newest = _stored(held.arrays, *found)
                    if newest.clock >= 0.0:
                        alarmed[key] = newest
                    for place, offset in held.offsets.items():
                        self._stored[place] = max(offset, self._stored.get(place, offset))
        self.meet(known.items(), moment)
        if self.group is not None:
            self._alarmed = alarmed
            self.group.meet(alarmed, self.clock, len(self.heard))

    def group_at(self, record: Record) -> Group | None:
        """The group before this record; None where a stored state has records from there on.

        Where the group depends on more than each key's newest alarm, all states are written (`Group.depends`). So from R to
        the newest stored state no group has opened or grown, and it follows from the states and the alarms raised again.
        """
        if self._alarmed is not None and self.group is not None:
            stored = self._stored.get((record.topic, record.partition), -1)
            if record.offset <= max(stored, self.progress - 1):
                return None
            self.group.meet(self._alarmed, self.clock, len(self.heard))
            if self._reported and stored < self.progress:
                self.group.start = self._reported[1]
            self._alarmed = None
        return self.group

    def alarm_again(self, key: bytes) -> None:
        """A key alarms before the group continues."""
        assert self.group is not None and self._alarmed is not None
        self._alarmed[key] = self.group.remember(key, self.clock)

    def hear(self, key: bytes, time: float, applied: bool = False) -> Sequence[Change]:
        """A sample of this event time came; gives who comes back and who falls silent with it, in their order.

        applied: the state of the key has it, so it moves the partition's clock alone, as it did when it was applied.
        """
        before = self.heard.get(key)
        newer = not applied and (before is None or time > before.newest)
        if time > self.time:
            self.clock += min(time - self.time, MOST_PAUSE * self.after) if self.time > float("-inf") else 0.0
            self.time = time
            if self.absent is not None or not self._reported:
                self.until = max(self.until, self.clock - self.after)
        elif not newer:
            return ()
        changes: list[Change] = []
        if newer:
            self.heard[key] = Heard(time, self.time, self.clock)
            if self.missing and key in self.missing:
                changes.append(Change(key, self.missing.pop(key), True))
            if before is None or self.quiet.pop(key, None) is not None:
                heappush(self._due, (self.clock, key))
                changes += [] if before is None else [Change(key, before, True)]
        if self._due and self._due[0][0] <= self.until:
            changes += [Change(one, self.heard[one], False) for _, one in sorted(self._fallen())]
        if self.absent:
            self.absent.discard(key)
            if self.clock >= self.after:
                changes += [Change(one, Heard(float("-inf"), self.time, self.clock), False) for one in sorted(self.absent)]
                self.missing |= {one.key: one.heard for one in changes if one.missing and not one.back}
                self.absent.clear()
        return changes

    def expect(self, keys: Iterable[bytes]) -> None:
        """All keys that are expected in this partition, before the first `hear`."""
        self.absent = {key for key in keys if key not in self.heard and key not in self.missing}

    def _fallen(self) -> list[tuple[float, bytes]]:
        fallen = []
        while self._due and self._due[0][0] <= self.until:
            _, key = heappop(self._due)
            clock = self.heard[key].clock
            if clock > self.until:
                heappush(self._due, (clock, key))
            else:
                fallen.append((clock, key))
                self.quiet[key] = self.heard[key]
        return fallen


def _places(own: Mapping[str, JobStage], description: str) -> tuple[int, int] | None:
    """Where the arrays of SILENT and of GROUP begin in snapshots of this description, from the end on; None: without SILENT.

    GROUP's is 0 without it. own: stages of the present job.
    """
    at, begins = 0, dict.fromkeys((SILENT, GROUP), 0)
    for name, stage in reversed(held_stages.behind_as_written(own, snapshot.table_of(description)).items()):
        at -= len(snapshot.flatten(stage.begin(Shape(1, 1, 1, 0), 0)))
        begins[name.partition(" ")[0]] = at
    return (begins[SILENT], begins[GROUP]) if begins[SILENT] else None


def _stored(arrays: Sequence[Any], silent: int, group: int) -> tuple[Heard, Alarmed]:
    heard = Heard(*map(float, arrays[silent : silent + len(Heard._fields) or None]))
    if not group:
        return heard, Alarmed(-1.0, 0.0)
    return heard, Alarmed(*map(float, arrays[group : group + len(Alarmed._fields) or None]))
