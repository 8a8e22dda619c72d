"""Reset, import and export: what a key has seen it never learns twice, and what it begins with is what is said."""

import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, starting_from
from streamjobs.core.state import snapshot
from streamjobs.errors import SnapshotError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import (
    exported_model,
    relearned_snapshot,
    reset_snapshot,
    restored_snapshot,
    snapshot_from_model,
)
from tests.core.people import job_of_people
from tests.core.streams import Worker, samples, settings, values
from tests.maintenance.copying import at, copy_of, stored

RECORDS = samples(360)
HALF = 180
KEY = b"p1"


@pytest.fixture(scope="module", params=["own map", "population"])
def job(request) -> Job:
    return Job.from_settings(settings()) if request.param == "own map" else job_of_people()


@pytest.fixture(scope="module")
def half(job) -> dict[bytes, bytes]:
    return stored(job, RECORDS[:HALF])


def entry_of(job: Job, store: dict[bytes, bytes], key: bytes = KEY) -> Entry:
    return copy_of(job, store).entries[0, key]


def without_offsets(data: bytes) -> bytes:
    return snapshot.encode(snapshot.decode(data)._replace(offsets={}))


def test_a_reset_key_learns_only_what_comes_after_even_where_all_input_is_read_again(job, half):
    empty = reset_snapshot(job, entry_of(job, half))
    again = Worker(job, half | {KEY: empty})
    outputs = values(again.apply(RECORDS))  # the offsets of the group are lost
    again.checkpoint()
    fresh = Worker(job)
    wanted = values(fresh.apply(RECORDS[HALF:]))
    fresh.checkpoint()
    assert [output for output in outputs if output[1] == KEY] == [output for output in wanted if output[1] == KEY]
    assert again.store[KEY] == fresh.store[KEY]
    others = stored(job, RECORDS)
    assert all(again.store[key] == others[key] for key in (b"p0", b"p2"))


def test_a_state_of_other_settings_can_be_reset_and_a_damaged_one_is_ended(job, half):
    other = Job.from_settings(settings(learner={"name": "okfeb", "rank": 2, "budget": 4}))
    entry = entry_of(job, half)
    states, _, offsets = decode_snapshot(other, reset_snapshot(other, entry))
    assert states["books"].rows == 0 and offsets == snapshot.decode(entry.data).offsets
    assert reset_snapshot(other, entry._replace(data=entry.data[:-9])) is None


def test_a_relearned_key_keeps_its_offsets_and_its_model(job, half):
    given = relearned_snapshot(job, entry_of(job, half))
    assert snapshot.decode(given).offsets == snapshot.decode(half[KEY]).offsets != {} and given != half[KEY]
    now, before = (snapshot.flatten(decode_snapshot(job, one)[0]["learner"]) for one in (given, half[KEY]))
    assert [array.tobytes() for array in now] == [array.tobytes() for array in before]


def test_an_exported_model_is_the_one_live_states_export(job, half):
    assert exported_model(job, entry_of(job, half)) == Live(job, half.get).export(KEY)


def test_an_imported_model_starts_a_key_as_start_from_does_and_keeps_the_offsets(job, half):
    model = exported_model(job, entry_of(job, half, b"p0"))
    given = snapshot_from_model(job, model, KEY, entry_of(job, half))
    assert snapshot.decode(given).offsets == snapshot.decode(half[KEY]).offsets
    warm = Live(starting_from(job, model), {}.get)
    slot = warm.slot(KEY)
    warm.dirty.add(slot)
    assert dict(warm.snapshots())[KEY] == without_offsets(given)
    assert snapshot.decode(snapshot_from_model(job, model, b"new", None)).offsets == {}
    with pytest.raises(SnapshotError):
        snapshot_from_model(job, model[:-1], KEY, None)


def test_a_saved_state_comes_back_to_the_bit_but_never_behind_the_present_offset(job, half):
    later = stored(job, RECORDS)
    saved, present = entry_of(job, half), entry_of(job, later)
    given = restored_snapshot(job, saved, KEY, present)
    assert without_offsets(given) == without_offsets(half[KEY])
    assert snapshot.decode(given).offsets == snapshot.decode(later[KEY]).offsets == at(358)
    assert restored_snapshot(job, saved, KEY, None) == half[KEY]
    assert snapshot.decode(restored_snapshot(job, saved, b"p0", None)).offsets == {}


def test_a_saved_state_of_a_former_input_skips_no_record_of_the_recreated_one(job, half):
    """The recreated topic's offsets count from 0 again; the group has passed 20 of them."""
    saved = entry_of(job, half)
    for present, offsets in ((None, {}), (entry_of(job, stored(job, RECORDS[:9])), at(7))):
        data = restored_snapshot(job, saved, KEY, present, foreign={0: 20})
        assert without_offsets(data) == without_offsets(half[KEY]) and snapshot.decode(data).offsets == offsets
    (offset,) = snapshot.decode(half[KEY]).offsets.values()
    assert restored_snapshot(job, saved, KEY, None, foreign={0: offset + 1}) == half[KEY]
    assert snapshot.decode(restored_snapshot(job, saved, KEY, None, foreign={0: offset})).offsets == {}
