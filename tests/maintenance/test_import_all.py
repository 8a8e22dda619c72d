"""`state import --all`: where each state of a copy goes, and with which offsets."""

import pytest

from streamjobs.core.job import Job
from streamjobs.core.partitioners import crc32
from streamjobs.core.state import snapshot
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.maintenance.copies import Copy, Entry
from streamjobs.maintenance.renew import Placed, place_all
from tests.core.streams import TOPIC, samples, settings
from tests.maintenance.copying import WRITTEN, stored

KEYS = 12
JOB = Job.from_settings(settings())


@pytest.fixture(scope="module")
def states() -> dict[bytes, bytes]:
    return stored(JOB, samples(240, keys=KEYS))


def copied(states: dict[bytes, bytes], partitions: int) -> Copy:
    """The copy of a changelog whose keys are where crc32 puts them, and have applied offset 100 + partition there."""
    entries = {}
    for at, (key, data) in enumerate(sorted(states.items())):
        number = crc32(key, partitions)
        held = snapshot.encode(snapshot.decode(data)._replace(offsets={(TOPIC, number): 100 + number}))
        entries[number, key] = Entry(number, key, held, at, WRITTEN)
    return Copy(
        "wrist", "wrist-state-changelog", JOB.fingerprint.hex(), WRITTEN, dict.fromkeys(range(partitions), 50), entries
    )


def nothing(partitions: int) -> Copy:
    return Copy("wrist", "wrist-state-changelog", JOB.fingerprint.hex(), WRITTEN, dict.fromkeys(range(partitions), 0), {})


def held(placed: Placed) -> dict[tuple[int, bytes], bytes]:
    return {(number, key): data or b"" for number, changed in placed.changes.items() for key, data in changed}


def test_with_as_many_partitions_every_state_is_the_copys_to_the_bit(states: dict[bytes, bytes]) -> None:
    copy = copied(states, 4)
    placed = place_all(JOB, copy, nothing(4), 4)
    assert held(placed) == {place: entry.data for place, entry in copy.entries.items()}
    assert (placed.states, placed.beginning, placed.foreign, placed.older, placed.elsewhere) == (KEYS, 0, 0, [], 0)


@pytest.mark.parametrize("partitions", [2, 3, 8])
def test_with_another_number_states_go_where_producers_send_their_keys(states: dict[bytes, bytes], partitions: int) -> None:
    copy = copied(states, 4)
    placed = place_all(JOB, copy, nothing(partitions), partitions, "crc32")
    found = held(placed)
    assert found.keys() == {(crc32(key, partitions), key) for key in states}
    for (number, key), data in found.items():
        before, now = snapshot.decode(states[key]), snapshot.decode(data)
        moved = number != crc32(key, 4)
        assert now.offsets == ({} if moved else {(TOPIC, number): 100 + number})
        assert snapshot.encode(now._replace(offsets={})) == snapshot.encode(before._replace(offsets={}))
    assert placed.beginning == sum(crc32(key, partitions) != crc32(key, 4) for key in states) > 0


def test_states_of_another_input_topic_begin_with_the_first_record(states: dict[bytes, bytes]) -> None:
    job = Job.from_settings(
        settings(source={"topic": "new", "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity"})
    )
    placed = place_all(job, copied(states, 4), nothing(4), 4)
    assert placed.beginning == KEYS and all(not snapshot.decode(data).offsets for data in held(placed).values())


def test_offsets_that_the_changelog_has_stay_where_they_are_higher(states: dict[bytes, bytes]) -> None:
    copy, further = copied(states, 4), nothing(2)
    first, second = sorted(states)[:2]
    for key, offset in ((first, 7), (second, 9_000)):
        number = crc32(key, 2)
        data = snapshot.encode(snapshot.decode(states[key])._replace(offsets={(TOPIC, number): offset}))
        further.entries[number, key] = Entry(number, key, data, 0, WRITTEN)
    found = held(place_all(JOB, copy, further, 2, "crc32"))
    for key, offset in ((first, 7), (second, 9_000)):
        number = crc32(key, 2)
        kept = 100 + number if number == crc32(key, 4) else 0  # what the copy says counts in its own partition
        assert snapshot.decode(found[number, key]).offsets == {(TOPIC, number): max(offset, kept)}


def test_it_is_never_guessed_where_a_state_belongs(states: dict[bytes, bytes]) -> None:
    copy = copied(states, 4)
    with pytest.raises(
        ConfigError, match=r"the copy is of 4 partitions, wrist-state-changelog has 8 now; name the producers'"
    ):
        place_all(JOB, copy, nothing(8), 8)
    with pytest.raises(
        ConfigError, match=r"--partitioner murmur2: in the copy, which has \d+ partitions, \d+ of 12 keys are"
    ):
        place_all(JOB, copy, nothing(8), 8, "murmur2")
    with pytest.raises(ConfigError, match="expected one of murmur2, crc32, fnv1a, keep, got 'crc'"):
        place_all(JOB, copy, nothing(8), 8, "crc")
    with pytest.raises(ConfigError, match="its state was in partition 3, and there are 3 now"):
        place_all(JOB, copy, nothing(3), 3, "keep")
    kept = held(place_all(JOB, copy, nothing(8), 8, "keep"))
    assert kept == {place: entry.data for place, entry in copy.entries.items()}


def test_of_two_states_of_a_key_for_one_partition_the_later_one_is_taken_and_reported(states: dict[bytes, bytes]) -> None:
    copy, key = copied(states, 300), min(states)  # with so many keys elsewhere is one of a hundred
    many = {b"%d" % n: states[key] for n in range(300)}
    copy = copied(many, 4)
    number = crc32(b"0", 4)
    older = copy.entries[number, b"0"]._replace(partition=(number + 1) % 4, timestamp=WRITTEN - 1, data=states[max(states)])
    copy.entries[older.partition, b"0"] = older
    placed = place_all(JOB, copy, nothing(2), 2, "crc32")
    assert placed.older == ["0"] and placed.states == 300
    taken, later = held(placed)[crc32(b"0", 2), b"0"], states[key]
    same = [snapshot.encode(snapshot.decode(one)._replace(offsets={})) for one in (taken, later, older.data)]
    assert same[0] == same[1] != same[2]


def test_a_key_with_a_state_in_another_partition_is_reported(states: dict[bytes, bytes]) -> None:
    copy = copied(states, 4)
    assert place_all(JOB, copy, copied(states, 2), 4).elsewhere == sum(crc32(key, 4) != crc32(key, 2) for key in states) > 0


def test_a_state_of_another_job_stops_everything(states: dict[bytes, bytes]) -> None:
    copy = copied(states, 4)
    place, entry = next(iter(copy.entries.items()))
    copy.entries[place] = entry._replace(data=b"SJ of nobody")
    with pytest.raises(SnapshotError, match="key 'p"):
        place_all(JOB, copy, nothing(4), 4)
