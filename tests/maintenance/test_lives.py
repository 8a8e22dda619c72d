"""Commands that commit offsets for a job keep the life of its recreated input topic."""

import asyncio
from typing import Any

import pytest

from streamjobs.kafka.layout import Commit
from streamjobs.kafka.topic_id import Origin, life_of
from streamjobs.maintenance import grow, restore
from streamjobs.settings.load import settings_from

LIFE = "5f0c81d2"
SETTINGS = settings_from({"source": {"topic": "in", "fields": ["x"]}, "learner": {"name": "lms"}})


class Writer:
    """A changelog that notes the metadata of the offset it commits."""

    origin = Origin()
    metadata = ""

    async def join(self, offset: int, progress: int = 0, moment: str = "") -> None:
        self.metadata = self.origin.metadata

    async def commit(self) -> None:
        pass


@pytest.mark.parametrize("life", ["", LIFE])
def test_a_repartitioned_job_keeps_the_life_of_its_input(life: str) -> None:
    writer: Any = Writer()
    before = Origin("in", "i2", "c1", 2, "ms", life)
    asyncio.run(grow.commit_marked(SETTINGS, writer, Commit(7, before.metadata), 4))
    assert writer.metadata == before._replace(partitions=4).metadata and life_of([writer.metadata]) == life


@pytest.mark.parametrize(("committed", "stored"), [(LIFE, ""), ("", LIFE), (LIFE, LIFE), ("", "")])
def test_a_restored_job_keeps_the_life_that_commits_or_local_stores_name(committed: str, stored: str) -> None:
    copy: Any = type("Copy", (), {"marks": {"source": "i2", "topic": "in", "changelog": "c1", "life": stored}})
    origin = restore._origin(restore.Source(copy, 1, 1), Origin("in", "i2", "c2", 2, life=committed))
    assert origin == Origin("in", "i2", "c2", 2, life=committed or stored)
