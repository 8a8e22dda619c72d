"""Checks that a stream replays: the same bits again, in any pieces, out of any store, next to any other keys."""

from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.learner_checks.case import Case
from streamjobs.learner_checks.states import copied, joined, rows_of, same_run, same_state, through_bytes


def check_same_bits_twice(case: Case) -> None:
    """Nothing outside the state is remembered: a second run, after another stream in between, gives the same bits."""
    X, Y = case.stream()
    before = _global_random_state()
    same_state(case.init(5), case.init(5), "two starts with one seed")
    first = case.learner.run(case.init(), X, Y)
    case.trained(seed=8)
    same_run(first, case.learner.run(case.init(), X, Y), "the same stream again")
    assert _global_random_state() == before, "the global random state was used"


def check_any_split_gives_the_same_bits(case: Case) -> None:
    X, Y = case.stream()
    whole = case.learner.run(case.init(), X, Y)
    random = np.random.default_rng(0)
    for cuts in (range(1, len(X)), np.sort(random.integers(0, len(X), 9)), (0, 0, 1, len(X))):
        state, outs = case.init(), []
        for rows in np.split(np.arange(len(X)), cuts):
            state, out = case.learner.run(state, X[rows], Y[rows])
            outs.append(out)
        same_run((state, joined(outs)), whole, f"in {len(outs)} pieces")


def check_snapshot_at_every_event_changes_nothing(case: Case) -> None:
    X, Y = case.stream()
    whole = case.learner.run(case.init(), X, Y)
    like, state, outs = case.init(), case.init(), []
    for n in range(len(X)):
        state, out = case.learner.run(through_bytes(state, like), X[n : n + 1], Y[n : n + 1])
        outs.append(out)
    same_run((state, joined(outs)), whole, "stored and restored before every row")


def check_any_mix_of_keys_equals_each_key_alone(case: Case) -> None:
    slots, X, Y = _mixed(case)
    starts = _starts(case)
    for cuts in ((), (1, 2, 50), (len(X) // 3, len(X) // 2)):
        work = case.workspace(starts, extra=len(X), slots=4)
        pieces = np.split(np.arange(len(X)), cuts)
        out = joined([case.advance(work, slots[rows], X[rows], Y[rows]) for rows in pieces])
        for key, start in enumerate(starts):
            mine = slots == key
            among = case.learner.save(work, key, start), rows_of(out, mine)
            same_run(among, case.learner.run(start, X[mine], Y[mine]), f"key {key} among others")


def check_keys_do_not_touch_each_other(case: Case) -> None:
    """Rows of one key, bad ones among them, leave every array of the other slots as they are."""
    starts = _starts(case)
    work = case.workspace(starts, extra=200)
    X, Y = case.hostile(60)
    X[::7] = np.nan
    before = [array.copy() for array in work]
    case.advance(work, 1, X, Y)
    for number, (array, old) in enumerate(zip(work, before, strict=True)):
        for slot in (0, 2):
            same = array[slot].tobytes() == old[slot].tobytes()
            assert same, f"rows of slot 1 changed array {number} of slot {slot}"


def check_growing_the_workspace_keeps_the_bits(case: Case) -> None:
    X, Y = case.stream()
    starts, half = _starts(case), len(X) // 2
    whole = case.learner.run(starts[1], X, Y)
    work = case.workspace(starts[:2], extra=len(X))
    out = case.advance(work, 1, X[:half], Y[:half])
    work.grow(7)
    assert work.slots == 7, f"grow(7) left {work.slots} slots"
    case.learner.load(work, 6, starts[2])
    state, rest = case.ran(work, 1, starts[1], X[half:], Y[half:])
    same_run((state, joined([out, rest])), whole, "after growing halfway")
    same_state(case.learner.save(work, 0, starts[0]), starts[0], "an idle key after growing")
    same_state(case.learner.save(work, 6, starts[2]), starts[2], "a key in a new slot")


def check_load_and_save_are_exact_also_in_a_used_slot(case: Case) -> None:
    """A slot that another key has left behind holds nothing of it."""
    X, Y = case.stream()
    for state in (case.init(), case.trained(20), case.trained()):
        work = case.workspace([case.trained(seed=9)], extra=len(X) + 200)
        case.advance(work, 0, *case.hostile(40))
        kept = copied(state)
        case.learner.load(work, 0, state)
        same_state(case.learner.save(work, 0, state), kept, "loaded and saved")
        same_run(case.ran(work, 0, state, X, Y), case.learner.run(kept, X, Y), "in a used slot")


def _global_random_state() -> str:
    return repr(np.random.get_state(legacy=False))


def _starts(case: Case) -> list[Any]:
    return [case.init(11), case.trained(30, 12), case.trained(seed=13)]


def _mixed(case: Case) -> tuple[Array, Array, Array]:
    """Rows of three keys in random order; slot 3 of four stays empty."""
    streams = [case.stream(n, seed) for n, seed in ((60, 21), (25, 22), (70, 23))]
    slots = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], [len(X) for X, _ in streams]))
    X, Y = (np.empty((len(slots), streams[0][part].shape[1])) for part in (0, 1))
    for key, (rows, targets) in enumerate(streams):
        X[slots == key], Y[slots == key] = rows, targets
    return slots, X, Y
