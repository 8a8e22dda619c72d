"""Which keys of a partition are silent: no sample for so long, by the event time of the other keys' samples.

The partition's clock follows its newest event time, but from one sample to the next it advances by half of the stated time
at most. Therefore, if all keys pause together, as at night, the first sample after the pause makes no key silent. A key is
heard of when it sends a sample that is newer than all of its samples before. It stores the clock of this moment, and falls
silent when the clock has advanced by the stated time. After a crash, the stored states of all keys give the same: the clock
is the largest stored one, and keys that are behind it by the stated time have alarmed before.

A key that is expected is missing when the clock, which begins with the partition's first sample, has come to the stated time
without a sample of the key. It then gets a state that tells so, in which its newest sample is of -inf.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from streamjobs.core.live.group import Group
from streamjobs.core.state import held_stages, snapshot
from streamjobs.errors import SnapshotError
from streamjobs.stages.events.group import Alarmed
from streamjobs.stages.events.silent import Heard
from streamjobs.stages.names import GROUP, SILENT
from streamjobs.stages.stage import JobStage, Shape

AT_ONCE = 1000  # snapshots read together
MOST_PAUSE = 0.5  # of the stated time, that a pause of the whole partition counts for


class Change(NamedTuple):
    """A key falls silent or is missing, or comes."""

    key: bytes
    heard: Heard  # before; of a key that is missing: when that began
    back: bool

    @property
    def missing(self) -> bool:
        return self.heard.newest == float("-inf")


class Silence:
    """after: seconds; group: of keys that alarm together, where the job asks."""

    def __init__(self, after: float, group: Group | None = None) -> None:
        self.group = group
        self.after, self.time, self.clock = after, float("-inf"), 0.0
        self.heard: dict[bytes, Heard] = {}
        self.quiet: dict[bytes, Heard] = {}  # keys that are silent now
        self.absent: set[bytes] | None = None  # keys that are expected and may still come in time; None: not known yet
        self.missing: dict[bytes, Heard] = {}
        self._due: list[tuple[float, bytes]] = []  # heap of one clock a key, no later than when it falls silent

    def meet(self, stored: Iterable[tuple[bytes, Heard]]) -> None:
        """All keys with a stored state, once, before the first `hear`."""
        for key, heard in stored:
            if heard.time > float("-inf"):
                (self.missing if heard.newest == float("-inf") else self.heard)[key] = heard
        self.time = max((heard.time for heard in self.heard.values()), default=self.time)
        self.clock = max((heard.clock for heard in self.heard.values()), default=self.clock)
        self.quiet = {key: heard for key, heard in self.heard.items() if self._when(heard) <= self.clock}
        self._due = [(self._when(heard), key) for key, heard in self.heard.items() if key not in self.quiet]
        heapify(self._due)

    def meet_all(self, own: Mapping[str, JobStage], scan: Callable[[bytes | None, int], list[tuple[bytes, bytes]]]) -> None:
        """Keys by their snapshots. Those of jobs without this stage, and damaged ones, are not known.

        own: the job's stages.
        """
        places: dict[str, tuple[int, int] | None] = {}  # by description
        known: dict[bytes, Heard] = {}
        alarmed: dict[bytes, Alarmed] = {}
        after: bytes | None = None
        while some := scan(after, AT_ONCE):
            after = some[-1][0]
            for key, data in some:
                try:
                    held = snapshot.decode(data)
                except SnapshotError:
                    continue
                if held.description not in places:
                    places[held.description] = _places(own, held.description)
                if (found := places[held.description]) is not None:
                    known[key], alarmed[key] = _stored(held.arrays, *found)
        self.meet(known.items())
        if self.group is not None:
            self.group.meet(alarmed, self.clock, len(self.heard))

    def hear(self, key: bytes, time: float) -> Sequence[Change]:
        """A sample of this event time came; gives who comes back and who falls silent with it, in their order."""
        before = self.heard.get(key)
        if before is not None and time <= before.newest:
            return ()
        if time > self.time:
            self.clock += min(time - self.time, MOST_PAUSE * self.after) if self.heard else 0.0
            self.time = time
        self.heard[key] = Heard(time, self.time, self.clock)
        changes = [Change(key, self.missing.pop(key), True)] if key in self.missing else []
        if before is None or self.quiet.pop(key, None) is not None:
            heappush(self._due, (self._when(self.heard[key]), key))
            changes += [] if before is None else [Change(key, before, True)]
        if self._due[0][0] <= self.clock:
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

    def _when(self, heard: Heard) -> float:
        return heard.clock + self.after

    def _fallen(self) -> list[tuple[float, bytes]]:
        fallen = []
        while self._due and self._due[0][0] <= self.clock:
            _, key = heappop(self._due)
            due = self._when(self.heard[key])
            if due > self.clock:
                heappush(self._due, (due, key))
            else:
                fallen.append((due, key))
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
    """Of a snapshot's arrays."""
    heard = Heard(*map(float, arrays[silent : silent + len(Heard._fields) or None]))
    if not group:
        return heard, Alarmed(-1.0, 0.0)
    return heard, Alarmed(*map(float, arrays[group : group + len(Alarmed._fields) or None]))
