"""Answers about a group: an error in one is never taken for a group without offsets or members."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from streamjobs.kafka import groups

UNAVAILABLE = GroupCoordinatorNotAvailableError.errno
PLACES = [TopicPartition("in", 0), TopicPartition("in", 1)]


class Admin:
    """Of aiokafka: gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def find_coordinator(self, group: str) -> int:
        return 1

    async def _send_request(self, request: Any, node: int) -> Any:
        return self.answer

    async def describe_consumer_groups(self, *_: Any, **__: Any) -> Any:
        return [SimpleNamespace(groups=[self.answer])]

    async def list_consumer_group_offsets(self, *_: Any, **__: Any) -> Any:
        return self.answer


def commits(code: int = 0, partition_code: int = 0) -> Any:
    topics = [("in", [(0, 7, "progress=9", 0), (1, -1, "", partition_code)])]
    return groups.all_commits(Admin(SimpleNamespace(error_code=code, topics=topics)), "job")


def test_a_groups_offsets_come_with_their_metadata() -> None:
    found = [OffsetAndMetadata(7, "progress=9"), OffsetAndMetadata(-1, "")]
    assert asyncio.run(commits()) == dict(zip(PLACES, found, strict=True))


@pytest.mark.parametrize("codes", [(UNAVAILABLE, 0), (0, UNAVAILABLE)])
def test_offsets_that_a_broker_does_not_tell_are_not_missing_offsets(codes: tuple[int, int]) -> None:
    """States would count as new, and outputs be sent again."""
    with pytest.raises(KafkaError, match="group job"):
        asyncio.run(commits(*codes))


def test_members_that_a_broker_does_not_tell_are_not_none() -> None:
    """States would be changed beside a worker."""
    with pytest.raises(KafkaError, match="group job"):
        asyncio.run(groups.description(Admin((UNAVAILABLE, "job", "", "", "", [], 0)), "job"))


def test_offsets_of_an_incomplete_answer_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {PLACES[0]: OffsetAndMetadata(7, ""), PLACES[1]: OffsetAndMetadata(-1, "")}
    monkeypatch.setattr(groups, "_asked", lambda client, question: asyncio.run(question(Admin(answer))))
    assert groups.committed({}, "job", PLACES) == {0: 7, 1: 0}
    del answer[PLACES[1]]
    with pytest.raises(KafkaError, match="group job"):
        groups.committed({}, "job", PLACES)
