"""Checks before anything is consumed: is there a broker, do the topics and their partitions fit, are all rights granted."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

from aiokafka.errors import GroupAuthorizationFailedError, KafkaError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamjobs.core.interface import JobLike
from streamjobs.core.messages import Unread
from streamjobs.errors import SetupError, StreamjobsError
from streamjobs.kafka import client, groups, layout, timeouts, topic_id, topics
from streamjobs.kafka.authorization import missing_rights
from streamjobs.kafka.certificates import days_left
from streamjobs.kafka.reader import topic_records
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import AUTO, many

ENDS_WITHIN = 30.0  # seconds; electing a leader takes some of them
IDS_WITHIN = 3.0  # seconds until every node knows a topic that was just created
RETRY_EVERY = 0.5  # seconds
EXPIRES_SOON = 30.0  # days
MOST_NAMED = 5  # partitions in a sentence
OF_KAFKA = {  # topics that every job needs, and what stands still without them
    "__consumer_offsets": ", so groups of consumers cannot commit or meet",
    "__transaction_state": ", so transactions of states cannot end",
}

Commits = Mapping[AioPartition, OffsetAndMetadata]  # a group's, of every topic


class InputTopic(NamedTuple):
    """The input topic as `probe` sees it."""

    partitions: int
    ends: dict[int, int]  # the offset each partition ended at, without those that have no leader
    origin: topic_id.Origin
    growth: layout.Growth | None = None  # with `drain`
    unsent: str | None = None  # a topic of features that exists and gets none any more
    left: int = -1  # offsets that the group has not passed; -1 for a group without offsets
    limits: topics.Limits = topics.NO_LIMITS


def probe(settings: Settings, job: JobLike, *, drain: bool = False, once: bool = True) -> InputTopic:
    """Check everything a worker needs, and create the changelog where it is missing.

    drain: for a worker that finishes the partitions that were there before the input grew.
    once: the ends of all partitions are needed; otherwise those that have no leader now are left out.
    Raises SetupError with a sentence for each obstacle.
    """
    source = settings.source.topic
    admin, counts = topics.connect(settings.broker, [source, *job.sinks.values()])
    changelog = topics.changelog(settings)
    # It may exist without the right to see it; the broker's refusal to create it would say less than `obstacles`.
    if source in counts and changelog not in counts and not topics.hidden(admin, [changelog]):
        topics.create(settings, job_sinks=job.sinks, state_bytes=job.state_bytes, roles=("state",))
        admin, counts = topics.connect(settings.broker, _roles(settings, job))
    if problems := _obstacles(settings, job, admin, counts):
        raise SetupError("\n".join(_of_another_input(settings, admin, counts) or problems))
    origin, commits = origin_of(settings, admin), _commits(settings, admin)
    if problems := changelog_problems(settings, origin, commits):
        raise SetupError("\n".join(problems))
    pending = _growth(settings, commits, counts[source])
    if drain and pending is None:
        raise SetupError(
            f"topic {source} (input): nothing to drain, this job's states are laid out for its {counts[source]} partitions. "
            "Leave --drain out."
        )
    if not drain:
        layout.require_laid_out(source, pending, counts[source])
    laid_out_for = counts[source] if pending is None else pending.before
    of_input = _of_input(settings, commits)
    life = topic_id.life_of(one.metadata for one in of_input.values())
    unit, of_settings = _time_unit(settings, commits), _hash_of(settings, job)
    origin = origin._replace(partitions=laid_out_for, time_unit=unit, life=life, settings=of_settings)
    columns = settings.source.learned_columns  # by the names that the states know
    fields = blake2b("\n".join(columns).encode(), digest_size=4).hexdigest() if columns else ""
    origin = origin._replace(sections=topic_id.text_of_sections(job.sections), fields=fields)
    unsent = topics.unsent_features(settings, job.sinks, counts)
    ends = _ends(admin, settings, counts[source], some=not once)
    passed = sum(one.offset for number, one in of_input.items() if number in ends)
    left = sum(ends.values()) - passed if of_input else -1
    return InputTopic(counts[source], ends, origin, pending, unsent, left, topics.limits(settings, job.sinks, admin))


def _hash_of(settings: Settings, job: JobLike) -> str:
    """Of what decides what becomes of a record. Defaults that a release adds do not change it."""
    others = dict.fromkeys(("broker", "registry", "sinks", "state", "metrics"), True)
    text = settings.model_dump_json(exclude={**others, "source": {"linger"}}, exclude_defaults=True)
    return blake2b(job.fingerprint + text.encode(), digest_size=4).hexdigest()


def obstacles(settings: Settings, job: JobLike) -> list[str]:
    """A sentence for each obstacle: topics, partitions, rights; [] = the job can run. Creates nothing.

    Raises SetupError where the broker refuses TLS or credentials, ConfigError where one of their files cannot be read.
    """
    try:
        admin, counts = topics.connect(settings.broker, _roles(settings, job))
    except SetupError as error:
        return [str(error)]
    if problems := _obstacles(settings, job, admin, counts):
        return _of_another_input(settings, admin, counts) or problems
    if problems := topics.size_problems(settings, job.sinks, admin, job.state_bytes):
        return problems
    commits = _commits(settings, admin)
    if problems := changelog_problems(settings, origin_of(settings, admin), commits):
        return problems
    source = settings.source.topic
    try:
        layout.require_laid_out(source, _growth(settings, commits, counts[source]), counts[source])
    except SetupError as error:
        return [str(error)]
    return []


def _time_unit(settings: Settings, commits: Commits) -> str:
    """What was decided for [source] time_unit = "auto"; "" where nothing was, or another setting names the unit."""
    if settings.source.time_unit != AUTO:
        return ""
    of_input = _of_input(settings, commits).values()
    return topic_id.decided_time_unit(settings.source.topic, [one.metadata for one in of_input])


def kept_time_unit(settings: Settings) -> str:
    """What workers have decided for time_unit = "auto"; "" where they have not. Raises SetupError if no broker tells."""
    _, counts = topics.connect(settings.broker, [settings.source.topic])
    return _time_unit(settings, _all_commits(settings)) if settings.source.topic in counts else ""


def kept_life(settings: Settings, *, hidden: Commits | None = None) -> str:
    """The input's life, see `life_of_topic`. hidden: the group's offsets without the right to see them; None: refused.

    Raises SetupError if no broker tells.
    """
    admin, counts = topics.connect(settings.broker, [settings.source.topic])
    if settings.source.topic not in counts or topics.is_mock(admin):
        return ""
    return topic_id.life_of(one.metadata for one in _of_input(settings, _all_commits(settings, hidden)).values())


def setting_of(broker: BrokerSection, topic: str, name: str) -> str | None:
    """`topics.setting_of` by a client of its own; None where the broker does not answer. Never call it in an event loop."""
    with suppress(StreamjobsError, KafkaException):
        return topics.setting_of(AdminClient(client.for_confluent(broker)), topic, name)
    return None


def _growth(settings: Settings, commits: Commits, partitions: int) -> layout.Growth | None:
    """Partitions that are new to the states, by the group's commits."""
    return layout.growth(_of_input(settings, commits), partitions)


def _obstacles(settings: Settings, job: JobLike, admin: Any, counts: dict[str, int]) -> list[str]:
    broker = settings.broker
    principal = client.principal(broker)
    if problems := topics.problems_of(settings, job.sinks, admin, counts, principal):
        return problems
    ids = [topics.writer_of(settings.job.name, number) for number in range(counts[settings.source.topic])]
    asking = client.for_aiokafka(broker)
    return missing_rights(admin, asking, _roles(settings, job), settings.job.name, ids, principal)


def lacking(settings: Settings, job: JobLike) -> list[str]:
    """A sentence for each topic and right that is missing now; [] also where the broker does not answer."""
    with suppress(StreamjobsError, KafkaException, TimeoutError):
        return _obstacles(settings, job, *topics.connect(settings.broker, _roles(settings, job)))
    return []


def _of_another_input(settings: Settings, admin: Any, counts: dict[str, int]) -> list[str]:
    """The sentence for topics that do not fit because a job of the same name has another input; [] without one."""
    if not {settings.source.topic, topics.changelog(settings)} <= set(counts):
        return []
    with suppress(SetupError):  # no right to see the group: the other sentences are what is known
        return changelog_problems(settings, origin_of(settings, admin), _commits(settings, admin))
    return []


def origin_of(settings: Settings, admin: Any) -> topic_id.Origin:
    """The topics that the job's states belong to, as they are now. Asks again for a while: a node may be behind."""
    source, changelog = settings.source.topic, topics.changelog(settings)
    started = time.monotonic()
    while True:
        ids = topic_id.topic_ids(admin, [source, changelog])
        if (
            set(ids.values()).isdisjoint(("", topic_id.MISSING))
            or time.monotonic() - started > IDS_WITHIN
            or topics.is_mock(admin)
        ):
            known = {name: "" if one == topic_id.MISSING else one for name, one in ids.items()}
            return topic_id.Origin(source, known[source], known[changelog])
        time.sleep(RETRY_EVERY)


def changelog_problems(settings: Settings, present: topic_id.Origin, commits: Commits | None = None) -> list[str]:
    """A sentence if the group's offsets show that the changelog was recreated, or belongs to another input's states.

    commits: None = ask for them. Raises SetupError if the broker does not tell.
    """
    if not present.changelog_id:
        return []
    known = _all_commits(settings) if commits is None else commits
    changelogs = {place: topic_id.changelog_of(one.metadata) for place, one in known.items()}
    for (topic, _), changelog in changelogs.items():
        if topic == present.topic and changelog not in ("", present.changelog_id):
            return [topic_id.recreated_changelog(topics.changelog(settings), changelog, present.changelog_id)]
    # A commit of offset 0 is that of a start which learned nothing; states that it left all the same name their input.
    begun: dict[str, bool] = {}  # other topics, and whether states of theirs wait to be written
    for place, changelog in changelogs.items():
        offset, upto = known[place].offset, topic_id.progress_of(*known[place])
        if place.topic != present.topic and changelog == present.changelog_id and upto > 0:
            begun[place.topic] = upto > offset or begun.get(place.topic, False)
    if not begun:
        return []
    waiting = (topic for topic, waits in begun.items() if waits)
    first = learned_from(settings.broker, topics.changelog(settings), [*begun, present.topic])
    learned = first or next(waiting, present.topic)
    if learned != present.topic:
        return [topic_id.another_input(settings.job.name, learned, present.topic)]
    return []


def learned_from(broker: BrokerSection, changelog: str, names: Sequence[str]) -> str:
    """The topic that the changelog's first state with offsets has learned from; "" if it has none of these topics.

    Records may have given dead letters only. A record that cannot be read counts as of the first topic.
    """
    marks = {name: len(name.encode()).to_bytes(2, "little") + name.encode() for name in names}  # as in `core.state.snapshot`
    for record in topic_records(broker, changelog):
        if isinstance(record, Unread):
            return names[0]
        for name, mark in marks.items():
            if record.value and mark in record.value:
                return name
    return ""


def commits_of(settings: Settings) -> dict[int, layout.Commit]:
    """The group's next input offset of each partition that has one. Raises SetupError if the broker does not tell."""
    return _of_input(settings, _all_commits(settings))


def passed(settings: Settings) -> tuple[int | None, int]:
    """Offsets of the input up to which the group's outputs are out, None without any, and all there are.

    Raises as `commits_of`.
    """
    admin, counts = topics.connect(settings.broker, [settings.source.topic])
    commits = _of_input(settings, _commits(settings, admin))
    ends = _ends(admin, settings, counts[settings.source.topic])
    return (sum(topic_id.progress_of(*one) for one in commits.values()) if commits else None), sum(ends.values())


def _of_input(settings: Settings, commits: Commits) -> dict[int, layout.Commit]:
    return {
        number: layout.Commit(one.offset, one.metadata or "")
        for (topic, number), one in commits.items()
        if topic == settings.source.topic and one.offset >= 0
    }


def _commits(settings: Settings, admin: Any) -> Commits:
    """All offsets of the group; none of a mock cluster, which does not tell them."""
    return {} if topics.is_mock(admin) else _all_commits(settings)


def _all_commits(settings: Settings, hidden: Commits | None = None) -> Commits:
    """All offsets of the group, or `hidden` without the right to them. Retries for a while: a coordinator may be loading."""
    started = time.monotonic()
    while True:
        try:
            return groups.commits(client.for_aiokafka(settings.broker), settings.job.name)
        except KafkaError as error:
            if hidden is not None and isinstance(error, GroupAuthorizationFailedError):
                return hidden
            if not error.retriable or time.monotonic() - started > ENDS_WITHIN:
                raise client.unanswered(settings.broker, error) from None
        time.sleep(RETRY_EVERY)


def _roles(settings: Settings, job: JobLike) -> dict[str, str]:
    outputs = dict.fromkeys(job.sinks.values(), "output")
    return {**outputs, settings.source.topic: "input", topics.changelog(settings): "state"}


def _ends(admin: AdminClient, settings: Settings, partitions: int, *, some: bool = False) -> dict[int, int]:
    """Retries for a while: after a leader has gone, its partition has none for some seconds. some: one end is enough.

    librdkafka's admin client keeps the leader's former epoch, which the broker refuses, until metadata comes.
    """
    wanted = {TopicPartition(settings.source.topic, number): OffsetSpec.latest() for number in range(partitions)}
    started = time.monotonic()
    while True:
        ends, problem = dict[int, int](), None
        for tp, answer in admin.list_offsets(wanted, request_timeout=timeouts.ADMIN).items():
            try:
                ends[tp.partition] = answer.result(timeouts.ADMIN).offset
            except (KafkaException, TimeoutError) as error:
                problem = error
        if problem is None or (some and ends):
            return ends
        if client.forbidden(problem) or time.monotonic() - started > ENDS_WITHIN:
            raise SetupError(
                f"topic {settings.source.topic} (input): cannot read its end offsets ({client.reason_of(problem)}); "
                "check that this worker may read it and that each of its partitions has a leader."
            )
        time.sleep(RETRY_EVERY)
        with suppress(KafkaException):
            admin.list_topics(settings.source.topic, timeout=timeouts.ADMIN)


def leaderless(settings: Settings, job: JobLike) -> list[str]:
    """A sentence for each topic with partitions that stay without a leader, of the job or of Kafka itself.

    Raises SetupError where the broker does not answer, also while an election is waited for.
    """
    admin, _ = topics.connect(settings.broker)
    needed, started = {*_roles(settings, job), *OF_KAFKA}, time.monotonic()
    while True:
        try:
            known = admin.list_topics(timeout=timeouts.ADMIN).topics
        except KafkaException as error:
            raise client.unanswered(settings.broker, error, within=timeouts.ADMIN) from None
        without = {
            name: [number for number, partition in topic.partitions.items() if partition.leader < 0]
            for name, topic in known.items()
            if name in needed
        }
        if not any(without.values()) or time.monotonic() - started > ENDS_WITHIN:
            return [
                f"topic {name}: {many(len(numbers), 'partition')} ({', '.join(map(str, sorted(numbers)[:MOST_NAMED]))}"
                f"{', ..' if len(numbers) > MOST_NAMED else ''}) without a leader: no broker with an in-sync replica is up"
                f"{OF_KAFKA.get(name, '')}. Bring the brokers back."
                for name, numbers in without.items()
                if numbers
            ]
        time.sleep(RETRY_EVERY)


def doubtful_topics(settings: Settings, job: JobLike) -> Iterator[str]:
    """A sentence for a topic of features that exists and would get none, and for an input that is compacted."""
    admin, counts = topics.connect(settings.broker)
    if compacted := topics.compacting(settings, admin):
        yield compacted
    unsent = topics.unsent_features(settings, job.sinks, counts)
    if unsent is not None:
        yield f"[sinks]: {topics.UNSENT.format(unsent)}"


def expiring_certificates(broker: BrokerSection) -> Iterator[str]:
    """A sentence for each certificate that expires within a month; connects to every server."""
    if broker.reached == "plaintext":
        return
    for server, left in client.verify(broker, every=True):
        if left is not None and left < EXPIRES_SOON:
            yield f"broker {server}: its certificate expires in {left:.0f} days; have it renewed."
    if broker.certificate_file is not None:
        left = days_left(broker.certificate_file)
        if left is not None and left < EXPIRES_SOON:
            when = f"expires in {left:.0f} days" if left > 0 else f"expired {-left:.0f} days ago"
            yield f"[broker]: certificate_file {broker.certificate_file!r} {when}; have it renewed."
