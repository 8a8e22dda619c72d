"""A model of checkpoints that write outputs and states at different times, and a walk through all its states.

`streamjobs.worker.pace` is how the worker does it. With [state] replay = "0s" each checkpoint writes every changed state,
which is the special case R = P. The protocol, for one partition:

P is the progress: the outputs of all records before P are safe. R is the replay offset: the smallest input offset with an
effect that no snapshot in the changelog has. The group's offset is R, and P is in the metadata of the commit.

A checkpoint at position p (the next record to apply) writes the states of some changed keys, and commits
R = min(p, first unwritten record of each key that stays changed) and P = max(p, P read at the takeover).

at_least_once, and what a crash after each step leaves:
1. outputs are acknowledged. Crash: R and P are the old ones; outputs from the old P on come again.
2. the states are written in one transaction. Crash: as before, but keys that were written skip what they hold.
3. R and P are committed. Crash: records from R to P are applied where the key's snapshot lacks them, without outputs.
exactly_once: all three are one transaction. Crash before its end: nothing of it counts. After: as after 3.

A takeover joins the group, fences the changelog's producer, then reads the commit and the changelog, and applies the input
from R. A commit without P (an older release, a tool) means P = R: outputs may come again, nothing is lost.

A tombstone of an idle key is written only if the key is unchanged since its snapshot and the *committed* R has passed the
key's last record. The R of the same checkpoint is not enough: under at_least_once it is committed after the tombstone.
`forget` needs a commit with R = P, and a snapshot of the key that ends before R; a crash after step 2 leaves a longer one.

Not in the model: local stores, retention, `[state] replay` (each choice of keys to write is tried), offsets set back.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple, TypeVar

TAKEOVERS = 2
GUARANTEES = ("at_least_once", "exactly_once")
BUGS = {
    "repeats": "a replay sends the outputs of records before P again",
    "skips": "a takeover begins at P",
    "metadata ignored": "a takeover treats every commit as one without P",
    "progress falls back": "a checkpoint during a replay commits its own position as P",
    "offset jumps": "a checkpoint during a replay commits P as R",
    "tombstone too early": "an idle key's tombstone does not wait for R",
    "tombstone with its R": "a tombstone waits for the R of its own checkpoint, not for the committed one",
    "forget too early": "`forget` does not compare R with P",
    "forget ignores snapshots": "`forget` does not compare the key's snapshot with R",
    "unfenced": "a takeover does not fence the previous owner's producer",
    "read before fence": "a takeover reads the commit and the changelog before it fences",
    "changelog after commit": "at_least_once commits R and P before it writes the states",
    "commit before outputs": "at_least_once commits without waiting for outputs",
    "goes back": "a partition applies records again that its consumer reads twice",
}

T = TypeVar("T")
History = tuple[int, ...]  # the offsets that a key's state has learned


class Cut(NamedTuple):
    """A checkpoint on its way."""

    replay: int
    progress: int
    written: tuple[tuple[int, History], ...]  # key, state; () is a tombstone


class Worker(NamedTuple):
    number: int  # of the takeover: the highest one is the owner
    step: str = "joined"
    position: int = 0
    held: int = 0  # outputs of records before this one are held back
    known: int = 0  # the committed R
    states: tuple[History, ...] = ()
    first: tuple[int | None, ...] = ()  # of each key: its first record that no snapshot has
    sent: History = ()  # outputs that are not acknowledged, or in the open transaction
    cut: Cut | None = None


class World(NamedTuple):
    """What brokers hold, and the workers."""

    changelog: tuple[History, ...]
    replay: int = 0
    progress: int | None = 0  # None: the commit has no metadata
    outputs: tuple[bool, ...] = ()  # which ones readers see
    joined: int = 0  # the takeover that the group accepts commits from
    fence: int = 0  # the takeover that the changelog accepts writes from
    workers: tuple[Worker | None, ...] = (None, None)
    takeovers: int = 0
    lost: bool = False  # the metadata was lost at some time
    removed: History = ()  # of each key: the last record before its tombstone, or -1
    forgotten: int | None = None  # key 0 was forgotten; no record of it before this offset may come back


class Violation(Exception):
    """The protocol broke a promise."""


class Model:
    """Two takeovers at most, so one crash or one zombie, at any step.

    keys: of each input record, its key's number; None: a dead letter, which no state knows. ttl: a key with no record for
    longer than this many offsets starts over. tools: the metadata may be lost once, and key 0 be forgotten.
    """

    def __init__(self, keys: tuple[int | None, ...], guarantee: str, bug: str = "", *, ttl: int, tools: bool) -> None:
        self.keys, self.bug, self.ttl, self.tools = keys, bug, ttl, tools
        self.transactional = guarantee == "exactly_once"

    def start(self) -> World:
        keys = max(key for key in self.keys if key is not None) + 1
        return World(((),) * keys, outputs=(False,) * len(self.keys), removed=(-1,) * keys)

    def walk(self) -> int:
        """Visit every state and return their number. Raises Violation."""
        waiting = [self.start()]
        seen = set(waiting)
        while waiting:
            world, ended = waiting.pop(), True
            for after in self.steps(world):
                ended = False
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
            if ended:
                self._check_end(world)
        return len(seen)

    def steps(self, world: World) -> Iterator[World]:
        """Every world that may follow."""
        for place, worker in enumerate(world.workers):
            if worker is not None:
                for after, now in self._work(world, worker):
                    yield _with(after, place, now)
                if world.takeovers < TAKEOVERS:
                    yield from self._crash(world, place, worker)
            elif world.takeovers < TAKEOVERS:
                number = world.takeovers + 1
                yield _with(world._replace(takeovers=number, joined=number), place, Worker(number))
        if not self.tools or not world.takeovers or world.takeovers == TAKEOVERS:
            return
        if world.progress is not None and not world.lost and world.progress > 0:
            yield world._replace(progress=None, lost=True)
        if world.workers == (None, None) and world.forgotten is None and self._may_forget(world):
            done = max([world.progress or world.replay, *(last + 1 for last in world.changelog[0])])
            yield world._replace(changelog=((), *world.changelog[1:]), forgotten=done)

    def _may_forget(self, world: World) -> bool:
        if self.bug != "forget too early" and world.replay != world.progress:
            return False
        return self.bug == "forget ignores snapshots" or not any(o >= world.replay for o in world.changelog[0])

    def _crash(self, world: World, place: int, worker: Worker) -> Iterator[World]:
        yield _with(world, place, None)
        if worker.sent and not self.transactional:  # they arrived, though nobody waited for it
            yield _with(self._show(world, worker.sent), place, None)

    def _work(self, world: World, worker: Worker) -> Iterator[tuple[World, Worker | None]]:
        first, second = ("read", "fence") if self.bug == "read before fence" else ("fence", "read")
        if worker.step in ("joined", "half"):
            action = first if worker.step == "joined" else second
            step = "half" if worker.step == "joined" else "ready"
            if action == "read":
                yield world, self._read(world, worker)._replace(step=step)
            elif worker.number < world.fence:
                yield world, None  # a later takeover was faster
            else:
                unfenced = self.bug == "unfenced"
                yield (world if unfenced else world._replace(fence=worker.number)), worker._replace(step=step)
        elif worker.cut is not None:
            yield self._advance(world, worker, worker.cut)
        else:
            if worker.position < len(self.keys):
                yield world, self._apply(world, worker)
            for offset in range(worker.known, worker.position) if self.bug == "goes back" else ():
                if self.keys[offset] is None and offset not in worker.sent:
                    yield world, worker._replace(sent=self._send(world, worker, offset))
            yield from ((world, worker._replace(cut=cut, step="cut")) for cut in self._cuts(worker))

    def _read(self, world: World, worker: Worker) -> Worker:
        progress = world.replay if world.progress is None or self.bug == "metadata ignored" else world.progress
        return worker._replace(
            position=progress if self.bug == "skips" else world.replay,
            held=progress,
            known=world.replay,
            states=world.changelog,
            first=(None,) * len(world.changelog),
        )

    def _apply(self, world: World, worker: Worker) -> Worker:
        offset, key = worker.position, self.keys[worker.position]
        worker, state = worker._replace(position=offset + 1), () if key is None else worker.states[key]
        if state and state[-1] >= offset:
            return worker
        kept = state if state and offset - state[-1] <= self.ttl else ()
        sent = worker.sent
        if offset >= worker.held or self.bug == "repeats":
            sent = self._send(world, worker, offset)
        if key is None:
            return worker._replace(sent=sent)
        first = worker.first[key]
        return worker._replace(
            states=_put(worker.states, key, (*kept, offset)),
            first=_put(worker.first, key, offset if first is None else first),
            sent=sent,
        )

    def _send(self, world: World, worker: Worker, offset: int) -> History:
        if worker.number == world.fence and world.progress is not None and offset < world.progress:
            raise Violation(f"the output of record {offset} is sent again below P = {world.progress}")
        return (*worker.sent, offset)

    def _cuts(self, worker: Worker) -> Iterator[Cut]:
        """Each choice of changed keys to write and of idle keys to remove."""
        choices = [
            (None, state) if first is not None else (None,) for first, state in zip(worker.first, worker.states, strict=True)
        ]
        for chosen in product(*choices):
            written = [(key, state) for key, state in enumerate(chosen) if state is not None]
            left = [one for one, state in zip(worker.first, chosen, strict=True) if one is not None and state is None]
            replay = min([worker.position, *left])
            progress = max(worker.position, worker.held)
            if self.bug == "progress falls back":
                progress = worker.position
            if self.bug == "offset jumps":
                replay = min([progress, *left])
            if written or worker.sent or replay > worker.known:
                yield Cut(replay, progress, tuple(written))
            for key, state in enumerate(worker.states):
                if state and chosen[key] is None and self._may_remove(worker, key, replay):
                    yield Cut(replay, progress, (*written, (key, ())))

    def _may_remove(self, worker: Worker, key: int, replay: int) -> bool:
        last = worker.states[key][-1]
        if worker.first[key] is not None or worker.position - 1 - last <= self.ttl:
            return False
        passed = replay if self.bug == "tombstone with its R" else worker.known
        return self.bug == "tombstone too early" or passed > last

    def _advance(self, world: World, worker: Worker, cut: Cut) -> tuple[World, Worker | None]:
        """The next step of a checkpoint; no worker where the broker refused it."""
        if self.transactional:
            if worker.number < world.fence:
                return world, None
            return self._commit(self._write(self._show(world, worker.sent), cut), cut), self._finish(worker, cut)
        order = ["outputs", "changelog", "commit"]
        if self.bug == "changelog after commit":
            order = ["outputs", "commit", "changelog"]
        if self.bug == "commit before outputs":
            order = ["changelog", "commit", "outputs"]
        action = order[0] if worker.step == "cut" else worker.step
        if action == "outputs":
            world, worker = self._show(world, worker.sent), worker._replace(sent=())
        elif action == "changelog":
            if worker.number < world.fence:
                return world, None
            world = self._write(world, cut)
        elif worker.number < world.joined and self.bug != "unfenced":
            return world, None
        else:
            world = self._commit(world, cut)
        if action == order[-1]:
            return world, self._finish(worker, cut)
        return world, worker._replace(step=order[order.index(action) + 1])

    def _finish(self, worker: Worker, cut: Cut) -> Worker:
        states, first = worker.states, worker.first
        for key, state in cut.written:
            states, first = _put(states, key, state), _put(first, key, None)
        return worker._replace(step="ready", cut=None, sent=(), known=cut.replay, states=states, first=first)

    def _show(self, world: World, sent: History) -> World:
        outputs = list(world.outputs)
        for offset in sent:
            if self.transactional and outputs[offset] and not world.lost:
                raise Violation(f"readers see the output of record {offset} twice")
            outputs[offset] = True
        return world._replace(outputs=tuple(outputs))

    def _write(self, world: World, cut: Cut) -> World:
        for key, state in cut.written:
            if state and state != self._expected(key, state[-1], world.forgotten):
                raise Violation(f"the snapshot of key {key} at record {state[-1]} has learned {state}")
            if state and state[0] <= world.removed[key]:
                raise Violation(f"key {key} had a tombstone, and has learned {state} again")
            if not state:
                world = world._replace(removed=_put(world.removed, key, max((-1, *world.changelog[key]))))
            world = world._replace(changelog=_put(world.changelog, key, state))
        return world

    def _commit(self, world: World, cut: Cut) -> World:
        if any(not shown for shown in world.outputs[: cut.progress]):
            raise Violation(f"P = {cut.progress} is committed before all outputs below it are safe")
        if world.progress is not None and cut.progress < world.progress:
            raise Violation(f"P falls back from {world.progress} to {cut.progress}")
        for offset in range(world.forgotten or 0, cut.replay):
            key = self.keys[offset]
            if key is not None and offset > max(world.removed[key], *world.changelog[key], -1):
                raise Violation(f"R = {cut.replay} is committed, but no snapshot has learned record {offset}")
        return world._replace(replay=cut.replay, progress=cut.progress)

    def _expected(self, key: int, last: int, forgotten: int | None) -> History:
        """What a worker that nothing interrupts has learned."""
        state: History = ()
        for offset in range(forgotten or 0 if key == 0 else 0, last + 1):
            if self.keys[offset] == key:
                state = (*state, offset) if state and offset - state[-1] <= self.ttl else (offset,)
        return state

    def _check_end(self, world: World) -> None:
        """A world in which nothing is left to do has every output and every state."""
        end = len(self.keys)
        if world.replay != end or world.progress not in (end, None) or not all(world.outputs):
            raise Violation(f"the job ends at R = {world.replay}, P = {world.progress} with outputs {world.outputs}")
        for key, state in enumerate(world.changelog):
            expected = self._expected(key, end - 1, world.forgotten)
            if state != expected and (state or (expected and end - 1 - expected[-1] <= self.ttl)):
                raise Violation(f"the last snapshot of key {key} has learned {state}, not {expected}")


def _put(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _with(world: World, place: int, worker: Worker | None) -> World:
    first, second = _put(world.workers, place, worker)
    if (first.number if first else 0) < (second.number if second else 0):  # the order of two workers means nothing
        first, second = second, first
    return world._replace(workers=(first, second))
