"""Stored bytes with a checksum that fits and nonsense inside are refused before a loop trusts them."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from algorithms import learner_from
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, load_snapshot, starting_from
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import Snapshot
from streamjobs.core.state.valid import StateCheck
from streamjobs.errors import SnapshotError
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.order import Order
from streamjobs.stages.stage import Shape
from tests.checks.examples import cases
from tests.core.people import job_of_people, late_labels
from tests.core.streams import Worker, samples, settings


@pytest.fixture(scope="module")
def job() -> Job:
    return job_of_people(labels={"wait": "30s"})


@pytest.fixture(scope="module")
def stored(job) -> bytes:
    worker = Worker(job)
    worker.apply(late_labels(samples(300)))
    worker.checkpoint()
    return worker.store[b"p1"]


def _with(job: Job, data: bytes, stage: str, field: str, change) -> bytes:
    """The snapshot with one field of a stage changed."""
    states, names, offsets = decode_snapshot(job, data)
    states[stage] = states[stage]._replace(**{field: change(getattr(states[stage], field))})
    return job.encode(states, names, offsets)


def _put(value):
    def change(array):
        changed = array.copy()
        changed.flat[0] = value
        return changed

    return change


CHANGES = {  # what would write outside an array, never end, or be no number
    "a class beyond the classes waits": ("waiting", "L", _put(7.0), "waiting.L"),
    "a class said beyond the classes": ("waiting", "said", _put(1 << 40), "waiting.said"),
    "half a class": ("waiting", "L", _put(0.5), "waiting.L"),
    "the last label is of no class": ("fallback", "latest", lambda _: 2, "fallback.latest"),
    "a window that ended centuries ago": ("windows", "origin", lambda _: 0.0, "windows.window"),
    "a window of no number": ("windows", "window", lambda _: -(1 << 62), "windows.window"),
    "a time of no year": ("order", "newest", lambda _: np.inf, "order.newest"),
    "more rows wait than ever do": ("waiting", "times", lambda times: np.repeat(times, 40_000), "waiting.times"),
    "rows without their times": ("waiting", "times", lambda times: times[:-1], "waiting.X"),
    "a head that is not finite": ("learner", "weights", _put(np.nan), "learner.weights"),
    "weights of another length": ("learner", "weights", lambda weights: weights[:-1], "learner.weights"),
    "a count about to wrap around": ("books", "rows", lambda _: 2**63 - 1, "books.rows"),
    "labels below none": ("books", "labelled", _put(-1), "books.labelled"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_state_no_stage_could_have_left_is_refused_by_its_field(job, stored, what):
    stage, field, change, named = CHANGES[what]
    with pytest.raises(SnapshotError, match=rf"field {named}: expected .* the stored state contradicts itself"):
        decode_snapshot(job, _with(job, stored, stage, field, change))


def test_classes_that_are_not_the_populations_or_too_many_are_refused(job, stored):
    states, names, offsets = decode_snapshot(job, stored)
    for others in (names[::-1], names[:1], [*names, "swim"], [*names, names[0]]):
        with pytest.raises(SnapshotError, match="classes"):
            decode_snapshot(job, job.encode(states, others, offsets))


def test_threads_that_share_a_job_get_the_answer_for_their_own_state(job, stored):
    states, names, _ = decode_snapshot(job, stored)
    wrong = states | {"learner": states["learner"]._replace(weights=_put(np.nan)(states["learner"].weights))}

    def refused(given) -> int:
        times = 0
        for _ in range(150):
            try:
                job.check(given, len(names))
            except SnapshotError:
                times += 1
        return times

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(refused, [states, wrong])) == [0, 150]
    finally:
        sys.setswitchinterval(before)


def test_what_a_stage_refuses_itself_is_a_snapshot_error_too():
    own = Job.from_settings(settings(window=None, drift=None))
    worker = Worker(own)
    worker.apply(samples(60))
    worker.checkpoint()
    states, names, offsets = decode_snapshot(own, worker.store[b"p0"])
    chain = states["learner"]
    shorter = chain._replace(extractor=chain.extractor._replace(factor=chain.extractor.factor[:-1].copy()))
    data = own.encode(states | {"learner": shorter}, names, offsets)
    live = Live(own, lambda key: data)
    assert live.slot(b"p0") is None and b"p0" in live.aside
    with pytest.raises(SnapshotError, match="contradicts itself"):
        load_snapshot(own, data)


@pytest.mark.parametrize("case", [case for case in cases() if case.learner.bounded], ids=lambda case: case.name)
def test_every_state_a_learner_leaves_is_taken_back(case):
    begun = case.init()
    check = StateCheck({"learner": LearnerStage(learner=case.learner)}, {"learner": begun})
    check({"learner": begun}, None)
    check({"learner": case.trained(40)}, None)


def test_a_model_that_has_seen_more_rows_than_there_can_be_is_no_start(job, stored):
    states, names, _ = decode_snapshot(job, stored)
    books = states["books"]._replace(rows=1 << 61, seen=states["books"].seen + (1 << 61))
    data = job.encode(states | {"books": books}, names, {})
    with pytest.raises(SnapshotError, match="more than there can be"):
        starting_from(job, data)


CROWDED = {  # as many rows as a loop needs room for while a row enters, and no state has
    "adwin": (learner_from("adwin", {}), 1, {"buckets": np.ones((122, 3))}),
    "window_ratio": (learner_from("window_ratio", {"short": 2, "long": 4}), 1, {"recent": np.ones((7, 1))}),
    "okfeb": (learner_from("okfeb", {"rank": 2, "budget": 4}), 3, {"far": np.ones((4, 3))}),
    "ispeed with more novel rows than its budget": (
        learner_from("ispeed", {"rank": 2, "seed_size": 6, "budget": 3}),
        3,
        {"waiting": np.ones((5, 3)), "wanted": np.ones((5, 1)), "marks": np.ones(5, np.int8)},
    ),
    "ispeed whose waiting rows are no dictionary": (
        learner_from("ispeed", {"rank": 2, "seed_size": 6, "budget": 3}),
        3,
        {"waiting": np.ones((5, 3)), "wanted": np.ones((5, 1)), "marks": np.zeros(5, np.int8)},
    ),
}


@pytest.mark.parametrize("what", CROWDED)
def test_a_state_that_leaves_a_loop_no_room_is_refused(what):
    learner, dim, rows = CROWDED[what]
    begun = learner.init(dim=dim, targets=1, seed=0)
    state = begun._replace(**rows)
    assert all(len(getattr(state, field)) <= learner.room(field) for field in learner.stored)
    with pytest.raises(ValueError, match=type(learner).__name__):
        learner.load(learner.workspace(state), 0, state)


def test_more_waiting_samples_than_may_wait_are_refused():
    order = Order(lateness=1.0, max_held=3)
    fresh = order.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0)
    state = fresh._replace(held_times=np.arange(4.0), held_X=np.ones((4, 1)), held_L=np.ones((4, 1)))
    with pytest.raises(ValueError, match="Order: held_times: expected at most 3 rows, got 4 rows"):
        order.load(order.workspace(state), 0, state)


def test_a_flag_that_is_not_known_and_an_offset_that_stands_there_twice_are_refused(stored):
    held = snapshot.decode(stored)
    for other in (stored[:3] + b"\x01" + stored[4:-4], _twice(held)):
        with pytest.raises(SnapshotError, match="although its checksum fits"):
            snapshot.decode(other + snapshot.CRC.pack(snapshot.zlib.crc32(other)))


def _twice(held: Snapshot) -> bytes:
    ((topic, partition), offset), *_ = held.offsets.items()
    other = snapshot.encode(held._replace(offsets={(topic, partition): offset, (topic, partition + 1): 5}))
    return other[:-4].replace(snapshot.I32I64.pack(partition + 1, 5), snapshot.I32I64.pack(partition, 5))


def test_a_description_nested_without_end_says_nothing(stored):
    held = snapshot.decode(stored)
    assert snapshot.described_by(snapshot.encode(held._replace(description="[" * 60_000))) == {}
    assert snapshot.described_by(stored) == json.loads(held.description)


def test_a_state_with_a_field_more_or_less_is_not_read_as_the_fields_behind_it(job, stored) -> None:
    held = snapshot.decode(stored)
    at = sum(snapshot.array_counts(state for name, state in job.template.items() if list(job.own).index(name) < 3))
    for arrays in (held.arrays[:at] + held.arrays[at + 1 :], [*held.arrays[:at], np.zeros(3), *held.arrays[at:]]):
        with pytest.raises(SnapshotError, match=f"holds {len(arrays)} arrays, which is not the number"):
            decode_snapshot(job, snapshot.encode(held._replace(arrays=arrays)))
