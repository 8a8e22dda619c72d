"""A worker that the group does not know any more joins again, unless another one has its instance id."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
from aiokafka.errors import KafkaConnectionError, KafkaError, UnknownMemberIdError

from streamjobs.kafka import patches
from streamjobs.kafka.patches import instances
from streamjobs.kafka.patches.instances import FENCED_INSTANCE_ID, TakenInstance

JOINED = "assignment"


def joins(
    monkeypatch: pytest.MonkeyPatch, answer: Any, name: str | None = "one", *, fails: bool = False
) -> tuple[Any, list[Any]]:
    """What joining gives after the group has forgotten the member, and what the broker was asked before.

    answer: of the broker, an error code or what is raised.
    fails: a member that the group has not forgotten yet, and joining raises.
    """
    patches.apply()
    asked: list[Any] = []

    async def ask(request: Any) -> Any:
        asked.append(request.prepare({12: (0, 4)}))
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(error_code=answer)

    async def join(_: Any) -> str:
        if fails:
            raise KafkaError("an answer that aiokafka does not know")
        return JOINED

    monkeypatch.setattr(instances, "_join", join)
    coordinator = SimpleNamespace(
        group_id="job", generation=7, member_id="m7", _group_instance_id=name, _send_req=ask, request_rejoin=lambda: None
    )
    if not fails:
        GroupCoordinator.reset_generation(coordinator)  # type: ignore[arg-type]
        assert not coordinator.member_id
    rebalance: Any = SimpleNamespace(_coordinator=coordinator)
    return asyncio.run(CoordinatorGroupRebalance.perform_group_join(rebalance)), asked


@pytest.fixture(autouse=True)
def not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TakenInstance, "name", "")


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_with_an_id_that_another_one_has_taken_does_not_join(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    joined, (asked,) = joins(monkeypatch, FENCED_INSTANCE_ID, fails=fails)
    assert joined is None and TakenInstance.name == "one"
    assert asked.encode() == b"\0\3job" + b"\0\0\0\7" + b"\0\2m7" + b"\0\3one"


@pytest.mark.parametrize("answer", [UnknownMemberIdError.errno, 0, KafkaConnectionError(), NotImplementedError()])
def test_a_worker_with_a_session_that_is_over_joins_again(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    joined, asked = joins(monkeypatch, answer)
    assert joined == JOINED and len(asked) == 1 and not TakenInstance.name
    with pytest.raises(KafkaError, match="does not know"):
        joins(monkeypatch, answer, fails=True)


def test_a_worker_without_an_id_joins_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    assert joins(monkeypatch, FENCED_INSTANCE_ID, None) == (JOINED, [])
    with pytest.raises(KafkaError, match="does not know"):
        joins(monkeypatch, FENCED_INSTANCE_ID, None, fails=True)
