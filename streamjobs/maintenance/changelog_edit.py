"""Changes the changelog while no worker runs; safe even if a worker starts meanwhile.

The writer fences like a worker: it takes over the partitions' transactional ids. The producer that opened them before cannot
write any more, and a worker that opens them later fences this writer. A worker reads the changelog from where its local
store ends, so it applies what is written here, whatever its store holds.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from aiokafka.errors import KafkaError
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from streamjobs.errors import SetupError
from streamjobs.kafka import client, groups, preflight, timeouts, topic_id, topics
from streamjobs.kafka.layout import Commit, marked
from streamjobs.kafka.topic_id import Origin, clock_of, epoch_of, life_of, progress_of
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import many
from streamjobs.worker.changelog import Changelog
from streamjobs.worker.failures import FencedError

RETRY_WITHIN = 4 * timeouts.ADMIN  # seconds, while the broker answers but does not know yet
TRANSIENT = (  # error names, shortly after a broker or topic has started or a leader has changed
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
    *("UNKNOWN_TOPIC_OR_PART", "_TIMED_OUT"),
)
MARKERS_WITHIN = 10.0  # seconds until readers see a committed transaction
SETTLED_WITHIN = 30.0  # seconds until the broker has ended former transactions
MOST_FENCED = 32  # partitions at the same time

T = TypeVar("T")
Change = tuple[bytes, bytes | None]  # key, snapshot; None is a tombstone
Changes = Mapping[int, Iterable[Change]]  # by partition
NOTHING: Mapping[int, Any] = {}
OF_NO_KEY: Change = b"", None  # tells a partition's local store about a new input, and changes no state


def admin_of(settings: Settings) -> AdminClient:
    return AdminClient(client.for_confluent(settings.broker))


def ask(settings: Settings, question: Callable[[], T]) -> T:
    """The broker's answer; asks again for a while if a leader or coordinator is not known yet.

    Raises SetupError if the broker does not answer or refuses.
    """
    started = time.monotonic()
    while True:
        try:
            return question()
        except (KafkaException, KafkaError, TimeoutError) as error:
            passing = isinstance(error, TimeoutError) or bool(getattr(error, "retriable", False))
            if isinstance(error, KafkaException):
                passing = error.args[0].name() in TRANSIENT
            if not passing or time.monotonic() - started > RETRY_WITHIN:
                raise client.unanswered(settings.broker, error) from None
        time.sleep(0.1)


def list_topics(settings: Settings, admin: Any) -> Any:
    """Topics by name. Raises SetupError if the broker does not answer."""
    try:
        return admin.list_topics(timeout=timeouts.ADMIN).topics
    except KafkaException as error:
        raise client.unanswered(settings.broker, error) from None


def count_workers(settings: Settings) -> int:
    """Members of the job's consumer group. Raises SetupError if the broker does not tell."""
    list_topics(settings, admin_of(settings))  # fails in one sentence if no broker answers
    kafka = client.for_aiokafka(settings.broker)
    return len(ask(settings, lambda: groups.described(kafka, settings.job.name)).members)


def require_no_workers(settings: Settings) -> None:
    """Raises SetupError while the job has workers."""
    count = count_workers(settings)
    if count:
        raise SetupError(
            f"job {settings.job.name}: {count} {'worker is' if count == 1 else 'workers are'} running; nothing was changed. "
            "Stop them first. A worker that was killed, or has an instance_id, counts until its own session_timeout is over "
            f"({settings.broker.session_timeout:g} s here)."
        )


def require_changeable(settings: Settings, *, whole: bool = True) -> None:
    """Raises SetupError while the job has workers, or if its changelog was recreated and not restored.

    whole: also if records with outputs are in no state yet: a worker would apply them to the changed states.
    """
    require_no_workers(settings)
    _require_written(settings, whole)


def _require_written(settings: Settings, whole: bool = True) -> None:
    """As `require_changeable`, once no worker runs."""
    commits = preflight.commits_of(settings) if whole else {}
    lacking = sum(progress_of(*commit) - commit.offset for commit in commits.values())
    if lacking:
        raise SetupError(
            f"job {settings.job.name}: states lack up to {lacking:,} records that have outputs, because the worker stopped "
            "before it had written all states; nothing was changed. Run 'streamjobs run JOB --once' ('--drain' if the input "
            "has grown), which writes them, then repeat the command."
        )
    problems = preflight.changelog_problems(settings, preflight.origin_of(settings, admin_of(settings)))
    if problems:
        raise SetupError("\n".join(problems))


def begin(settings: Settings) -> dict[int, int]:
    """`settled_ends` of a changelog that may be changed. Raises SetupError as `require_changeable` does."""
    require_no_workers(settings)
    ends = settled_ends(settings)  # before the commits are read
    _require_written(settings)
    return ends


def foreign_offsets(settings: Settings, inputs: Mapping[int, Origin]) -> dict[int, int]:
    """partition -> a saved state's offset from this one on is of another topic than the present input; absent: none is.

    inputs: partition -> the topic that the saved states have learned from, where it is known. Where it is not, an
    offset that the input does not have is another topic's, and one that the group has not reached if the input was
    recreated under the job. Raises SetupError if the broker does not tell.
    """
    present = preflight.origin_of(settings, admin_of(settings)).input_id
    commits = preflight.commits_of(settings)
    recreated = life_of(one.metadata for one in commits.values())
    bounds: dict[int, int] = {}
    for number, end in end_offsets(settings, settings.source.topic, committed_only=False).items():
        if number in inputs and present:
            bounds |= {number: 0} if inputs[number].input_id != present else {}
        else:
            bounds[number] = commits[number].offset if recreated and number in commits else end
    return bounds


def end_offsets(settings: Settings, topic: str, *, committed_only: bool = True) -> dict[int, int]:
    """The end offset of each partition; {} if the topic is missing. Raises SetupError if the broker does not tell."""
    level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
    return _offsets(settings, topic, OffsetSpec.latest(), level)


def settled_ends(settings: Settings) -> dict[int, int]:
    """The changelog's end offsets, for `write`: ask before commits and states are read, once no worker runs.

    Every partition is fenced, as the next worker would. This aborts what a killed process left open, and the broker answers
    when all markers of former transactions are written. Later, a marker would move the end, also that of a topic which was
    recreated under the name since, and let offsets count that were not seen here.
    Raises SetupError if the broker does not tell, or does not end these transactions.
    """
    topic, started = topics.changelog(settings), time.monotonic()
    quiet()
    unsettled: Iterable[int] = end_offsets(settings, topic, committed_only=False)
    with suppress(TimeoutError):
        asyncio.run(asyncio.wait_for(_fence(settings, topic, unsettled), SETTLED_WITHIN))
        while unsettled := _in_transaction(settings, topic, ends := end_offsets(settings, topic, committed_only=False)):
            if time.monotonic() - started > SETTLED_WITHIN:
                break
            time.sleep(0.1)
        else:
            return ends
    raise SetupError(
        f"topic {topic}{[*unsettled]}: the broker has not ended a transaction of a former process within "
        f"{SETTLED_WITHIN:.0f} s; nothing was changed. Check that every partition of the job's topics has a leader, and "
        "repeat the command."
    )


def _in_transaction(settings: Settings, topic: str, ends: Mapping[int, int]) -> list[int]:
    """The partitions with an open transaction: readers of committed records end before it."""
    readable = end_offsets(settings, topic)
    return [number for number, end in ends.items() if readable.get(number, end) < end]


async def _fence(settings: Settings, topic: str, partitions: Iterable[int]) -> None:
    some = asyncio.Semaphore(MOST_FENCED)  # each has connections of its own

    async def fence(number: int) -> None:
        async with some:
            writer = Changelog(client.for_aiokafka(settings.broker), settings.job.name, topic, number)
            try:
                await writer.open()
            finally:
                await writer.close()

    await asyncio.gather(*map(fence, partitions))


def first_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """The first offset of each partition, which retention raises; {} if the topic is missing. Raises as `end_offsets`."""
    return _offsets(settings, topic, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)


def deleted_states(settings: Settings) -> list[str]:
    """As `topic_id.deleted_states`, of the job's changelog. Raises as `end_offsets`."""
    changelog = topics.changelog(settings)
    return topic_id.deleted_states(changelog, first_offsets(settings, changelog))


def _offsets(settings: Settings, topic: str, spec: Any, level: Any) -> dict[int, int]:
    admin = admin_of(settings)

    def question() -> dict[int, int]:
        known = list_topics(settings, admin).get(topic)  # each time: else librdkafka keeps the epoch of a former leader
        found = {}
        for number in known.partitions if known is not None else ():
            place = TopicPartition(topic, number)
            answers = admin.list_offsets({place: spec}, isolation_level=level, request_timeout=timeouts.ADMIN)
            found[number] = answers[place].result(2 * timeouts.ADMIN).offset
        return found

    return ask(settings, question)


def committed_offsets(settings: Settings, partitions: Iterable[int]) -> dict[int, int]:
    """The group's next input offsets, 0 if none is committed. Raises SetupError if the broker does not tell."""
    wanted = [TopicPartition(settings.source.topic, number) for number in partitions]
    kafka = client.for_aiokafka(settings.broker)
    return ask(settings, lambda: groups.committed(kafka, settings.job.name, wanted))


def commits(settings: Settings, partitions: Iterable[int]) -> dict[int, Commit]:
    """The group's commits of these input partitions, where there are any. Raises SetupError if the broker does not tell."""
    found = preflight.commits_of(settings)
    return {number: found[number] for number in partitions if number in found}


def quiet() -> None:
    """aiokafka's problems are raised here, in one sentence."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def write(
    settings: Settings,
    changes: Changes,
    read_at: Mapping[int, int],
    *,
    offsets: Mapping[int, int] = NOTHING,
    origins: Mapping[int, Origin] = NOTHING,
    former: Mapping[int, Commit] = NOTHING,
    piece_bytes: int = 0,
) -> None:
    """Write the changes, one transaction per partition.

    read_at: end offsets of the changelog before the states were read that the changes are made from.
    offsets: next input offsets that the group commits with a partition's changes.
    former: the group's commits. They say up to where outputs are out, and the partition's clock at their offsets.
    origins: the topics that a partition's states belong to from now on; absent: as before.
    piece_bytes: if positive, a transaction for each so many bytes; the offset joins the last one.
    Raises SetupError if a worker runs or has written meanwhile, DeliveryError if the broker refuses, FencedError if a
    worker took over during the write; that partition's changes, or last piece, are then not written.
    """
    require_no_workers(settings)
    quiet()
    commits = {number: _commit_at(offset, former.get(number)) for number, offset in offsets.items()}
    asyncio.run(_write(settings, changes, read_at, commits, origins, piece_bytes))


def _require_partitions(settings: Settings, commits: Mapping[int, Any]) -> None:
    """Raises SetupError for commits in partitions that the input lacks: they would be tried again without end."""
    topic = settings.source.topic
    if not commits:
        return
    known = list_topics(settings, admin_of(settings)).get(topic)
    if known is None:
        raise SetupError(
            f"topic {topic} (input): it does not exist, or this principal may not see it; nothing was changed. Create it "
            "with 'streamjobs topics create JOB', then repeat the command."
        )
    partitions = len(known.partitions)
    if partitions <= max(commits):
        raise SetupError(
            f"topic {topic} (input): it has {many(partitions, 'partition')}, and this job has states in partition "
            f"{max(commits)} too; nothing was changed. Add partitions to the input, then repeat the command."
        )


def write_life(
    settings: Settings,
    changes: Changes,
    read_at: Mapping[int, int],
    origin: Origin,
    commits: Mapping[int, Commit],
    former: Mapping[int, Commit] = NOTHING,
) -> None:
    """`write` for states that go on with other records than those they know, in a new life of the input in all partitions.

    commits: the group's, which say how many partitions states are laid out for. former: as in `write`; the group goes on
    at their offsets, or at 0 where there is none.
    """
    laid_out = {number: marked(one.metadata) or 0 for number, one in commits.items()}
    write(
        settings,
        {number: keys or [OF_NO_KEY] for number, keys in changes.items()},
        read_at,
        offsets={number: former[number].offset if number in former else 0 for number in changes},
        origins={number: origin._replace(partitions=laid_out.get(number, 0)) for number in changes},
        former=former,
    )


def _commit_at(offset: int, former: Commit | None) -> tuple[int, int, str, int | None]:
    """R, P, the partition's clock at R, "" where it is not known: then it is the largest that a state has, and the epoch.

    >>> former = Commit(7, "changelog=x progress=9 clock=1.0,2.0 leader-epoch=3")
    >>> _commit_at(7, former), _commit_at(5, former), _commit_at(5, None)
    ((7, 9, '1.0,2.0', 3), (5, 9, '', 3), (5, 5, '', None))
    """
    if former is None:
        return offset, offset, "", None
    clock = clock_of(former.metadata) if offset == former.offset else ""
    return offset, progress_of(*former), clock, epoch_of(former.metadata)


async def _write(
    settings: Settings,
    changes: Changes,
    read_at: Mapping[int, int],
    commits: Mapping[int, tuple[int, int, str, int | None]],
    origins: Mapping[int, Origin],
    piece_bytes: int,
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # a fenced producer leaves failed futures
    await asyncio.to_thread(_require_partitions, settings, commits)
    topic, kafka = topics.changelog(settings), client.for_aiokafka(settings.broker)
    name, as_before = settings.job.name, Origin(settings.source.topic)
    writers = {number: Changelog(kafka, name, topic, number, origins.get(number, as_before)) for number in changes}
    reached: dict[int, int] = {}
    try:
        for writer in writers.values():
            await writer.open()
        await asyncio.to_thread(_require_unchanged, settings, topic, changes, read_at)
        for number, writer in writers.items():
            writer.end = read_at.get(number, 0)
            reached[number] = await _write_partition(writer, changes[number], commits.get(number), piece_bytes)
    except FencedError:
        done = f"only partitions {', '.join(map(str, reached))} were written" if reached else "nothing was written"
        raise FencedError(
            f"job {settings.job.name}: a worker started meanwhile and took over; {done}. Stop it and repeat the command."
        ) from None
    finally:
        for writer in writers.values():
            await writer.close()
    await asyncio.to_thread(_wait_for_markers, settings, topic, reached)


async def _write_partition(
    writer: Changelog, changes: Iterable[Change], commit: tuple[int, int, str, int | None] | None, piece_bytes: int
) -> int:
    """The changelog offset of the last commit marker, -1 without one."""
    piece: list[Change] = []
    size, reached = 0, -1
    for change in changes:
        piece.append(change)
        size += len(change[1] or b"")
        if piece_bytes and size >= piece_bytes:
            reached = await writer.write(piece)
            piece, size = [], 0
    if piece:
        reached = await writer.send(piece)
    if commit is not None:
        await writer.join(*commit)
    if piece or commit is not None:
        await writer.commit()
    return reached


def _require_unchanged(settings: Settings, topic: str, changes: Changes, read_at: Mapping[int, int]) -> None:
    """Raises SetupError if the changelog grew since it was read; called once no one else can write."""
    require_no_workers(settings)
    now = end_offsets(settings, topic, committed_only=False)
    grown = [number for number in changes if now.get(number) != read_at.get(number)]
    if grown:
        raise SetupError(
            f"topic {topic}{grown}: it grew while it was read (did a worker just stop?); nothing was changed. "
            "Repeat the command."
        )


def _wait_for_markers(settings: Settings, topic: str, reached: Mapping[int, int]) -> None:
    """Wait until readers see the commits: a commit is answered before its markers are written."""
    started = time.monotonic()
    while any(end <= reached.get(number, -1) for number, end in end_offsets(settings, topic).items()):
        if time.monotonic() - started > MARKERS_WITHIN:
            return  # the transactions are committed; readers see them later
        time.sleep(0.02)


def topic_config(settings: Settings, admin: Any, topic: str) -> dict[str, str]:
    """The configuration of a topic; {} if it is missing. Raises SetupError where the broker does not tell."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        config = admin.describe_configs([resource])[resource].result(timeouts.ADMIN)
    except (KafkaException, TimeoutError) as error:
        if isinstance(error, KafkaException) and error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
            return {}
        raise client.unanswered(settings.broker, error) from None
    return {name: str(entry.value) for name, entry in config.items()}
