"""Live states of one partition: a slot per key in every stage's workspace, bounded by bytes.

A key's snapshot is read once, when its first record comes, together with those of its batch; from then on its state lives
in the arrays until it is the least recently used one and room is needed. A changed state that leaves before it was stored
is kept as bytes (`parked`) until the next call of `snapshots`, so nothing applied is ever forgotten.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms.common.head_rows import HeadRows
from algorithms.common.protocol import Array
from algorithms.drift.report import LONG_COLUMNS
from streamjobs.core.job import Job
from streamjobs.core.live import aside
from streamjobs.core.live.aside import Aside, Verdict
from streamjobs.core.live.forms import codec_of, unwritable
from streamjobs.core.live.live_stats import LiveStats, stats_of, worst_slots
from streamjobs.core.live.log import Log, Model
from streamjobs.core.live.slots import FIRST_SLOTS, NewKeys, Slots, shared
from streamjobs.core.live.stored import Decoded, decode_snapshot
from streamjobs.core.messages import Advanced, ShownAlarm
from streamjobs.core.state import snapshot
from streamjobs.core.state.held_stages import starting_over
from streamjobs.core.state.snapshot import Offsets
from streamjobs.errors import ForeignStateError, SnapshotError
from streamjobs.stages.names import ALARMS, LEARNER, MAP, ORDER, SENSORS, STUCK

if TYPE_CHECKING:
    from streamjobs.core.live.silence import Silence

POOLED = b""  # the key with the model that every key shares in a pooled replay


class Parked(dict[bytes, bytes]):
    """Snapshots by key, and how many bytes they have together."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __setitem__(self, key: bytes, data: bytes) -> None:
        self.bytes += len(data) - len(self.get(key, b""))
        super().__setitem__(key, data)

    def add(self, keys: Sequence[bytes], snapshots: Sequence[bytes]) -> None:
        """Of keys that are not there."""
        self.bytes += sum(map(len, snapshots))
        self.update(zip(keys, snapshots, strict=True))

    def take(self, key: bytes) -> bytes | None:
        """The key's snapshot; afterwards the key is not live."""
        data = super().pop(key, None)
        self.bytes -= len(data or b"")
        return data

    def clear(self) -> None:
        self.bytes = 0
        super().clear()


def _applied(stored: bytes | None) -> Offsets:
    """Last applied offsets of a stored state; a damaged one has none."""
    try:
        return snapshot.decode(stored).offsets if stored is not None else Offsets()
    except ForeignStateError:
        raise
    except SnapshotError:
        return Offsets()


def _silence(job: Job) -> "Silence":
    from streamjobs.core.live.silence import Silence  # few jobs have it

    assert job.steps.silent is not None
    return Silence(job.steps.silent, job.steps.group)


class Live(Slots):
    """The states a partition's rows run through.

    read: gives a key's stored snapshot, or None; read_many instead: those of many keys. What `snapshots` gave counts as
    stored.
    most_bytes: bound of the arrays (default: the job's [state] cache). Heads may exceed it where more keys of one batch have
        their first labels than there is room for.
    pooled: all keys share one model (scaling, learner, drift), each keeps its own signal; to learn a start for new keys.
    """

    def __init__(
        self,
        job: Job,
        read: Callable[[bytes], bytes | None] | None = None,
        *,
        read_many: Callable[[Sequence[bytes]], list[bytes | None]] | None = None,
        most_bytes: int | None = None,
        pooled: bool = False,
    ) -> None:
        self.job = job
        one = read or (lambda key: None)
        self.read_many = read_many or (lambda keys: [one(key) for key in keys])
        self.templates = job.init(POOLED)
        self.timed = SENSORS if SENSORS in job.own else ORDER  # the stage that knows each key's newest sample
        self.order = job.steps.sensors or job.steps.order
        work: dict[str, Any] = {
            name: stage.workspace(self.templates[name], slots=FIRST_SLOTS) for name, stage in job.own.items()
        }
        heads: HeadRows | None = None  # where keys without a label have none
        if job.begins_untaught:
            heads = work[LEARNER] = HeadRows(job.learner, self.templates[LEARNER], FIRST_SLOTS)
        shared: dict[str, Any] = {}  # the population's stages: one slot for all keys, never learned, never stored
        for name, state in job.shared.items():
            shared[name] = job.stages[name].workspace(state)
            job.stages[name].load(shared[name], 0, state)
        most = most_bytes if most_bytes is not None else job.settings.state.cache
        super().__init__(work, shared, heads, most, pooled=pooled)
        self.columns = codec_of(job, work)
        self.new_keys = NewKeys.of(job, work)
        self.snapshot_bytes = job.state_bytes
        self.head_bytes = 0 if job.untaught is None else job.untaught.nbytes
        self.dirty: set[int] = set()
        self.parked = Parked()
        self.created = 0  # keys that began here
        self.loaded = 0  # states read from snapshots
        self.left = 0  # keys that left for want of room
        self.expired = 0  # keys that started over after [state] ttl
        self.log = Log()  # what was applied since the last `snapshots`
        self.aside = Aside()
        self.careful = 0  # records still to be applied with care, because a stage failed
        self.repeated: set[bytes] = set()  # keys with records in `log` that are applied again, see `undo.rewind`
        self.silence = None if job.steps.silent is None or pooled else _silence(job)
        lasts = any(one.detector.learner.width >= LONG_COLUMNS for one in job.steps.watches)
        self.lasting = [STUCK] * (STUCK in work) + [ALARMS] * (ALARMS in work and lasts)  # stages with alarms that stay open
        # Keys in alarm that are not live; None: to be read, see `core.events.away`.
        self.away: dict[bytes, list[ShownAlarm] | None] = {}
        if pooled:
            self.slot(POOLED)
        self.model_stored = self.model  # of a pooled model: what it was at the last `snapshots`

    @property
    def dirty_bytes(self) -> int:
        """About how many bytes the next `snapshots` gives and lets go: an upper bound, with the records remembered."""
        changed = len(self.dirty)
        states = changed * self.snapshot_bytes
        if self.heads is not None:
            states -= max(0, changed - self.heads.taken) * self.head_bytes
        return states + self.parked.bytes + self.log.bytes

    def stats(self, since: int) -> LiveStats:
        """How the live keys stand, those with a record in a batch after the `since`-th; for metrics."""
        mapping = self.job.composition.map
        if mapping is not None:
            share = mapping.budget_used(self.shared[MAP], self.job.shared[MAP], np.zeros(1, np.int64))
        else:
            share = self.job.learner.budget_used(self.work[LEARNER], self.templates[LEARNER], self.live_slots())
        slots = self._in_alarm(self.live_slots())
        stats = stats_of(self.latest, self.used, self.keys, since, share, slots)
        if self.silence is None and not self.away:
            return stats
        keys = {self.key_of[slot] for slot in (() if slots is None else slots.tolist())}.union(list(self.away))
        if self.silence is not None:
            keys.update(list(self.silence.quiet), list(self.silence.missing))
        return stats._replace(in_alarm=len(keys))

    def _in_alarm(self, slots: Array) -> Array | None:
        """Those of these slots with an open alarm; None where no alarm stays open."""
        if not self.lasting:
            return None
        opened = [self.work[kind]["opened"] for kind in self.lasting]
        slots = slots[slots < min(map(len, opened))]
        if not len(slots):
            return slots
        return slots[np.any([(of_kind[slots].reshape(len(slots), -1) > 0).any(axis=1) for of_kind in opened], axis=0)]

    def worst(self, since: int, most: int) -> list[tuple[str, float]]:
        """Keys with the largest newest LS errors, of those with a record in a batch after the `since`-th, largest first."""
        slots = worst_slots(self.latest, self.used, since, most)
        return [(self.text_of[slot], error) for slot, error in slots if slot < len(self.text_of)]

    def look_up(self, key: bytes) -> "tuple[bytes, Decoded | None] | None":
        """The key's snapshot as it is now, and what it says where the key is live; None where it has no state.

        Changes nothing.
        """
        slot = self.slot_of.get(key)
        if slot is None:
            data = self.parked.get(key) or self.read_many([key])[0]
            return None if data is None else (data, None)
        return self.encode([slot])[0], (self.states(slot), list(self.names[slot]), self.offsets[slot])

    @property
    def moment(self) -> str:
        """For the commit of the next offset; "" where the job needs none."""
        return "" if self.silence is None else self.silence.moment

    @property
    def reported(self) -> str:
        """Behind the moment of the commit, see `silence`."""
        return "" if self.silence is None else self.silence.reported

    def meet(
        self, scan: Callable[[bytes | None, int], list[tuple[bytes, bytes]]], moment: str = "", progress: int = 0
    ) -> str:
        """Before the first batch: learn when each stored key was last heard of, if the job asks. scan: as of a store.

        moment: of the commit where the input continues. progress: up to where outputs are out.
        Gives a sentence if sections start over or end, as the first stored state shows. Raises ForeignStateError where this
        state is of another job: no record has to come to show it.
        """
        over = ""
        for _, data in scan(None, 1):
            try:
                decode_snapshot(self.job, data)
                over = starting_over(self.job.stages, self.job.described, data)
            except ForeignStateError:
                raise
            except SnapshotError:  # a damaged one is set aside when its key comes
                pass
        if self.silence is not None:
            self.silence.progress = progress
            self.silence.meet_all(self.job.own, scan, moment)
        return over

    def slot(self, key: bytes) -> int | None:
        """The key's slot; reads its snapshot, or begins a new state, where it has none. None: the key is set aside.

        May raise ForeignStateError.
        """
        slot = self.slot_of.get(key)
        if slot is None:
            self.enter([key])
            slot = self.slot_of.get(key)
        if slot is not None:
            self.used[slot] = self.now
        return slot

    def enter(self, keys: Sequence[bytes]) -> None:
        """Read the states of different keys that are not live, or begin them; at most `room()`.

        Sets those aside that cannot be read. May raise ForeignStateError.
        """
        wanted = len(keys) - len(self.free) - (self.most_slots - len(self.key_of))
        if wanted > 0:
            self._make_room(wanted)
        stored: list[bytes | None] = list(map(self.parked.get, keys))
        changed = [at for at, data in enumerate(stored) if data is not None] if self.parked else []
        absent = [at for at, data in enumerate(stored) if data is None] if changed else range(len(keys))
        if absent:
            for at, data in zip(absent, self.read_many([keys[at] for at in absent]), strict=True):
                stored[at] = data
        for key in keys if self.away else ():
            self.away.pop(key, None)
        slots = self._take(keys)
        if self.columns is not None:
            self.columns.look()
        known = [at for at, data in enumerate(stored) if data is not None]
        own = np.zeros(len(keys), np.bool_)
        if not self.pooled:  # else what is parked was not checked, see `writable`
            own[changed] = True
        wrong = self._load([slots[at] for at in known], [stored[at] for at in known], own[known])  # type: ignore[misc]
        self._begin([slots[at] for at, data in enumerate(stored) if data is None])
        self.slot_of.update(zip(keys, slots, strict=True))
        for at in changed:
            self.parked.take(keys[at])
            self.dirty.add(slots[at])
        for at, slot in enumerate(slots) if wrong else ():
            if slot in wrong:
                key = self.key_of[slot]
                del self.slot_of[key]
                self.dirty.discard(slot)
                self._release([slot])
                self._set_aside(key, aside.READ, wrong[slot], changed=at in changed or key in self.repeated)
        self.touch([slot for slot in slots if slot not in wrong] if wrong else slots)

    def _load(self, slots: list[int], snapshots: list[bytes], own: Array) -> dict[int, str]:
        """The slots of snapshots that cannot be read, and why. own: those that were parked."""
        wrong: dict[int, str] = {}
        if not slots:
            return wrong
        self.loaded += len(slots)
        good = [False] * len(slots)
        if self.columns is not None:
            most, given = self.job.most_names, self.job.given_names
            good = self.columns.decode(snapshots, slots, self.offsets, self.names, most, given, own)
            if all(good):
                return wrong
        for slot, data, done in zip(slots, snapshots, good, strict=True):
            if done:
                continue
            try:
                states, names_of_key, self.offsets[slot] = decode_snapshot(self.job, data)
                self.names[slot] = shared(names_of_key)
                self._put(slot, states)
            except ForeignStateError:
                raise
            except SnapshotError as problem:
                wrong[slot] = str(problem)
        return wrong

    def _set_aside(self, key: bytes, what: str, why: str, *, changed: bool) -> None:
        """changed: records were applied since its stored state was written."""
        applied = _applied(self.read_many([key])[0])
        self.aside.add(key, Verdict(what, why, applied), self.log if changed else None)

    def writable(self, slots: list[int]) -> list[int]:
        """Those of these changed slots with a state that a reader takes back; the keys of the others are set aside."""
        wrong = {} if self.pooled else unwritable(self, slots)
        for slot, why in wrong.items():
            self.dirty.discard(slot)
            self.forget(self.key_of[slot])
            self._set_aside(self.key_of[slot], aside.WRITTEN, why, changed=True)
        return [slot for slot in slots if slot not in wrong] if wrong else slots

    def _put(self, slot: int, states: dict[str, Any]) -> None:
        try:
            for name, stage in self.job.own.items():
                stage.load(self.work[name], slot, states[name])
        except ValueError as problem:
            raise SnapshotError(f"the stored state contradicts itself: {problem}") from None

    def _begin(self, slots: list[int]) -> None:
        self.created += len(slots)
        names = shared(self.job.names())
        self.offsets.clear(slots)
        for slot in slots:
            self.names[slot] = names
        if self.new_keys is not None and slots:
            self.new_keys.begin(self.work, slots, [self.job.seed_of(self.key_of[slot]) for slot in slots])
            return
        for slot in slots:
            self._put(slot, self.job.init(self.key_of[slot]))

    @property
    def model(self) -> Model | None:
        """A copy of the model that all keys share, where they do."""
        return Model(self.states(0), list(self.names[0])) if self.pooled else None

    def newest(self, slots: list[int]) -> Array:
        """Event time of the newest applied sample of the keys in these slots, seconds; -inf without one."""
        return self.order.newest(self.work[self.timed], slots)

    def oldest_held(self, slot: int) -> float:
        """Event time of the oldest sample of the key that waits to be put in order, seconds; inf without one."""
        return self.order.oldest_held(self.work[self.timed], slot)

    def start_over(self, slot: int) -> None:
        """The key in this slot starts over, as if it had never been there."""
        self.latest.clear([slot])
        self._begin([slot])
        self.dirty.add(slot)
        self.expired += 1

    def busy(self, key: bytes, since: int) -> bool:
        """Whether the key has changed since the last `snapshots`, or was used in a batch after the `since`-th."""
        slot = self.slot_of.get(key)
        return (
            key in self.parked
            or key in self.aside
            or (slot is not None and (slot in self.dirty or int(self.used[slot]) > since))
        )

    def forget(self, key: bytes) -> None:
        """Drop a key that is not busy; its next record reads its state again."""
        self.away.pop(key, None)
        slot = self.slot_of.pop(key, None)
        if slot is not None:
            self._release([slot])
            self.used[slot] = 0

    def _leave(self, leaving: Array) -> None:
        if (alarmed := self._in_alarm(leaving)) is not None:
            self.away |= dict.fromkeys(self.key_of[slot] for slot in alarmed.tolist())
        unsaved = self.writable([slot for slot in leaving.tolist() if slot in self.dirty])
        self.parked.add([self.key_of[slot] for slot in unsaved], self.encode(unsaved))
        self.dirty.difference_update(unsaved)
        self._release([slot for slot in leaving.tolist() if self.slot_of.pop(self.key_of[slot], None) is not None])
        self.used[leaving] = 0
        self.left += len(leaving)

    def states(self, slot: int) -> dict[str, Any]:
        return {name: stage.save(self.work[name], slot, self.templates[name]) for name, stage in self.job.own.items()}

    def encode(self, slots: list[int]) -> list[bytes]:
        if self.columns is not None:
            return self.columns.encode(slots, self.offsets, self.names)
        return [self.job.encode(self.states(slot), list(self.names[slot]), self.offsets[slot]) for slot in slots]

    def changed(self) -> Iterable[bytes]:
        """The live keys with changes that were not in `snapshots`; all others are parked."""
        return map(self.key_of.__getitem__, self.dirty)

    def snapshots(self, keys: Iterable[bytes] | None = None) -> list[tuple[bytes, bytes]]:
        """(key, snapshot) of every key changed since the last call; after it they count as stored.

        keys: only these, and those that are parked; then `log.trim` says which records need not be remembered.
        A key with a state that cannot be written is set aside; `owed` gives the dead letters of its records.
        """
        changed = list(self.parked.items())
        if keys is None:
            slots = sorted(self.dirty)
        else:
            slots = [slot for key in keys if (slot := self.slot_of.get(key)) is not None and slot in self.dirty]
        slots = self.writable(slots)
        changed += zip([self.key_of[slot] for slot in slots], self.encode(slots), strict=True)
        self.parked.clear()
        if keys is not None:
            self.dirty.difference_update(slots)
            return changed
        self.dirty.clear()
        self.log.clear()
        self.model_stored = self.model
        return changed

    def owed(self) -> Advanced:
        """Dead letters for the records of keys that `snapshots` set aside."""
        return self.aside.owed(self.job.life)

    def export(self, key: bytes | None = None) -> bytes:
        """A key's model as the start of new keys ([state] start_from): no offsets, and a fresh signal.

        Without a key: the pooled model.
        """
        slot = self.slot(POOLED if key is None else key)
        assert slot is not None, "what was learned here is not set aside"
        return self.job.encode_model(self.states(slot), list(self.names[slot]))
