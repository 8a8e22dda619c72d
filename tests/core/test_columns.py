"""Many snapshots at once: the same slots and bytes as one by one, and nothing taken that one by one is refused."""

import weakref
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from algorithms.common.head_rows import HeadRows
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, load_snapshot
from streamjobs.core.messages import Stored
from streamjobs.core.state import snapshot
from tests.core.streams import settings
from tests.fuzz.jobs import OF_STATES, STANDS_ON, good, moments, stateful
from tests.fuzz.mutation import mutate_arrays, mutate_stages

JOBS = range(STANDS_ON + 1)
LEARNERS = [sections.get("learner", {"name": "okfeb"})["name"] for sections in OF_STATES] + ["people"]
each_job = pytest.mark.parametrize("which", JOBS, ids=LEARNERS)


def alone(job: Job, stored: dict[bytes, bytes], **how: int) -> Live:
    """Live states that take every snapshot and every new key by itself."""
    live = Live(job, stored.get, **how)
    live.columns = live.new_keys = None
    return live


def batch(job: Job, keys: Sequence[bytes], begin: int, end: int) -> list[Stored]:
    """Records begin to end, each of them of every key."""
    records = [one._replace(key=key) for one in good(job, begin, end) for key in keys]
    return [one._replace(offset=1000 + at) for at, one in enumerate(records)]


@each_job
def test_states_read_together_go_on_as_states_read_alone(which):
    job = stateful(which)
    valid = moments("state", which)
    stored = {b"key-%d" % at: data for at, data in enumerate(valid * 2)}
    keys = [*stored, b"new-1", b"new-2"]
    together, one_by_one = Live(job, stored.get), alone(job, stored)
    assert together.columns is not None
    for begin, end in ((60, 61), (61, 75)):
        records = batch(job, keys, begin, end)
        assert advance(job, together, records).outputs == advance(job, one_by_one, records).outputs
        assert together.snapshots() == one_by_one.snapshots()
    assert (together.created, together.loaded) == (2, len(stored))


@each_job
def test_keys_that_come_and_leave_all_the_time_keep_their_states(which):
    """Slots for 16 of 40 keys: every state is encoded, parked, read again and put where another key's was."""
    job, stored = stateful(which), {}
    little, plenty = Live(job, stored.get, most_bytes=1), alone(job, {})
    for at, step in enumerate(range(0, 24, 2)):
        for first in range(0, 40, 10):
            records = batch(job, [b"key-%d" % key for key in range(first, first + 10)], step, step + 2)
            records = [one._replace(offset=one.offset + 1000 * at) for one in records]
            assert advance(job, little, records).outputs == advance(job, plenty, records).outputs
            assert little.parked.bytes == sum(map(len, little.parked.values()))
            if first == 20:
                stored.update(little.snapshots())
    assert little.left > 100
    assert dict(little.snapshots()).items() <= dict(plenty.snapshots()).items()


def test_arrays_that_grew_are_not_kept():
    job = stateful(0)
    live = Live(job, {}.get)
    live.enter([b"%d" % key for key in range(10)])
    assert advance(job, live, batch(job, [b"1", b"2"], 0, 70)).outputs and live.snapshots()
    before = [weakref.ref(array) for work in live.work.values() for array in work.arrays if array.size]
    live.enter([b"%d" % key for key in range(10, 40)])
    assert before and not [array for array in before if array() is not None]


@each_job
def test_what_is_taken_together_is_taken_alone_and_gives_the_same_slot(which):
    job, rnd = stateful(which), Random(which)
    valid = moments("state", which)
    states, held = [decode_snapshot(job, data) for data in valid], [snapshot.decode(data) for data in valid]
    drawn = list(valid)
    drawn += [mutate_stages(job, states, rnd) for _ in range(120)]
    drawn += [mutate_arrays(rnd.choice(held), rnd) for _ in range(80)]
    live = Live(job, {}.get)
    assert live.columns is not None
    slots = live._take([b"%d" % at for at in range(len(drawn))])
    for work in live.work.values():  # what stood there before must not count
        if isinstance(work, HeadRows):
            work.own(slots)
            arrays = [*work.seen.arrays, *[array[1:] for array in work.rows.arrays]]
            work.release(np.array(slots))
        else:
            arrays = work.arrays
        for array in arrays:
            array.fill(1)
    good = live.columns.decode(drawn, slots, live.offsets, live.names, job.most_names, job.given_names)
    assert all(good[: len(valid)])
    assert not all(good)
    for data, slot, taken in zip(drawn, slots, good, strict=True):
        if taken:
            names, offsets = list(live.names[slot]), live.offsets[slot]
            states_alone, names_alone, offsets_alone = load_snapshot(job, data)
            assert (names, offsets) == (names_alone, offsets_alone)
            assert job.encode(live.states(slot), names, offsets) == _again(job, states_alone, names, offsets)


def _again(job: Job, states: dict, names: list[str], offsets: dict) -> bytes:
    """After a load, which may fill in what a state left out."""
    saved = {}
    for name, stage in job.own.items():
        work = stage.workspace(states[name])
        stage.load(work, 0, states[name])
        saved[name] = stage.save(work, 0, states[name])
    return job.encode(saved, names, offsets)


@each_job
def test_what_good_states_become_is_never_left_to_the_long_way(which):
    """Else nobody would notice that a stage's states are all read alone."""
    job = stateful(which)
    live = Live(job, dict.fromkeys([b"a", b"b"], moments("state", which)[-1]).get)
    assert live.columns is not None
    live.tick()
    live.enter([b"a", b"b"])
    data = [moments("state", which)[-1]] * 2
    assert live.columns.decode(data, [0, 1], live.offsets, live.names, job.most_names, job.given_names) == [True, True]


@pytest.mark.parametrize("parked", [(), (b"a", b"c")])
def test_a_damaged_snapshot_among_good_ones_sets_its_key_aside_and_no_other(parked):
    job = stateful(0)
    data = moments("state", 0)[-1]
    stored = {b"a": data, b"b": data[:-30] + b"x" + data[-29:], b"c": data}
    live = Live(job, stored.get)
    live.parked.add(parked, [data] * len(parked))
    live.tick()
    live.enter([b"a", b"b", b"c"])
    assert live.slot_of.keys() == {b"a", b"c"} and b"b" in live.aside and len(live.aside) == 1
    assert live.encode([live.slot_of[b"a"], live.slot_of[b"c"]]) == [data, data]


EACH = {"watch": ["columns", "innovations"], "false_alarms": "1 per 3000 rows", "each": True}


@pytest.mark.parametrize("job", [stateful(0), Job.from_settings(settings(window=None, drift=EACH))], ids=["one", "each"])
def test_seeds_of_new_keys_are_their_own(job):
    live = Live(job, {}.get)
    assert live.new_keys is not None
    live.tick()
    live.enter([b"a", b"b", b"c"])
    for key in (b"a", b"b", b"c"):
        made, alone_made = live.states(live.slot_of[key]), job.init(key)
        for name, state in made.items():
            for got, want in zip(snapshot.flatten(state), snapshot.flatten(alone_made[name]), strict=True):
                np.testing.assert_array_equal(got, want)
