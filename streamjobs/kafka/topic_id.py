"""Which input the states have learned from: the topic's id beside them, in the changelog's headers and the local store.

A topic that was deleted and made anew under the same name counts its offsets from 0 again: its records would pass for
ones already applied, and be skipped. The group's offsets do not tell, the broker deletes them with the topic.
"""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from streamjobs.core.messages import Headers
from streamjobs.errors import SetupError
from streamjobs.kafka.topics import ANSWER_WITHIN, is_mock

HEADER = "streamjobs-input"  # of a changelog record: id of the input's topic


def topic_id(admin: Any, topic: str) -> str:
    """The id the broker gave the topic when it was made; "" where it does not say."""
    try:
        if is_mock(admin):
            return ""
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_WITHIN)
        return str(asked[topic].result(ANSWER_WITHIN).topic_id or "")
    except (KafkaException, TimeoutError):
        return ""


def marks(input_id: str) -> list[tuple[str, bytes]]:
    """Headers of a changelog record."""
    return [(HEADER, input_id.encode())] if input_id else []


def newest_mark(headers: Iterable[Headers]) -> str | None:
    """The id that the last of these records tells, None where none does."""
    found = None
    for of_record in headers:
        for name, value in of_record:
            if name == HEADER:
                found = value.decode()
    return found


def refuse_another(topic: str, known: str | None, present: str) -> None:
    """known: the id beside the states. Raises SetupError where it is not the topic's."""
    if known and present and known != present:
        raise SetupError(
            f"topic {topic}: it was deleted and made anew since this job's states learned from it (its id was {known}, now "
            f"{present}); its records would pass for ones already applied. 'streamjobs state forget-offsets JOB' lets the "
            "states go on with the new topic; or restore the topic, or give the job a new [job] name."
        )
