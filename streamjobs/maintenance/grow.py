"""Adds partitions to a job's outputs and changelog after its input has got more.

1. The input's partitions are counted, and no worker may run.
2. The commits of the partitions there were before get a mark (`kafka.layout`), through the partitions' fenced producers.
   From here on no worker processes anything but the old partitions, until `repartition` has moved the states.
3. The outputs get their partitions, and the changelog last.

A crash anywhere is mended by running it again: a mark is written again as it was, and a topic that has grown is left alone.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions

from streamjobs.errors import SetupError
from streamjobs.kafka import client, layout, timeouts, topics
from streamjobs.kafka.topic_id import Origin, changelog_of, clock_of, epoch_of, life_of, progress_of, states_of
from streamjobs.maintenance import changelog_edit
from streamjobs.settings.sections import Settings
from streamjobs.worker.changelog import Changelog


class GrownTopic(NamedTuple):
    name: str
    role: str  # state | the sink's name
    before: int
    partitions: int


class GrowthPlan(NamedTuple):
    """topics: those to grow, the changelog last; before: partitions that states are laid out for, None: there are none."""

    topics: list[GrownTopic]
    before: int | None
    partitions: int  # of the input


def plan(settings: Settings, job_sinks: Mapping[str, str]) -> GrowthPlan:
    """What `grow` would do. Raises SetupError if the broker does not answer or a topic is missing."""
    _, counts = topics.connect(settings.broker, [settings.source.topic])
    planned = topics.plan(settings, job_sinks, counts.get(settings.source.topic, 0))
    missing = [one.name for one in planned if one.name not in counts and one.role in ("input", "state")]
    if missing:
        raise SetupError(f"topic {missing[0]}: it does not exist; create it with 'streamjobs topics create'.")
    partitions = counts[settings.source.topic]
    behind = topics.behind_input(settings, job_sinks, counts)
    growing = [GrownTopic(one.name, one.role, behind[one.name], partitions) for one in planned if one.name in behind]
    return GrowthPlan(growing, _laid_out_for(settings, partitions, counts[topics.changelog(settings)]), partitions)


def _laid_out_for(settings: Settings, partitions: int, of_changelog: int) -> int | None:
    """How many partitions there were when the states learned; None where nothing has to move."""
    commits = changelog_edit.commits(settings, range(partitions))
    pending = layout.growth(commits, partitions)
    if pending is not None:
        return pending.before
    if of_changelog == partitions:
        return None
    written = changelog_edit.end_offsets(settings, topics.changelog(settings), committed_only=False)
    return of_changelog if commits or any(written.values()) else None


def grow(settings: Settings, todo: GrowthPlan) -> None:
    """Mark the commits, then add the partitions.

    Raises SetupError if a worker runs or the broker refuses, DeliveryError if it refuses the marks.
    """
    changelog_edit.require_changeable(settings, whole=False)
    if todo.before is not None:
        changelog_edit.quiet()
        asyncio.run(_mark(settings, todo.before, todo.partitions))
    admin = changelog_edit.admin_of(settings)
    for one in todo.topics:
        answers = admin.create_partitions([NewPartitions(one.name, one.partitions)], operation_timeout=timeouts.ADMIN)
        try:
            answers[one.name].result(timeouts.ADMIN + 5)
        except (KafkaException, TimeoutError) as error:
            raise SetupError(
                f"topic {one.name}: the broker did not add partitions ({client.reason_of(error)}); run the command with "
                "credentials that may alter it, or ask the broker's administrator to. Then repeat the command."
            ) from None
    topics.await_leaders(admin, {one.name: one.partitions for one in todo.topics}, "new partitions")


async def _mark(settings: Settings, before: int, partitions: int) -> None:
    """Commit the offsets of the old partitions again, each with its mark; offset 0 where none is committed."""
    kafka = client.for_aiokafka(settings.broker)
    for number in range(before):
        writer = Changelog(kafka, settings.job.name, topics.changelog(settings), number)
        try:
            await writer.open()  # the previous owner has committed, or never will
            commits = await asyncio.to_thread(changelog_edit.commits, settings, [number])
            commit = commits.get(number, layout.Commit(0, ""))
            if layout.marked(commit.metadata) not in (before, partitions):
                await commit_marked(settings, writer, commit, before)
        finally:
            await writer.close()
    await asyncio.to_thread(await_marks, settings, {number: {before, partitions} for number in range(before)})


async def commit_marked(settings: Settings, writer: Changelog, commit: layout.Commit, partitions: int) -> None:
    """End the writer's transaction with the offset of a commit and a new mark; everything else it says stays."""
    metadata = commit.metadata
    known = Origin(settings.source.topic, "", changelog_of(metadata), life=life_of([metadata]))
    writer.origin = known.kept(metadata)._replace(partitions=partitions)
    writer.end = max(writer.end, states_of(metadata))
    await writer.join(commit.offset, progress_of(*commit), clock_of(metadata), epoch_of(metadata))
    await writer.commit()


def await_marks(settings: Settings, wanted: Mapping[int, set[int]]) -> None:
    """Wait until the group's commits have these marks: they count a moment after their transaction is answered."""
    started = time.monotonic()
    while True:
        found = changelog_edit.commits(settings, wanted)
        late = [number for number in wanted if layout.marked(found.get(number, _NONE).metadata) not in wanted[number]]
        if not late:
            return
        if time.monotonic() - started > changelog_edit.MARKERS_WITHIN:
            raise SetupError(
                f"job {settings.job.name}: the group's commits of partitions {late} do not show what was written; check the "
                "broker's log and repeat the command."
            )
        time.sleep(0.05)


_NONE = layout.Commit(0, "")
