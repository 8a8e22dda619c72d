"""An `instance_id` that two workers have: aiokafka 0.14.0 lets each take the other's place in the group, for ever.

A member that the group does not know any more joins again, with its instance id. If its session was over, it has to. If
another worker joined with the id, the broker removes that one for it, and that one does the same a moment later. Neither
notices more than a rebalance, and the records since the last commit are applied again each time. A heartbeat that names the
instance id has another answer in each case.
"""

from contextlib import suppress
from typing import Any

from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct
from aiokafka.protocol.group import HeartbeatResponse_v1
from aiokafka.protocol.types import Int32, Schema, String

FENCED_INSTANCE_ID = 82  # the broker's error code

_reset = GroupCoordinator.reset_generation
_join = CoordinatorGroupRebalance.perform_group_join


class TakenInstance:
    """The instance id of this process with which another one has joined the group since; "" where none has."""

    name: str = ""


class HeartbeatResponse(HeartbeatResponse_v1):  # type: ignore[misc]
    API_VERSION = 3


class HeartbeatOfInstance(RequestStruct):  # type: ignore[misc]
    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = HeartbeatResponse
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class Heartbeat(Request[HeartbeatOfInstance]):  # type: ignore[misc]
    API_KEY = 12

    def __init__(self, *fields: Any) -> None:
        self._fields = fields

    def build(self, request_struct_class: type[HeartbeatOfInstance]) -> HeartbeatOfInstance:
        return request_struct_class(*self._fields)


def _remember_member(self: Any) -> None:
    if self._group_instance_id and self.member_id:
        self.former = self.generation, self.member_id
    _reset(self)


async def _join_unless_taken(self: Any) -> Any:
    """Join as before, unless another process has the instance id now: then the watchdog ends this one."""
    coordinator = self._coordinator
    if await _is_taken(coordinator):
        return None
    coordinator.former = None
    try:
        return await _join(self)
    except KafkaError:
        if not coordinator._group_instance_id or not coordinator.member_id:
            raise
        coordinator.former = coordinator.generation, coordinator.member_id
        if await _is_taken(coordinator):
            return None
        raise


async def _is_taken(coordinator: Any) -> bool:
    former, name = getattr(coordinator, "former", None), coordinator._group_instance_id
    if former is not None and TakenInstance.name != name:
        with suppress(KafkaError, NotImplementedError):  # an older broker does not know the request
            answer = await coordinator._send_req(Heartbeat(coordinator.group_id, *former, name))
            if answer.error_code == FENCED_INSTANCE_ID:
                TakenInstance.name = name
    return bool(name) and TakenInstance.name == name


def apply() -> None:
    GroupCoordinator.reset_generation = _remember_member
    CoordinatorGroupRebalance.perform_group_join = _join_unless_taken
