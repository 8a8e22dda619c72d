"""The ids of the topics that states belong to: the input they learn from, and the changelog that holds them.

A topic that was deleted and recreated under its name has another id. A recreated input counts its offsets from 0 again:
its records would count as already applied, and skipped. A recreated changelog has lost states, and their keys
would start over in the middle of the input.

The input's id and name are stored in the changelog's headers and the local store; the group's offsets do not show them,
because the broker deletes them with the topic. The changelog's id is stored in the local store and in the metadata of the
group's offsets, so a worker without a local store finds it too.

The life of a recreated input, which the ids of its outputs name, is stored in all three places from `state forget-offsets`
on. An input that was never recreated under the job has none.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from streamjobs.core.messages import Headers
from streamjobs.errors import SetupError, StreamjobsError
from streamjobs.kafka import client, timeouts
from streamjobs.kafka.layout import mark, marked
from streamjobs.kafka.topics import is_mock
from streamjobs.settings.broker import BrokerSection

HEADER = "streamjobs-input"  # of a changelog record: id of the input's topic
NAME_HEADER = "streamjobs-input-topic"  # of a changelog record: its name
LIFE_HEADER = "streamjobs-input-life"  # of a changelog record: its life, if it was recreated
MISSING = "missing"  # instead of an id: the broker knows no such topic
METADATA = "changelog="  # in the metadata of a committed offset, before the changelog's id
TIME_UNIT = "time-unit="  # the same, before the unit that was decided
LIFE = "input-life="  # the same, before the input's life
PROGRESS = "progress="  # the same, before the offset up to which outputs are out
SETTINGS = "settings="  # the same, before a hash of the settings that decide what becomes of a record
CLOCK = "clock="  # the same, before event time and clock of the partition at the offset, see `core.live.silence`
REPORTED = "reported="  # the same, before what alarms have reported up to PROGRESS; releases without it read CLOCK alone
SECTIONS = "sections="  # the same, before the sections of the job that has sent outputs up to PROGRESS
FIELDS = "fields="  # the same, before a hash of the columns' names in their order
EPOCH = "leader-epoch="  # the same, before the leader epoch up to which the log has what was read
STATES = "states="  # the same, before the end of the changelog that has what was written up to the commit
LIFE_BYTES = 4
RESTORE = (
    "Stop all workers, then run 'streamjobs state restore JOB --from-local' where their [state] directories are; without "
    "these, 'streamjobs state restore JOB --accept' continues with the states in the changelog."
)


class Origin(NamedTuple):
    """The topics that states belong to; "" where unknown."""

    topic: str = ""  # the input's name
    input_id: str = ""
    changelog_id: str = ""
    partitions: int = 0  # of the input, that the states are laid out for, see `layout`; 0: unknown
    time_unit: str = ""  # that was decided for [source] time_unit = "auto"
    life: str = ""  # of the input, if it was recreated under the job: see `life_of_topic`
    settings: str = ""  # a hash of those that decide what becomes of a record
    sections: str = ""  # of the job, as `text_of_sections` gives them
    fields: str = ""  # a hash of the columns' names in their order

    @classmethod
    def of(cls, marks: Mapping[str, str]) -> "Origin":
        """From the marks of a local store."""
        named = marks.get("topic", ""), marks.get("source", ""), marks.get("changelog", "")
        return cls(*named, life=marks.get("life", ""))

    def kept(self, metadata: str) -> "Origin":
        """With everything that a command which commits an offset again does not change. metadata: of the present commit."""
        words = {"settings": settings_of(metadata), "sections": sections_of(metadata), "fields": _word(metadata, FIELDS)}
        return self._replace(partitions=marked(metadata) or 0, time_unit=time_unit_of(metadata), **words)

    def with_new_life(self, more: str = "") -> "Origin":
        """Of states that have learned nothing from this input: the ids of its outputs do not repeat former ids.

        more: what tells the life from others of the same input.
        """
        return self._replace(life=life_of_topic(self.input_id + more))

    @property
    def marks(self) -> dict[str, str | None]:
        """For a local store; what is unknown is left as it is there."""
        named = {"topic": self.topic, "source": self.input_id, "changelog": self.changelog_id, "life": self.life}
        return {name: value for name, value in named.items() if value}

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """Of a changelog record: id, name and life of the input; none where the id is not known."""
        if not self.input_id:
            return []
        named = (HEADER, self.input_id), (NAME_HEADER, self.topic), (LIFE_HEADER, self.life)
        return [(name, text.encode()) for name, text in named if text]

    @property
    def metadata(self) -> str:
        """Of a committed offset."""
        known = (
            METADATA + self.changelog_id if self.changelog_id else "",
            mark(self.partitions) if self.partitions else "",
            TIME_UNIT + self.time_unit if self.time_unit else "",
            LIFE + self.life if self.life else "",
            SETTINGS + self.settings if self.settings else "",
            FIELDS + self.fields if self.fields else "",
        )
        return " ".join(filter(None, known))

    def metadata_of(self, offset: int, progress: int, clock: str = "", epoch: int | None = None, states: int = 0) -> str:
        """Of a committed offset; with the progress, see `worker.pace`, where it is beyond the offset.

        clock: event time and clock at the offset, and what alarms have reported, as `core.live.silence` writes them.
        epoch: of the leader, see `patches.epochs`. states: end of the changelog that has the states, 0 where unknown.
        """
        of_clock, reported = clock.split(",")[:2], clock.split(",")[2:]
        words = [
            self.metadata,
            CLOCK + ",".join(of_clock) if clock else "",
            REPORTED + ",".join(reported) if reported else "",
            f"{EPOCH}{epoch}" if epoch is not None else "",
            f"{STATES}{states}" if states else "",
        ]
        if progress > offset:
            words += [f"{PROGRESS}{progress}", SECTIONS + self.sections if self.sections else ""]
        return " ".join(filter(None, words))


def topic_ids(admin: Any, topics: Collection[str]) -> dict[str, str]:
    """The id the broker gave each topic when it was created; "" where it does not tell, MISSING where there is none."""
    unknown = dict.fromkeys(topics, "")
    try:
        if is_mock(admin):
            return unknown
        answers = admin.describe_topics(TopicCollection(list(topics)), request_timeout=timeouts.ADMIN)
        return {name: _id(answer) for name, answer in answers.items()}
    except (KafkaException, TimeoutError):
        return unknown


def _id(answer: Any) -> str:
    try:
        return str(answer.result(timeouts.ADMIN).topic_id or "")
    except KafkaException as error:
        return MISSING if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART else ""
    except TimeoutError:
        return ""


def present_ids(broker: BrokerSection, topics: Collection[str]) -> dict[str, str]:
    """`topic_ids` by a client of its own; "" where it cannot be made. Never call it in an event loop."""
    with suppress(StreamjobsError):  # a password file that is just being replaced: asked again later
        return topic_ids(AdminClient(client.for_confluent(broker)), topics)
    return dict.fromkeys(topics, "")


def newest_input(headers: Iterable[Headers], known: Origin | None = None) -> Origin | None:
    """The input's name, id and life in the last of these records that has them, or else `known`."""
    for of_record in filter(None, headers):  # few records have any, and recovery reads many
        wanted = HEADER, NAME_HEADER, LIFE_HEADER
        marks = {name: (value or b"").decode(errors="replace") for name, value in of_record if name in wanted}
        if marks.get(HEADER):
            input_id = marks[HEADER]
            same = known if known is not None and known.input_id == input_id else Origin()
            named, life = marks.get(NAME_HEADER, ""), marks.get(LIFE_HEADER, "")
            known = Origin(named or same.topic, input_id, life=life or same.life)  # older releases write neither
    return known


def changelog_of(metadata: str | None) -> str:
    """The changelog's id in the metadata of a committed offset; "" where an older release or a tool committed it."""
    return _word(metadata, METADATA)


def time_unit_of(metadata: str | None) -> str:
    """The unit of event times in the metadata of a committed offset; "" where none was decided."""
    return _word(metadata, TIME_UNIT)


def settings_of(metadata: str | None) -> str:
    """The hash of the settings in the metadata of a committed offset; "" where an older release or a tool committed it."""
    return _word(metadata, SETTINGS)


def require_same_fields(place: tuple[str, int], metadata: str | None, present: str) -> None:
    """Raises SetupError if outputs up to a committed offset are of other columns. present: a hash of them."""
    known = _word(metadata, FIELDS)
    if known and present and known != present:
        raise SetupError(
            f"topic {place[0]}[{place[1]}]: this job's states have learned from other fields than [source] names, or in "
            f"another order (expected hash {known}, got {present}). Restore [source] as it was; if only the name of a field "
            "has changed, set [source] renamed = { NEW = 'FORMER' }; to start over, run 'streamjobs state reset JOB --all'."
        )


def sections_of(metadata: str | None) -> str:
    """The sections in the metadata of a committed offset, as `text_of_sections` gives them; "" where they are unknown."""
    return _word(metadata, SECTIONS)


def text_of_sections(sections: Mapping[str, str]) -> str:
    """
    >>> text_of_sections({"stuck": "5e1f0a", "bouts": "77d2c1"}), text_of_sections({})
    ('stuck.5e1f0a,bouts.77d2c1', '-')
    """
    return ",".join(f"{name}.{text}" for name, text in sections.items()) or "-"


def added_sections(present: str, former: str) -> set[str]:
    """Sections, as `text_of_sections` gives them, that the former ones lack, or have with other settings.

    >>> added_sections("stuck.5e1f0a,bouts.77d2c1,alarms.0", "stuck.a0f1e5,bouts.77d2c1") == {"stuck", "alarms"}
    True
    """
    return {one.partition(".")[0] for one in set(present.split(",")) - set(former.split(","))} - {"-"}


def progress_of(offset: int, metadata: str | None) -> int:
    """Up to where outputs are out, by a commit; at least its offset, which an older release or a tool leaves alone.

    >>> progress_of(7, "changelog=x progress=9"), progress_of(7, ""), progress_of(7, "progress=5")
    (9, 7, 7)
    """
    word = _word(metadata, PROGRESS)
    return max(offset, int(word)) if word.isdecimal() else offset


def epoch_of(metadata: str | None) -> int | None:
    """The leader epoch in the metadata of a committed offset.

    >>> epoch_of("progress=9 leader-epoch=4"), epoch_of("progress=9")
    (4, None)
    """
    word = _word(metadata, EPOCH)
    return int(word) if word.isdecimal() else None


def states_of(metadata: str | None) -> int:
    """The end of the changelog in the metadata of a committed offset; 0 where an older release or a tool committed it.

    >>> states_of(Origin("imu").metadata_of(5, 9, states=31)), states_of("progress=9")
    (31, 0)
    """
    word = _word(metadata, STATES)
    return int(word) if word.isdecimal() else 0


def has_learned(offset: int, metadata: str | None) -> bool:
    """Whether states have learned records before a commit, or will when these are applied again.

    >>> has_learned(7, "progress=9"), has_learned(7, "states=31"), has_learned(7, "changelog=x")
    (True, True, False)
    """
    return states_of(metadata) > 0 or progress_of(offset, metadata) > offset


def clock_of(metadata: str | None) -> str:
    """As it was given to `metadata_of`; "" where an older release or a tool committed the offset.

    >>> metadata = Origin("imu").metadata_of(5, 5, "9.5,2.5,1.0,0.0")
    >>> metadata, clock_of(metadata), clock_of("clock=9.5,2.5")
    ('clock=9.5,2.5 reported=1.0,0.0', '9.5,2.5,1.0,0.0', '9.5,2.5')
    """
    return ",".join(filter(None, (_word(metadata, CLOCK), _word(metadata, REPORTED))))


def life_of(metadata: Iterable[str | None]) -> str:
    """The input's life in the metadata of committed offsets; "" where it was never recreated under the job."""
    return max((_word(one, LIFE) for one in metadata), default="")


def life_of_topic(input_id: str) -> str:
    """A short text for a topic's id.

    >>> life_of_topic("xJ2kQ0PzTXmW1mTq3sT2bA")
    'dbc8dd1d'
    """
    return blake2b(input_id.encode(), digest_size=LIFE_BYTES).hexdigest()


def _word(metadata: str | None, mark: str) -> str:
    return next((word.removeprefix(mark) for word in (metadata or "").split() if word.startswith(mark)), "")


def decided_time_unit(topic: str, metadata: Iterable[str | None], ours: str = "") -> str:
    """The unit that the group's offsets tell, or else `ours`. Raises SetupError where they, or they and ours, differ."""
    units = sorted({unit for one in metadata if (unit := time_unit_of(one))} | ({ours} if ours else set()))
    if len(units) > 1:
        raise SetupError(
            f"topic {topic}: workers have decided different units of its event times ({', '.join(units)}) for time_unit = "
            "'auto', so it mixes them. Let producers send one, give the job a new [job] name and set [source] time_unit."
        )
    return units[0] if units else ""


def require_same_input(job: str, present: Origin, known: Origin) -> None:
    """Raises SetupError if the states have learned from another topic, or from one that was recreated since."""
    if known.topic and known.topic != present.topic:
        raise SetupError(another_input(job, known.topic, present.topic))
    if known.input_id and present.input_id and known.input_id != present.input_id:
        raise SetupError(
            f"topic {present.topic}: it was deleted and recreated since this job's states learned from it, or is on another "
            f"cluster (expected id {known.input_id}, got {present.input_id}); its records would count as already applied. "
            "Run 'streamjobs state forget-offsets JOB' to let the states continue with the new topic, restore the topic, or "
            "give the job a new [job] name."
        )


def deleted_input(topic: str) -> str:
    return (
        f"topic {topic} (input): it was deleted while this worker read it. The states and the outputs are kept. "
        "Restore the topic, or create it with 'streamjobs topics create JOB' and run 'streamjobs state forget-offsets JOB'; "
        "then start again."
    )


def replaced_records(place: tuple[str, int], begin: int, end: int) -> str:
    """The sentence for records that this job has read and that the broker has lost since. begin, end: their offsets."""
    return (
        f"topic {place[0]}[{place[1]}]: the broker has lost the records from offset {begin} on, which this job has read "
        f"up to {end}: a node without them became leader (unclean.leader.election.enable). Other records get these offsets, "
        "and would count as already applied. The states and the outputs are kept. Stop all workers; then 'streamjobs state "
        "forget-offsets JOB' continues with the topic as it is, or restore the topic."
    )


def deleted_output(topic: str, role: str) -> str:
    """The sentence for an output topic that was deleted under a worker. role: the sink's name."""
    return (
        f"topic {topic} ({role}): it was deleted while this worker wrote to it. The input of the outputs that it "
        "refused is not acknowledged and is read again; create the topic with 'streamjobs topics create JOB', then "
        "start again."
    )


def another_input(job: str, known: str, present: str) -> str:
    return (
        f"job {job}: its states have learned from topic {known}, but [source] topic is {present}, and states must not mix "
        f"two topics. Give this job another [job] name, or set [source] topic back to {known}."
    )


def lost_states(topic: str, number: int, written: int, end: int) -> str:
    """The sentence for a changelog that ends before what was written to it."""
    return (
        f"topic {topic}[{number}]: this job's states were written up to offset {written}, but the changelog ends at {end}: "
        "a node without them became leader (unclean.leader.election.enable), an old disk was restored, or the topic was "
        f"recreated. Keys would continue with older states. {RESTORE}"
    )


def require_same_changelog(topic: str, known: str, present: str) -> None:
    """Raises SetupError if the changelog is not the one the states were written to. Ids; "" where unknown."""
    if known and present == MISSING:
        raise SetupError(f"topic {topic}: it was deleted, and this job's states with it (expected id {known}). {RESTORE}")
    if known and present and known != present:
        raise SetupError(recreated_changelog(topic, known, present))


def recreated_changelog(topic: str, known: str, present: str) -> str:
    return (
        f"topic {topic}: it was deleted and recreated since this job's states were written to it, or [broker] url "
        f"leads to another cluster (expected id {known}, got {present}); keys without a state in it would start over. "
        f"{RESTORE}"
    )


def deleted_states(topic: str, first: Mapping[int, int]) -> list[str]:
    """A sentence for a changelog with deleted records. first: the first offset of each partition; compaction leaves it 0."""
    deleted = [f"[{number}] before offset {offset}" for number, offset in sorted(first.items()) if offset]
    if not deleted:
        return []
    return [
        f"topic {topic}: the broker has deleted its records ({', '.join(deleted)}), and states with them; keys without a "
        "state would start over, so workers start only where a local store has them. Set the topic's cleanup.policy to "
        "compact. Stop all workers, save what is left with 'streamjobs state export JOB --all -o FILE', delete the topic, "
        "run 'streamjobs topics create JOB' and 'streamjobs state restore JOB --from-local' (without local stores, "
        "--accept), then 'streamjobs state import JOB FILE --all'."
    ]
