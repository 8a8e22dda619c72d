"""[sinks]: settings that contradict one another, or the rest of the job."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from algorithms import Learner
from streamjobs.settings.false_alarms import tells_alarms
from streamjobs.settings.learners import PREDICTING
from streamjobs.settings.sections import SINKS, SinksSection
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import Problems

OF_SECTIONS = {"bouts": "bouts", "forecasts": "forecast"}  # sinks of optional sections
LONGEST_TOPIC = 249  # characters of a name, to the broker


def sinks_contradictions(
    sinks: SinksSection, source: SourceSection, parts: Mapping[str, Any], learners: Mapping[str, Learner]
) -> Problems:
    """Each contradiction with its setting. `learners` are those of `read_learners`."""
    users = {source.topic: "the input topic", source.base_topic: "the input topic"}
    asked = parts.get("alarms") is not None
    for name in SINKS:
        stated = getattr(sinks, name)
        if name == "dlq" and stated == "":
            yield "sinks.dlq", "dlq cannot be off; name a topic for records that cannot be used, or remove it."
            continue
        if stated in (".", ".."):
            yield f"sinks.{name}", f"{name} must be a topic's name; got {stated!r}."
        if name == "alarms" and stated is None and not asked and not tells_alarms(parts.get("drift"), sinks):
            continue
        if stated is None and (name == "features" or (name in OF_SECTIONS and parts.get(OF_SECTIONS[name]) is None)):
            continue
        topic = f"{source.base_topic}.{name}" if stated is None else stated
        if topic and topic in users:
            yield f"sinks.{name}", f"{name} must be a topic of its own; {topic!r} is already {users[topic]}."
        elif topic:
            users[topic] = f"the topic of {name}"
        if len(topic) > LONGEST_TOPIC:
            yield (
                f"sinks.{name}",
                f"{name} must be a topic's name of at most {LONGEST_TOPIC} characters; {topic!r:.60}... has {len(topic)}.",
            )
    learner, head = learners.get("learner"), parts.get("head")
    if sinks.features and learner is not None and learner.kind in PREDICTING:
        yield "sinks.features", "no features would be sent: the learner predicts and has no features. Remove the setting."
    if sinks.predictions and head is None and learner is not None and learner.kind == "features":
        yield "sinks.predictions", "no predictions would be sent without a [head]. Add one, or remove the setting."
    if sinks.scores and sinks.predictions == "":
        yield "sinks.scores", "scores are a field of predictions, which are off. Remove one of the two settings."
    elif sinks.scores and learner is not None and not _classifies(parts, learner):
        yield "sinks.scores", "scores need a classification; this job has none. Remove the setting."
    for name, what in (("drift", "drift events"), ("alarms", "alarms")):
        if getattr(sinks, name) and parts.get("drift") is None and not (name == "alarms" and asked):
            yield f"sinks.{name}", f"no {what} would be sent without a [drift] section. Add one, or remove the setting."
    if asked and sinks.alarms == "":
        yield "sinks.alarms", "[alarms] sends to the topic of alarms, which is off. Remove one of the two settings."
    if asked and not parts["alarms"].kinds:
        yield "alarms.stuck", "[alarms] asks for no alarm. Set stuck = true or silent = '10m', or remove the section."
    for name, section in OF_SECTIONS.items():
        if getattr(sinks, name) and parts.get(section) is None:
            without = f"no {name} would be sent without a [{section}] section"
            yield f"sinks.{name}", f"{without}. Add one, or remove the setting."
    if parts.get("bouts") is not None and learner is not None and not _classifies(parts, learner):
        yield "bouts.shortest", "bouts need a classification; this job has none. Remove [bouts]."
    yield from _of_sensors(parts.get("alarms"), source, parts.get("state"))
    if sinks.alarms == "" and getattr(parts.get("drift"), "relearn_after", None) is not None:
        yield (
            "sinks.alarms",
            "relearn_after needs open alarms, which are kept only if their topic is on; remove one of the two settings.",
        )


def _of_sensors(alarms: Any, source: SourceSection, state: Any) -> Problems:
    """[alarms] and what contradicts it; alarms, state: their sections, or None."""
    expected = alarms.expected if alarms is not None else []
    if source.key is None and not expected and source.partitioner != SourceSection.model_fields["partitioner"].default:
        lacks = "partitioner has no meaning without key and without [alarms] expected"
        yield "source.partitioner", f"{lacks}; set one of them, or remove partitioner."
    if alarms is None:
        return
    if alarms.group is not None and alarms.silent is None:
        yield "alarms.group", "group needs silent, which compares the event time of a partition's keys. Add silent = '1h'."
    if expected and alarms.silent is None:
        yield "alarms.expected", "expected needs silent, the time after which a key is missing. Add silent = '1h'."
    if "" in expected or len(set(expected)) < len(expected):
        twice = next((key for key, times in Counter(expected).items() if times > 1), "")
        yield "alarms.expected", f"expected must name different keys, each with a character or more; got {twice!r:.80}."
    if alarms.silent is not None and state is not None and state.ttl:
        yield (
            "alarms.silent",
            "silent cannot be used with [state] ttl, because it needs the states of all keys. Remove one of the two.",
        )


def _classifies(parts: Mapping[str, Any], learner: Learner) -> bool:
    """Whether the job's head, or its learner that predicts by itself, has classes."""
    task = parts.get("task")
    return task is None or (task.task == "classification" and ("head" in parts or learner.kind in PREDICTING))
