"""What of a group's commits shows that the broker has lost records which were read."""

import pytest
from aiokafka.structs import TopicPartition

from streamjobs.core.state.snapshot import Offsets, Snapshot, encode
from streamjobs.errors import SetupError
from streamjobs.kafka import groups
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.patches.epochs import UNKNOWN
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import commit_before, first_lost, without_lost
from tests.core.streams import TOPIC, settings

COMMITS = {
    0: Commit(5, "changelog=x progress=9 leader-epoch=4"),
    1: Commit(7, "leader-epoch=4"),
    2: Commit(7, "leader-epoch=4"),
    3: Commit(7, "of a release without epochs"),
}


def test_records_are_lost_where_a_leader_ends_before_what_was_read(monkeypatch) -> None:
    ends = {TopicPartition(TOPIC, number): end for number, end in enumerate((8, 7, UNKNOWN))}
    monkeypatch.setattr(groups, "ends_of_epochs", lambda client, epochs: {place: ends[place] for place in epochs})
    assert first_lost(settings(), COMMITS) == {0: 8}
    assert commit_before(8, COMMITS[0]) == (5, "progress=8") and commit_before(3, COMMITS[0]) == (3, "progress=3")


def test_a_state_that_has_learned_lost_records_goes_on_with_those_that_have_their_offsets() -> None:
    def state(offsets: Offsets) -> bytes:
        return encode(Snapshot(bytes(16), "{}", offsets, [], []))

    entry = Entry(0, b"k", state({(TOPIC, 0): 9, (TOPIC, 1): 9}), 0, 0)
    assert without_lost(entry, 8) == state({(TOPIC, 0): 7, (TOPIC, 1): 9})
    assert without_lost(entry, 0) == state({(TOPIC, 1): 9})
    assert without_lost(entry, 10) is None and without_lost(entry._replace(data=entry.data[:-1]), 8) is None


def test_a_partition_without_a_leader_changes_nothing(monkeypatch) -> None:
    """A commit without its epoch would hide what it has lost."""
    monkeypatch.setattr(groups, "ends_of_epochs", lambda client, epochs: {TopicPartition(TOPIC, 0): 8})
    with pytest.raises(SetupError, match=r"\[1, 2\]: no leader answers; nothing was changed"):
        first_lost(settings(), COMMITS)
