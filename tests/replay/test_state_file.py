"""A replay keeps the states of keys that have left memory in a file; outputs and states do not depend on it."""

import gc
import random
import tempfile

import pytest

from streamjobs.errors import SetupError
from streamjobs.replay.engine import StateFile


def test_the_newest_snapshot_of_each_key_is_read_back_whatever_its_length():
    random.seed(3)
    stored, expected = StateFile(), {}
    for _ in range(300):
        key = ("t", random.randrange(2), b"k%d" % random.randrange(9))
        expected[key] = random.randbytes(random.choice((0, 5, 5, 5, 4000)))
        stored.write(*key[:2], [(key[2], expected[key])])
    assert list(stored) == list(expected.items())
    assert stored.read_many("t", 1, [b"k3", b"none"]) == [expected["t", 1, b"k3"], None]


def test_snapshots_of_the_same_length_need_no_more_room():
    stored = StateFile()
    for n in range(50):
        stored.write("t", 0, [(b"a", b"%06d" % n), (b"b", b"%06d" % n)])
    assert stored._end == 12 and stored.read_many("t", 0, [b"b"]) == [b"000049"]


def test_a_full_disk_is_one_sentence(monkeypatch):
    stored = StateFile()

    class Full:
        def seek(self, at):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(stored, "_file", Full())
    with pytest.raises(SetupError, match=r"No space left on device.*set TMPDIR") as raised:
        stored.write("t", 0, [(b"a", b"1")])
    assert str(raised.value).startswith(tempfile.gettempdir())


def test_the_file_is_closed_when_it_is_no_longer_used():
    stored = StateFile()
    file = stored._file
    del stored
    gc.collect()
    assert file.closed
