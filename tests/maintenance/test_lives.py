"""Commands that commit offsets for a job keep what its commits say, such as the life of its recreated input topic."""

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

    origin, end = Origin(), 0
    metadata = ""

    async def join(self, offset: int, progress: int = 0, moment: str = "", epoch: int | None = None) -> None:
        self.metadata = self.origin.metadata_of(offset, progress, moment, epoch, self.end)

    async def commit(self) -> None:
        pass


@pytest.mark.parametrize("life", ["", LIFE])
@pytest.mark.parametrize("progress", [7, 9])
def test_a_repartitioned_job_keeps_everything_that_its_commits_say_but_the_partitions(life: str, progress: int) -> None:
    writer: Any = Writer()
    before = Origin("in", "", "c1", 2, "ms", life, "5e77", "bouts.77d2c1", "f1e1")
    more = 7, progress, "9.5,2.5,1.0,0.0", 3, 31
    asyncio.run(grow.commit_marked(SETTINGS, writer, Commit(7, before.metadata_of(*more)), 4))
    assert writer.metadata == before._replace(partitions=4).metadata_of(*more) and life_of([writer.metadata]) == life


def test_a_restored_job_keeps_what_its_commits_say_of_settings_and_times() -> None:
    former = Origin("in", "i2", "c1", 2, "ms", "", "5e77", "bouts.77d2c1", "f1e1")
    present = Origin("in", "i2", "c2")
    situation = restore._Situation(present, {0: 0}, {0: Commit(7, former.metadata_of(7, 9))}, {})
    assert situation.origin(0) == former._replace(changelog_id="c2") and situation.origin(1) == present


@pytest.mark.parametrize(("committed", "stored"), [(LIFE, ""), ("", LIFE), (LIFE, LIFE), ("", "")])
def test_a_restored_job_keeps_the_life_that_commits_or_local_stores_name(committed: str, stored: str) -> None:
    copy: Any = type("Copy", (), {"marks": {"source": "i2", "topic": "in", "changelog": "c1", "life": stored}})
    origin = restore._origin(restore.Source(copy, 1, 1), Origin("in", "i2", "c2", 2, life=committed))
    assert origin == Origin("in", "i2", "c2", 2, life=committed or stored)
