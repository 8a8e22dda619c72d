"""Lets states continue where the broker has lost records of the input that they have learned from."""

from collections.abc import Mapping

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from streamjobs.core.state import snapshot
from streamjobs.errors import SetupError, SnapshotError
from streamjobs.kafka import client, groups
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.topic_id import PROGRESS, epoch_of, progress_of
from streamjobs.maintenance.copies import Entry
from streamjobs.settings.sections import Settings


def first_lost(settings: Settings, commits: Mapping[int, Commit]) -> dict[int, int]:
    """partition -> the first offset of the records that the group has read and the broker has lost, see `patches.epochs`.

    Raises SetupError if the broker does not tell, or a partition has no leader.
    """
    epochs = {number: epoch_of(one.metadata) for number, one in commits.items()}
    asked = {TopicPartition(settings.source.topic, number): one for number, one in epochs.items() if one is not None}
    try:
        ends = groups.ends_of_epochs(client.for_aiokafka(settings.broker), asked) if asked else {}
    except KafkaError as error:
        raise client.unanswered(settings.broker, error) from None
    if silent := sorted(place.partition for place in asked.keys() - ends.keys()):  # their epoch would be forgotten too
        raise SetupError(
            f"topic {settings.source.topic}{silent}: no leader answers; nothing was changed. Repeat the command later."
        )
    return {place.partition: end for place, end in ends.items() if 0 <= end < progress_of(*commits[place.partition])}


def commit_before(end: int, commit: Commit) -> Commit:
    """The commit that continues with the record that now has offset `end`."""
    return Commit(min(commit.offset, end), f"{PROGRESS}{end}")


def without_lost(entry: Entry, end: int) -> bytes | None:
    """The same state as if its last record were before `end`; None where that is so, or it is damaged."""
    try:
        decoded = snapshot.decode(entry.data)
    except SnapshotError:
        return None
    kept = {
        place: min(offset, end - 1) if place[1] == entry.partition else offset
        for place, offset in decoded.offsets.items()
        if place[1] != entry.partition or end > 0
    }
    return None if kept == decoded.offsets else snapshot.encode(decoded._replace(offsets=kept))
