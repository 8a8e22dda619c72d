"""Recordings that play together: in the order of their own times, those of one key one after the other."""

from typing import ClassVar

from streamjobs.commands.recordings.produce import together
from streamjobs.core.messages import Stored
from streamjobs.kafka.send import UNREAD
from tests.commands.jobs import command


def recording(key, *seconds, begin=1_700_000_000):
    return iter([Stored("t", 0, n, round(1000 * (begin + one)), key, b"") for n, one in enumerate(seconds)])


def test_people_play_at_once_from_their_own_first_record():
    played, count, keys = together([recording(b"a", 0, 1, 4), recording(b"b", 0, 2, begin=1_800_000_000), iter(())])
    assert (count, keys) == (2, 2)
    assert [(seconds, one.key) for seconds, one in played] == [(0, b"a"), (0, b"b"), (1, b"a"), (2, b"b"), (4, b"a")]


def test_recordings_of_one_key_follow_each_other_without_the_days_between_them():
    played, count, keys = together([recording(b"a", 0, 3), recording(b"a", 0, 1, begin=1_800_000_000)])
    assert (count, keys) == (2, 1)
    assert [(seconds, one.offset) for seconds, one in played] == [(0, 0), (3, 1), (3, 0), (4, 1)]


def test_times_that_go_back_or_cannot_be_read_do_not_turn_the_order_round():
    records = [*recording(b"a", 0, 5, 2), Stored("t", 0, 3, UNREAD, b"a", b""), *recording(b"a", 6)]
    played, _, _ = together([iter(records)])
    assert [seconds for seconds, _ in played] == [0, 5, 5, 5, 6]


def test_times_that_count_from_zero_are_no_numbers_of_rows():
    played, _, _ = together([recording(b"a", 0, 0.001, 0.002, begin=0)])
    assert [seconds for seconds, _ in played] == [0, 0.001, 0.002]


class Sent:
    """A sender that keeps what it is given, and does not wait."""

    records: ClassVar[list[Stored]] = []

    def __init__(self, *place: object) -> None:
        self.sent = self.acknowledged = 0
        self.records.clear()

    def send(self, records, *, stamped, progress):
        self.records.extend(records)

    def wait_until(self, moment):
        pass


def test_a_folder_is_played_as_its_people_together_and_says_when_it_waits(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("streamjobs.kafka.send.Sender", Sent)
    for name, begin, pause in (("anna", 1_700_000_000, 2), ("ben", 1_700_009_000, 50)):
        lines = [f"{begin + pause * step},{step}" for step in range(3)]
        (tmp_path / "people").mkdir(exist_ok=True)
        (tmp_path / "people" / f"{name}.csv").write_text("\n".join(["ts,a", *lines]) + "\n")
    job = tmp_path / "job.toml"
    job.write_text('[source]\ntopic = "t"\nfields = ["a"]\ntime = "ts"\n[learner]\nname = "okfeb"\nrank = 1\nbudget = 3\n')
    assert command("produce", job, tmp_path / "people", "--key-from", "file", "--speed", 1) == 0
    assert b" ".join(one.key for one in Sent.records) == b"anna ben anna anna ben ben"
    said = capsys.readouterr().err
    assert "2 recordings of 2 keys play at once, each key from its first record on" in said
    assert "waiting 100 s for the next record: it is 100 s after the first, at --speed 1" in said
