"""A head without a label: no row in memory, no bytes in its snapshot, and the same bits as if it had both."""

import json

import numpy as np
import pytest

from algorithms import LEARNERS, learner_from
from streamjobs.core.job import Job
from streamjobs.core.live.forms import Forms
from streamjobs.core.live.slots import FIRST_SLOTS
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import LEAVES_OUT, VERSION, LeftOut, flatten
from streamjobs.errors import ForeignStateError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.summary import details
from tests.core.driving import same_bits
from tests.core.people import COMPACT, job_of_people
from tests.core.streams import Worker, samples, settings, values

RECORDS = samples(2400, keys=24)
TAUGHT = [b"p3", b"p17"]  # from the middle of the records on


@pytest.fixture(scope="module")
def people() -> Job:
    return job_of_people()


def linear() -> Job:
    """A head on the columns themselves, without a population."""
    one = {"name": "rls", "task": "classification", "classes": ["run", "sit"]}
    return Job.from_settings(settings(learner=one, head=None, window={"length": "1s", "hop": "0.5s", "rate": 10}))


def few_labels() -> list:
    records = []
    for at, one in enumerate(RECORDS):
        body = json.loads(one.value)
        if at < 1200 or one.key not in TAUGHT:
            body.pop("activity", None)
        records.append(one._replace(value=json.dumps(body).encode()))
    return records


@pytest.mark.parametrize("most_bytes", [1 << 30, 1])
@pytest.mark.parametrize("kind", ["people", "linear", "compact"])
def test_outputs_and_states_are_those_of_whole_heads(kind, most_bytes, people):
    job = {"people": lambda: people, "linear": linear, "compact": lambda: job_of_people(**COMPACT)}[kind]()
    shared, whole = Worker(job, most_bytes=most_bytes), Worker(job._replace(untaught=None), most_bytes=most_bytes)
    assert isinstance(shared.live.columns, Forms) and whole.live.heads is None
    records = few_labels()
    for begin in range(0, len(records), 97):
        part = records[begin : begin + 97]
        assert values(shared.apply(part)) == values(whole.apply(part))
        if begin % 3 == 0:
            shared.checkpoint()
            whole.checkpoint()
        if begin == 97 * 15:
            shared.crash()
            whole.crash()
    shared.checkpoint()
    whole.checkpoint()
    assert shared.store.keys() == whole.store.keys()
    for key, data in shared.store.items():
        ours, theirs = decode_snapshot(job, data), decode_snapshot(job, whole.store[key])
        assert ours[1:] == theirs[1:] and all(same_bits(ours[0][name], theirs[0][name]) for name in job.own)
        assert data[2] == (VERSION if key in TAUGHT and kind != "compact" else LEAVES_OUT)
        assert (data == whole.store[key]) == (key in TAUGHT and kind != "compact")
        assert len(whole.store[key]) - len(data) >= 0.95 * (job.untaught.constant_nbytes if kind == "compact" else 0)
    if most_bytes > 1:
        assert shared.live.heads.taken == len(TAUGHT)


def test_a_head_without_a_label_takes_no_bytes(people):
    shared, whole = Worker(people), Worker(people._replace(untaught=None))
    for worker in (shared, whole):
        worker.apply(few_labels()[:1200])
        worker.checkpoint()
    less = len(whole.store[b"p0"]) - len(shared.store[b"p0"])
    assert less > 0.95 * people.untaught.nbytes
    assert whole.live.nbytes - shared.live.nbytes > 20 * shared.live.heads.row_bytes
    assert sum(map(len, shared.store.values())) <= shared.live.snapshot_bytes * 24 - people.untaught.nbytes * 24


def test_a_whole_head_that_is_a_new_keys_is_read_and_written_without(people):
    old, now = Worker(people._replace(untaught=None)), Worker(people)
    old.apply(few_labels()[:1200])
    old.checkpoint()
    read = Worker(people, dict(old.store))
    read.live.enter([b"p0", b"p1"])
    assert read.live.heads.taken == 0
    now.apply(few_labels()[:1200])
    now.checkpoint()
    for key, data in old.store.items():
        assert data[2] == VERSION
        assert people.encode(*decode_snapshot(people, data)) == now.store[key]
        assert people.encode(*decode_snapshot(people, now.store[key])) == now.store[key]


def test_what_other_settings_would_give_is_not_put_in_its_place(people):
    worker = Worker(people)
    worker.apply(few_labels()[:1200])
    worker.checkpoint()
    held = snapshot.decode(worker.store[b"p0"])
    at = next(iter(people.untaught.left_out))
    assert isinstance(held.arrays[at], LeftOut)
    arrays = [*held.arrays]
    arrays[at] = LeftOut(bytes(8))
    changed = snapshot.encode(held._replace(arrays=arrays))
    with pytest.raises(ForeignStateError, match="leaves out field weights, because it was as in a new key"):
        decode_snapshot(people, changed)
    assert snapshot.encode(snapshot.decode(changed)) == changed


def test_state_show_has_the_bytes_of_each_part(people):
    worker = Worker(people)
    worker.apply(few_labels())
    worker.checkpoint()
    shown = {key: details(people, Entry(0, key, data, 0, 0)) for key, data in worker.store.items() if key in (b"p0", b"p3")}
    assert shown[b"p0"]["parts"]["learner"] == 8  # the number of its rows
    assert shown[b"p3"]["parts"]["learner"] == 8 + people.untaught.nbytes
    for key, one in shown.items():
        assert 0.75 * len(worker.store[key]) - 1000 < sum(one["parts"].values()) < len(worker.store[key])


def test_rows_of_heads_stay_within_the_bytes_of_the_cache(people):
    """All keys come without labels, then all with: keys leave so that heads have room."""
    whole = Worker(people._replace(untaught=None))
    bound = 40 * whole.live.slot_bytes
    worker = Worker(people, most_bytes=bound)
    records = samples(12_000, keys=200)
    for begin in range(0, len(records), 10):
        part = records[begin : begin + 10]
        if begin < 6000:
            part = [one._replace(value=json.dumps(json.loads(one.value) | {"activity": None}).encode()) for one in part]
        assert values(worker.apply(part)) == values(whole.apply(part))
        assert sum(work.nbytes for work in worker.live.work.values()) <= bound
        if begin == 6000:
            many = worker.live.keys
    assert many > 1.5 * 40 and worker.live.keys >= FIRST_SLOTS < worker.live.heads.taken
    worker.checkpoint()


def test_a_model_that_new_keys_start_from_is_stored_with_each_key(people):
    """The file of [state] start_from may go: what is stored does not depend on it."""
    taught = Worker(people)
    taught.apply(RECORDS)
    states, names = taught.live.states(taught.live.slot_of[b"p0"]), list(people.names())
    job = people._replace(start={"states": {"learner": states["learner"]}, "names": names})
    worker = Worker(job)
    assert worker.live.heads is None
    worker.apply(few_labels()[:1200])
    worker.checkpoint()
    assert {data[2] for data in worker.store.values()} == {VERSION}


@pytest.mark.parametrize("name", [name for name, learner in LEARNERS.items() if learner.label_taught])
def test_rows_without_labels_change_nothing_but_their_number(name):
    learner, rnd = learner_from(name, {}), np.random.default_rng(1)
    begun = learner.init(dim=4, targets=3, seed=0)
    Y = np.where(rnd.random((60, 1)) < 0.5, 1.0, -1.0) * np.ones((1, 3))
    for state in (begun, learner.run(begun, rnd.normal(size=(60, 4)), Y)[0]):
        X = rnd.normal(size=(30, 4))
        X[::7, 1] = np.nan
        after, _ = learner.run(state, X, np.full((30, 3), np.nan))
        assert after._fields[-1] == "seen" and after.seen == state.seen + 25
        assert same_bits(flatten(after)[:-1], flatten(state)[:-1])
