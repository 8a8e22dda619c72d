"""The questions for rights at a start."""

import asyncio
from typing import Any

import pytest

from streamjobs.kafka import authorization


class Client:
    """In place of aiokafka's: no broker is asked."""

    def __init__(self, **settings: Any) -> None:
        pass

    async def bootstrap(self) -> None:
        pass

    async def close(self) -> None:
        pass


def test_rights_on_transactional_ids_are_asked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    all_asked = asyncio.Event()

    async def may_write(_: Any, transactional_id: str) -> bool:
        asked.append(transactional_id)
        if len(asked) == 3:
            all_asked.set()
        await asyncio.wait_for(all_asked.wait(), 10)
        return transactional_id != "job-1"

    monkeypatch.setattr(authorization, "AIOKafkaClient", Client)
    monkeypatch.setattr(authorization, "_may_write", may_write)
    assert asyncio.run(authorization._refused_writers({}, ["job-0", "job-1", "job-2"])) == ["job-1"]
