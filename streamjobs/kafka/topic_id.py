"""The id of the input topic that the states have learned from, stored in the changelog's headers and the local store.

A topic that was deleted and recreated under its name counts its offsets from 0 again. Its records would be taken for ones
already applied, and skipped. The group's offsets do not show it: the broker deletes them with the topic.
"""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from streamjobs.core.messages import Headers
from streamjobs.errors import SetupError
from streamjobs.kafka import timeouts
from streamjobs.kafka.topics import is_mock

HEADER = "streamjobs-input"  # of a changelog record: id of the input's topic


def topic_id(admin: Any, topic: str) -> str:
    """The id the broker gave the topic when it was created; "" where it does not report one."""
    try:
        if is_mock(admin):
            return ""
        answers = admin.describe_topics(TopicCollection([topic]), request_timeout=timeouts.ADMIN)
        return str(answers[topic].result(timeouts.ADMIN).topic_id or "")
    except (KafkaException, TimeoutError):
        return ""


def marks(input_id: str) -> list[tuple[str, bytes]]:
    """The headers of a changelog record that hold the input's id; none where it is not known."""
    return [(HEADER, input_id.encode())] if input_id else []


def newest_mark(headers: Iterable[Headers]) -> str | None:
    """The input's id in the last of these records that has one; None where none has."""
    newest = None
    for of_record in headers:
        for name, value in of_record:
            if name == HEADER:
                newest = value.decode()
    return newest


def require_same_topic(topic: str, known: str | None, present: str) -> None:
    """Raises SetupError when the states have learned from another topic. known: the id stored with them, if any."""
    if known and present and known != present:
        raise SetupError(
            f"topic {topic}: it was deleted and recreated since this job's states learned from it (expected id {known}, got "
            f"{present}); its records would be taken for ones already applied. Run 'streamjobs state forget-offsets JOB' to "
            "let the states continue with the new topic, restore the topic, or give the job a new [job] name."
        )
