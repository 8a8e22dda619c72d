"""Recordings that play together: in the order of their own times, those of one key one after the other."""

from streamjobs.commands.recordings.playing import together
from streamjobs.core.messages import Stored


def recording(key, *seconds, begin=1_700_000_000):
    return iter([Stored("t", 0, n, round(1000 * (begin + one)), key, b"") for n, one in enumerate(seconds)])


def test_people_play_at_once_from_their_own_first_record():
    played, count, keys = together([recording(b"a", 0, 1, 4), recording(b"b", 0, 2, begin=1_800_000_000), iter(())])
    assert (count, keys) == (2, 2)
    assert [(one.seconds, one.record.key) for one in played] == [(0, b"a"), (0, b"b"), (1, b"a"), (2, b"b"), (4, b"a")]


def test_recordings_of_one_key_follow_each_other_without_the_days_between_them():
    played, count, keys = together([recording(b"a", 0, 3), recording(b"a", 0, 1, begin=1_800_000_000)])
    assert (count, keys) == (2, 1)
    assert [(one.seconds, one.record.offset) for one in played] == [(0, 0), (3, 1), (3, 0), (4, 1)]


def test_times_that_go_back_or_cannot_be_read_do_not_turn_the_order_round():
    records = [*recording(b"a", 0, 5, 2), Stored("t", 0, 3, 3, b"a", b""), *recording(b"a", 6)]
    played, _, _ = together([iter(records)])
    assert [one.seconds for one in played] == [0, 5, 5, 5, 6]
