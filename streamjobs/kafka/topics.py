"""The topics a job needs: which, with how many partitions and what settings; whether they are so; making them.

Every topic of a job has the input's number of partitions: an output goes to the partition its input came from, and a
key's snapshot to the same partition of the changelog.
"""

import time
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from streamjobs.errors import SetupError
from streamjobs.kafka import client
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings

ANSWER_WITHIN = 5.0  # seconds for a broker to answer
NEWS_WITHIN = 5.0  # seconds until every node tells of a new topic
APPLY_WITHIN = 20.0  # seconds for a new topic to be usable
KAFKA_MAX_BYTES = 1_048_588  # Kafka's own limit of a record batch where a topic sets none
PRINTED = "add it ('streamjobs topics plan JOB --acl' prints all that are needed)."
HEADERS_ROOM = 64 << 10  # bytes that the headers of a dead letter may add


class TopicPlan(NamedTuple):
    """A topic as the job needs it."""

    name: str
    role: str  # input | state | the sink's name
    partitions: int
    config: dict[str, str]  # what differs from the broker's defaults

    @property
    def setting(self) -> str:
        """Where the job file names it."""
        return {"input": "[source] topic", "state": "[job] name"}.get(self.role, f"[sinks] {self.role}")


def changelog(settings: Settings) -> str:
    """The compacted topic that holds every key's newest snapshot (Faust's name for the table `state`)."""
    return f"{settings.job.name}-state-changelog"


def writer_of(job: str, partition: int) -> str:
    """Transactional id of a partition's fenced producer."""
    return f"{job}-{partition}"


def plan(settings: Settings, job_sinks: Mapping[str, str], partitions: int, state_bytes: int = 0) -> list[TopicPlan]:
    """All topics of a job. job_sinks: sink -> topic (those that are on); state_bytes: a key's largest snapshot."""
    room = str(max(KAFKA_MAX_BYTES, settings.source.max_bytes) + HEADERS_ROOM)
    plans = [TopicPlan(settings.source.topic, "input", partitions, {})]
    for sink, topic in job_sinks.items():
        # A dead letter is the record as it came plus headers: it must fit wherever its input did.
        config = {"max.message.bytes": room} if sink == "dlq" else {}
        plans.append(TopicPlan(topic, sink, partitions, config))
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": str(64 << 20),  # the segment written to is never compacted: small ones keep recovery short
        "min.cleanable.dirty.ratio": "0.3",
        "delete.retention.ms": str(30 * 86_400_000),  # a local store unused for longer would miss a tombstone
        "max.message.bytes": str(max(KAFKA_MAX_BYTES, state_bytes + HEADERS_ROOM)),
    }
    plans.append(TopicPlan(changelog(settings), "state", partitions, compacted))
    return plans


def problems_of(
    settings: Settings, job_sinks: Mapping[str, str], admin: Any, found: Mapping[str, int], principal: str
) -> list[str]:
    """One sentence for each topic that is missing or does not fit, of what `connect` has found; [] = none."""
    servers = ",".join(client.servers(settings.broker))
    partitions = found.get(settings.source.topic)
    plans = plan(settings, job_sinks, partitions or 0)
    problems = []
    unseen = hidden(admin, [one.name for one in plans if one.name not in found])
    for one in plans:
        if one.name in unseen:
            lacking = {"input": "Read", "state": "Read and Write"}.get(one.role, "Write")
            problems.append(lacking_right(one.name, one.role, lacking, f"{principal}, who may not even see it"))
        elif one.name not in found:
            problems.append(
                f"topic {one.name} ({one.role}): expected at {servers}, not there; "
                f"create it with 'streamjobs topics create' or correct {one.setting}."
            )
        elif partitions is not None and found[one.name] != partitions:
            problems.append(
                f"topic {one.name} ({one.role}): expected {partitions} partitions like the input {plans[0].name}, "
                f"got {found[one.name]}; recreate it with {partitions} or name another under {one.setting}."
            )
        elif one.role == "state" and "compact" not in (policy := _cleanup_policy(admin, one.name)):
            problems.append(
                f"topic {one.name} (state): expected cleanup.policy compact, got {policy}, which would forget keys; "
                "set it to compact (kafka-configs.sh --alter) before the job runs."
            )
    return problems


def lacking_right(name: str, role: str, lacking: str, principal: str) -> str:
    return f"topic {name} ({role}): expected the right to {lacking}, not granted to {principal}; {PRINTED}"


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

    roles: of these roles only (a worker makes its own changelog and nothing else); None = all.

    partitions: of a new input, 4 where None; an existing input decides for all. replication: None = the broker's default.
    Raises SetupError where the broker does not answer, refuses, or `partitions` differs from the existing input's.
    """
    admin, found = connect(settings.broker)
    there = found.get(settings.source.topic)
    if there is not None and partitions not in (None, there):
        raise SetupError(
            f"topic {settings.source.topic} (input): expected {partitions} partitions as asked for, got {there}; "
            f"leave the number out: the job's other topics then get {there} as well."
        )
    missing = [one for one in plan(settings, job_sinks, there or partitions or 4, state_bytes) if one.name not in found]
    if roles is not None:
        missing = [one for one in missing if one.role in roles]
    if missing:
        copies = -1 if replication is None else replication
        new = [NewTopic(one.name, one.partitions, copies, config=one.config) for one in missing]
        for name, answer in admin.create_topics(new, operation_timeout=ANSWER_WITHIN).items():
            _await_created(name, answer)
        _await_usable(admin, missing)
    return missing


def connect(broker: BrokerSection, wanted: Collection[str] = ()) -> tuple[Any, dict[str, int]]:
    """An admin client, and the number of partitions of every topic. Raises SetupError where the broker does not answer.

    wanted: topics that are asked after for NEWS_WITHIN seconds; a node may not have heard yet of one that was just made.
    """
    admin = AdminClient({**client.for_confluent(broker), "socket.connection.setup.timeout.ms": 3000})
    begun = time.monotonic()
    try:
        while not (found := _topics(admin)).keys() >= set(wanted) and time.monotonic() - begun < NEWS_WITHIN:
            time.sleep(0.2)
        return admin, found
    except KafkaException as error:
        raise client.unanswered(broker, error, within=ANSWER_WITHIN) from None


def _topics(admin: Any) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=ANSWER_WITHIN).topics.items()}


def is_mock(admin: Any) -> bool:
    """Whether this is librdkafka's mock cluster, which stays silent when asked for configurations or rights."""
    return (admin.list_topics(timeout=ANSWER_WITHIN).cluster_id or "").startswith("mockCluster")


def hidden(admin: Any, names: Sequence[str]) -> set[str]:
    """Those of the topics that this client may not even see."""
    if not names or is_mock(admin):
        return set()
    found = set()
    for name, answer in admin.describe_topics(TopicCollection(list(names)), request_timeout=ANSWER_WITHIN).items():
        try:
            answer.result(ANSWER_WITHIN)
        except (KafkaException, TimeoutError) as error:
            if client.forbidden(error):
                found.add(name)
    return found


def _cleanup_policy(admin: Any, topic: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    if is_mock(admin):
        return "compact"  # it keeps everything
    try:
        return str(admin.describe_configs([resource])[resource].result(ANSWER_WITHIN)["cleanup.policy"].value)
    except (KafkaException, TimeoutError) as error:
        if client.forbidden(error):
            return "compact"  # asking needs DescribeConfigs, which a worker can do without: whoever made it has seen to it
        return f"an error ({client.reason_of(error)})"


def _await_created(name: str, answer: Any) -> None:
    try:
        answer.result(ANSWER_WITHIN + 5)
    except (KafkaException, TimeoutError) as error:
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return  # somebody else was quicker: as good
        raise SetupError(f"topic {name}: the broker did not create it: {client.reason_of(error)}.") from None


def _await_usable(admin: Any, plans: list[TopicPlan]) -> None:
    """The broker answers before it has applied: wait until every partition of every new topic has a leader."""
    begin = time.monotonic()
    while True:
        topics = admin.list_topics(timeout=ANSWER_WITHIN).topics
        waiting = [
            one.name
            for one in plans
            if one.name not in topics
            or len(topics[one.name].partitions) < one.partitions
            or any(partition.leader < 0 for partition in topics[one.name].partitions.values())
        ]
        if not waiting:
            return
        if time.monotonic() - begin > APPLY_WITHIN:
            raise SetupError(
                f"topic {waiting[0]}: created, but without a leader after {APPLY_WITHIN:.0f} s; see the broker's log."
            )
        time.sleep(0.05)
