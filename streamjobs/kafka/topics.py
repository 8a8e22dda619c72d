"""The topics a job needs, with partitions and settings: planned, checked, created.

Every topic of a job has the input's number of partitions. An output goes to the partition its input came from, and a key's
snapshot to the same partition of the changelog.
"""

import time
from collections.abc import Collection, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from streamjobs.errors import SetupError, StreamjobsError
from streamjobs.kafka import client, layout, reader, timeouts
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings

KNOWN_WITHIN = 5.0  # seconds until every node knows a new topic
USABLE_WITHIN = 20.0  # seconds until every new partition has a leader
KAFKA_MAX_BYTES = 1_048_588  # Kafka's own limit of a record batch where a topic sets none
NEWEST = 100  # states that show which input they have learned from
LAG, DAY = "min.compaction.lag.ms", 86_400_000
TOMBSTONES = 30 * DAY  # milliseconds that the changelog keeps them for
BATCH_BYTES = 1_000_000  # of a batch that a worker sends; a larger record is a batch of its own
RECORD_BYTES = 512  # that a batch adds to a snapshot: the record's headers and its key, if it is not long
HEADER_BYTES = 64 << 10  # that the headers of a dead letter may add
AFTER_MAX = "message.timestamp.after.max.ms"  # how far a record's timestamp may be ahead of the broker's clock
KAFKA_AFTER_MAX = 3_600_000  # where a topic sets none, since Kafka 4
BEFORE_MAX = "message.timestamp.before.max.ms"  # the same, behind it
ANY = 2**63 - 1  # of both: no limit, as Kafka writes it
SLACK = 300_000  # ms that a record may wait for a broker with another clock, at most half of a limit
UNSENT = (
    "topic {0} exists and gets no features: they are sent only to a topic that is named. "
    "Set features = '{0}' to go on sending them, or features = '' to stop."
)
ADD_RIGHT = "add it ('streamjobs topics plan JOB --acl' prints all that are needed)."


class TopicPlan(NamedTuple):
    name: str
    role: str  # input | state | the sink's name
    partitions: int
    config: dict[str, str]  # what differs from the broker's defaults

    @property
    def setting(self) -> str:
        """The setting of the job file that names it."""
        return {"input": "[source] topic", "state": "[job] name"}.get(self.role, f"[sinks] {self.role}")


def changelog(settings: Settings) -> str:
    """The compacted topic that holds every key's newest snapshot (Faust's name for the table `state`)."""
    return f"{settings.job.name}-state-changelog"


def writer_of(job: str, partition: int) -> str:
    """The transactional id of a partition's fenced producer."""
    return f"{job}-{partition}"


class Span(NamedTuple):
    """How far a record's timestamp may be behind and ahead of the clock, in milliseconds."""

    behind: int
    ahead: int

    def accepts(self, timestamp: int, now: int) -> bool:
        return now - self.behind <= timestamp <= now + self.ahead


class Limits(NamedTuple):
    """What the topics that a worker writes take."""

    spans: Mapping[str, Span] = {}  # of outputs that may refuse timestamps which the input takes
    batch_bytes: int = BATCH_BYTES  # that none of them refuses
    tombstones: float = TOMBSTONES / 1000  # seconds, that the changelog keeps them for


NO_LIMITS = Limits()


def plan(settings: Settings, job_sinks: Mapping[str, str], partitions: int, state_bytes: int = 0) -> list[TopicPlan]:
    """All topics of a job. job_sinks: sink -> topic (those that are on); state_bytes: a key's largest snapshot."""
    letter_bytes = str(max(KAFKA_MAX_BYTES, settings.source.max_bytes) + HEADER_BYTES)
    copied = {"max.message.bytes": letter_bytes, "message.timestamp.type": "CreateTime"} if settings.source.rekeyed else {}
    plans = [TopicPlan(settings.source.topic, "input", partitions, copied)]
    future = int(1000 * settings.source.future)
    ahead = {AFTER_MAX: str(2 * future)} if future > KAFKA_AFTER_MAX else {}
    for sink, topic in job_sinks.items():
        # A dead letter is the record as it came plus headers: it must fit wherever its input did.
        config = {"max.message.bytes": letter_bytes} if sink == "dlq" else ahead
        plans.append(TopicPlan(topic, sink, partitions, config))
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": str(64 << 20),  # the active segment is never compacted: small ones keep recovery short
        "min.cleanable.dirty.ratio": "0.3",
        "delete.retention.ms": str(TOMBSTONES),  # a local store unused for longer is rebuilt
        "max.message.bytes": str(max(KAFKA_MAX_BYTES, state_bytes + HEADER_BYTES)),
        "unclean.leader.election.enable": "false",  # also where the cluster prefers any leader: states would be lost
    }
    plans.append(TopicPlan(changelog(settings), "state", partitions, compacted))
    return plans


def problems_of(
    settings: Settings, job_sinks: Mapping[str, str], admin: Any, counts: Mapping[str, int], principal: str
) -> list[str]:
    """A sentence for each topic that is missing or has wrong settings, one for all where states are to move first.

    counts: partitions by topic, of `connect`.
    """
    servers = ",".join(client.servers(settings.broker))
    partitions = counts.get(settings.source.topic)
    plans = plan(settings, job_sinks, partitions or 0)
    behind = behind_input(settings, job_sinks, counts)
    states_behind = changelog(settings) in behind
    problems = [_grown(settings, counts, behind)] if states_behind else []
    unseen = hidden(admin, [one.name for one in plans if one.name not in counts])
    for one in plans:
        if one.name in unseen:
            lacking = {"input": "Read", "state": "Read and Write"}.get(one.role, "Write")
            problems.append(lacking_right(one.name, one.role, lacking, f"{principal}, which may not even describe it"))
        elif one.name not in counts:
            problems.append(
                f"topic {one.name} ({one.role}): expected at {servers}, but it does not exist; "
                f"create it with 'streamjobs topics create' or correct {one.setting}."
            )
        elif one.name in behind and not states_behind:
            problems.append(
                f"topic {one.name} ({one.role}): expected {partitions} partitions like the input {plans[0].name}, "
                f"got {behind[one.name]}; 'streamjobs topics grow JOB' adds partitions."
            )
        elif partitions is not None and counts[one.name] > partitions:
            why = f"another job is also named {settings.job.name!r}, or the input was recreated; "
            problems.append(
                f"topic {one.name} ({one.role}): expected {partitions} partitions like the input {plans[0].name}, "
                f"got {counts[one.name]}, and Kafka removes none; {why if one.role == 'state' else ''}"
                f"add partitions to the input, or name another topic under {one.setting}."
            )
        elif one.role == "state" and (problem := deleting(settings, admin)):
            problems.append(problem)
    return problems


def deleting(settings: Settings, admin: Any) -> str | None:
    """A sentence if the broker may delete states of the changelog, where this client may ask."""
    name = changelog(settings)
    policy = setting_of(admin, name, "cleanup.policy") or ""
    if "delete" not in policy.split(","):
        return None
    return (
        f"topic {name} (state): expected cleanup.policy compact, got {policy}, which would delete states; "
        f"{_to_set(settings, name, 'cleanup.policy', 'compact')}."
    )


def compacting(settings: Settings, admin: Any) -> str | None:
    """A sentence if the broker may remove records of the input before a worker that was away reads or applies them again."""
    name = settings.source.topic
    policy, lag = (setting_of(admin, name, key) or "" for key in ("cleanup.policy", LAG))
    if "compact" not in policy.split(",") or (lag.isdecimal() and int(lag) >= DAY):
        return None
    return (
        f"topic {name} (input): its cleanup.policy is {policy}, so Kafka removes a record once its key has a newer one. "
        "Records that are removed while no worker runs are not learned; with [state] replay = '0s' these are only records "
        f"that no worker has read. For a day in which nothing is removed, {_to_set(settings, name, LAG, DAY)}."
    )


def size_problems(settings: Settings, job_sinks: Mapping[str, str], admin: Any, state_bytes: int) -> list[str]:
    """A sentence for each output and changelog that refuses what a worker may send there, where the broker tells its limit.

    state_bytes: a key's largest snapshot.
    """
    problems, plans = [], plan(settings, job_sinks, 0, state_bytes)
    texts = {one.name: setting_of(admin, one.name, "max.message.bytes") or "" for one in plans}
    limits = {name: int(text) for name, text in texts.items() if text.isdecimal()}
    of_input = limits.get(plans[0].name, 0)
    for one in plans[1:]:
        expected, why = 0, ""  # batches are as small as the smallest limit
        if one.role == "state":
            expected, why = state_bytes + RECORD_BYTES, "a key's largest state"
        elif one.role == "dlq":
            expected, why = of_input, f"a record of {plans[0].name}"
        limit = limits.get(one.name, expected)
        if limit < expected:
            better = max(int(one.config.get("max.message.bytes", KAFKA_MAX_BYTES)), expected)
            problems.append(
                f"topic {one.name} ({one.role}): its max.message.bytes is {limit:,}, and {why} may have {expected:,} bytes, "
                f"which the broker would refuse; {_to_set(settings, one.name, 'max.message.bytes', better)}."
            )
    return problems


def limits(settings: Settings, job_sinks: Mapping[str, str], admin: Any) -> Limits:
    """Of a job's topics. Where this client may not ask, Kafka's own limits are assumed.

    A refusal that the clock ends within SLACK is not a limit: the worker starts again.
    """
    source, outputs, state = settings.source.topic, list(job_sinks.values()), changelog(settings)
    future = int(1000 * settings.source.future)
    wanted = "max.message.bytes", BEFORE_MAX, AFTER_MAX, "delete.retention.ms"
    known = settings_of(admin, [source, state, *outputs], wanted)
    of_input, spans = known.get(source, (0, ANY, ANY)), {}
    assumed = KAFKA_MAX_BYTES, ANY, max(KAFKA_AFTER_MAX, 2 * future), TOMBSTONES
    for topic in outputs:
        _, behind, ahead, _ = known.get(topic, assumed)
        if behind < of_input[1] or ahead < min(ANY, of_input[2] + max(0, future - SLACK)):
            spans[topic] = Span(behind - min(SLACK, behind // 2), ahead - min(SLACK, ahead // 2))
    most = min(BATCH_BYTES, *(known.get(topic, assumed)[0] for topic in (state, *outputs)))
    return Limits(spans, most, known.get(state, assumed)[3] / 1000)


def _to_set(settings: Settings, topic: str, name: str, value: int | str) -> str:
    """The command that changes a setting of a topic."""
    servers = ",".join(client.servers(settings.broker))
    return (
        f"run 'kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {name}={value}'"
    )


def unsent_features(settings: Settings, job_sinks: Mapping[str, str], counts: Mapping[str, int]) -> str | None:
    """The topic of features that version 1 of [sinks] would write: it exists, and this job does not name it.

    counts: partitions by topic, of `connect`.
    """
    topic = f"{settings.source.base_topic}.features"
    left_out = settings.sinks.features is None and topic not in job_sinks.values()
    return topic if left_out and topic in counts else None


def _grown(settings: Settings, counts: Mapping[str, int], behind: Mapping[str, int]) -> str:
    source, state = settings.source.topic, changelog(settings)
    if list(behind) != [state] or _has_learned(settings):  # if the input grew, outputs are behind too, until 'topics grow'
        return layout.grown(source, counts[source], behind)
    return (
        f"topic {state} (state): expected {counts[source]} partitions like the input {source}, got {behind[state]}: another "
        f"job is probably also named {settings.job.name!r}. Give this job another [job] name."
    )


def _has_learned(settings: Settings) -> bool:
    """Whether one of the newest states has learned from the job's input."""
    name = settings.source.topic.encode()
    mark = len(name).to_bytes(2, "little") + name  # as in `core.state.snapshot`
    with suppress(SetupError):  # no right to read them: another name does no harm
        newest = reader.newest(settings.broker, changelog(settings), NEWEST, time.monotonic())
        return any(mark in (record.value or b"") for record in newest)
    return False


def behind_input(settings: Settings, job_sinks: Mapping[str, str], counts: Mapping[str, int]) -> dict[str, int]:
    """Outputs and changelog that have fewer partitions than the input, with their numbers. counts: of `connect`."""
    partitions, names = counts.get(settings.source.topic, 0), (*job_sinks.values(), changelog(settings))
    return {name: counts[name] for name in names if counts.get(name, partitions) < partitions}


def lacking_right(name: str, role: str, lacking: str, principal: str) -> str:
    return f"topic {name} ({role}): expected the right to {lacking}, not granted to {principal}; {ADD_RIGHT}"


def create(
    settings: Settings,
    *,
    job_sinks: Mapping[str, str],
    partitions: int | None = None,
    replication: int | None = None,
    state_bytes: int = 0,
    roles: Container[str] | None = None,
) -> list[TopicPlan]:
    """Create the topics that are missing, wait until they can be used, and return them.

    partitions: of a new input, 4 where None, or as many as the topic has that it is rekeyed from; an existing input decides
    for all. replication: None = the broker's default.
    roles: create topics of these roles only (a worker creates just its changelog); None = all.
    Raises SetupError where the broker does not answer, refuses, or `partitions` differs from the existing input's; or, with
    nothing created, where the changelog has fewer partitions than the input.
    """
    admin, counts = connect(settings.broker)
    there = counts.get(settings.source.topic)
    if there is not None and partitions not in (None, there):
        raise SetupError(
            f"topic {settings.source.topic} (input): expected {partitions} partitions as requested, got {there}; "
            f"leave the number out, and the job's other topics get {there} as well."
        )
    behind = behind_input(settings, job_sinks, counts)
    if there is not None and changelog(settings) in behind:
        raise SetupError(_grown(settings, counts, behind))
    wanted = there or partitions or counts.get(settings.source.base_topic, 4)
    missing = [one for one in plan(settings, job_sinks, wanted, state_bytes) if one.name not in counts]
    if roles is not None:
        missing = [one for one in missing if one.role in roles]
    if missing:
        copies = -1 if replication is None else replication
        new = [NewTopic(one.name, one.partitions, copies, config=one.config) for one in missing]
        for name, answer in admin.create_topics(new, operation_timeout=timeouts.ADMIN).items():
            _await_created(name, answer)
        await_leaders(admin, {one.name: one.partitions for one in missing}, "created, but")
    return missing


def connect(broker: BrokerSection, wanted: Collection[str] = ()) -> tuple[Any, dict[str, int]]:
    """An admin client, and the number of partitions of every topic. Raises SetupError where the broker does not answer.

    wanted: topics to wait for, up to KNOWN_WITHIN seconds; a node may not know a topic yet that was just created.
    """
    admin = AdminClient({**client.for_confluent(broker), "socket.connection.setup.timeout.ms": 3000})
    started = time.monotonic()
    try:
        while not (counts := _partition_counts(admin)).keys() >= set(wanted) and time.monotonic() - started < KNOWN_WITHIN:
            time.sleep(0.2)
        return admin, counts
    except KafkaException as error:
        raise client.unanswered(broker, error, within=timeouts.ADMIN) from None


def _partition_counts(admin: Any) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=timeouts.ADMIN).topics.items()}


def count_partitions(broker: BrokerSection, topic: str) -> int | None:
    """The topic's partitions; None where it is missing or the broker does not tell. Never call it in an event loop."""
    try:
        admin = AdminClient(client.for_confluent(broker))
        if is_mock(admin):
            return None
        answers = admin.describe_topics(TopicCollection([topic]), request_timeout=timeouts.ADMIN)
        return len(answers[topic].result(timeouts.ADMIN).partitions)
    except (KafkaException, TimeoutError, StreamjobsError):  # also a password file that is just being replaced
        return None


def is_mock(admin: Any) -> bool:
    """Whether this is librdkafka's mock cluster, which does not answer questions for configurations or rights."""
    return (admin.list_topics(timeout=timeouts.ADMIN).cluster_id or "").startswith("mockCluster")


def hidden(admin: Any, names: Sequence[str]) -> set[str]:
    """The topics among these that this client has no right to see."""
    if not names or is_mock(admin):
        return set()
    unseen = set()
    for name, answer in admin.describe_topics(TopicCollection(list(names)), request_timeout=timeouts.ADMIN).items():
        try:
            answer.result(timeouts.ADMIN)
        except (KafkaException, TimeoutError) as error:
            if client.forbidden(error):
                unseen.add(name)
    return unseen


def setting_of(admin: Any, topic: str, name: str) -> str | None:
    """A topic's setting, or the broker's for it; None where this client may not ask, which needs DescribeConfigs."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    if is_mock(admin):
        return None
    try:
        answer = admin.describe_configs([resource])[resource].result(timeouts.ADMIN)
        return str(answer[name].value) if name in answer else None  # a setting of later brokers
    except (KafkaException, TimeoutError) as error:
        if client.forbidden(error):
            return None
        return f"an error ({client.reason_of(error)})"


def settings_of(admin: Any, names: Sequence[str], wanted: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """These numeric settings of each topic of which the broker tells them; ANY for one that its release does not have."""
    if is_mock(admin):
        return dict.fromkeys(names, (ANY,) * len(wanted))
    found = {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in dict.fromkeys(names)]
    for resource, answer in admin.describe_configs(resources, request_timeout=timeouts.ADMIN).items():
        with suppress(KafkaException, TimeoutError):
            entries = answer.result(timeouts.ADMIN)
            found[resource.name] = tuple(int(entries[one].value) if one in entries else ANY for one in wanted)
    return found


def _await_created(name: str, answer: Any) -> None:
    try:
        answer.result(timeouts.ADMIN + 5)
    except (KafkaException, TimeoutError) as error:
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return  # another process created it first
        raise SetupError(
            f"topic {name}: the broker did not create it ({client.reason_of(error)}); check the rights of this principal "
            "and the broker's log."
        ) from None


def await_leaders(admin: Any, wanted: Mapping[str, int], what: str) -> None:
    """Wait until these topics have so many partitions, each with a leader: the broker answers before that.

    what: was done to them, for the sentence. Raises SetupError after USABLE_WITHIN.
    """
    started = time.monotonic()
    while True:
        known = admin.list_topics(timeout=timeouts.ADMIN).topics
        waiting = [
            name
            for name, partitions in wanted.items()
            if name not in known
            or len(known[name].partitions) < partitions
            or any(partition.leader < 0 for partition in known[name].partitions.values())
        ]
        if not waiting:
            return
        if time.monotonic() - started > USABLE_WITHIN:
            raise SetupError(
                f"topic {waiting[0]}: {what} without a leader after {USABLE_WITHIN:.0f} s; check the broker's log."
            )
        time.sleep(0.05)
