"""Last applied offsets of live keys."""

import random

from streamjobs.core.live.slots import LastOffsets

NOW, OLD, OTHER = ("imu", 3), ("imu.v1", 3), ("imu", 7)


def test_offsets_are_those_of_a_dict_for_each_key_in_its_order():
    rnd, slots = random.Random(7), 4
    applied, expected = LastOffsets(slots), [{} for _ in range(slots)]
    for _ in range(3_000):
        slot, source = rnd.randrange(slots), rnd.choice((NOW, NOW, NOW, OLD, OTHER))
        match rnd.randrange(8):
            case 0:  # its snapshot is read, in whatever order its offsets are stored
                sources = rnd.sample((NOW, OLD, OTHER), rnd.randrange(4))
                expected[slot] = {one: rnd.randrange(-5, 1 << 40) for one in sources}
                applied[slot] = dict(expected[slot])
            case 1 if slots < 40:
                slots += 1
                applied.grow(slots)
                expected.append({})
            case _:
                offset = rnd.randrange(1 << 40)
                assert int(applied.of(source)[slot]) == expected[slot].get(source, int(applied.of(source)[slot]))
                if source in expected[slot] or source == NOW:
                    applied.of(source)[slot] = expected[slot][source] = offset
        for at in range(slots):
            assert applied[at] == expected[at]


def test_a_key_of_one_source_keeps_no_object():
    applied = LastOffsets(2)
    applied[0], applied[1] = {NOW: 5}, {OLD: 3, NOW: 4}
    applied.of(NOW)[0] = 6
    assert applied[0] == {NOW: 6} and list(applied[1].items()) == [(OLD, 3), (NOW, 4)]
    assert list(applied._others) == [1]
