"""What a document names: commands, options, metrics, settings and environment variables, held against what there is."""

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from streamjobs.recordings import places
from streamjobs.settings.sections import Settings
from streamjobs.worker.metrics.table import METRICS, PREFIX
from tests.docs.reference import leaf_commands

LIMITS = {one.variable for one in (places.BYTES, places.COLUMNS, places.FILES)}
ENVIRONMENT = {"STREAMJOBS_CACHE", "STREAMJOBS_DATA"} | LIMITS  # next to the overrides of settings
SUFFIXES = ("_bucket", "_sum", "_count")  # of a histogram's or counter's series


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, contents) of every fenced block."""
    for found in re.finditer(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield found[1], found[2]


def wrong_commands(text: str) -> list[str]:
    """Calls of streamjobs, in fenced blocks or `like this`, with a command or an option that does not exist."""
    lines = [line for _, contents in blocks(text) for line in contents.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`(streamjobs [^`]*)`", text.replace("\n", " "))
    calls = [call for line in lines for call in re.findall(r"(?:^|[\s/&;|$])streamjobs\s+([a-z][^&;|#>]*)", line)]
    return [problem for call in calls if (problem := _wrong_call(call.strip()))]


@cache
def _commands() -> Mapping[tuple[str, ...], Any]:
    """Made once: the pages have hundreds of calls."""
    return {tuple(words): command for words, command in leaf_commands()}


def _wrong_call(call: str) -> str:
    known, words = _commands(), shlex.split(call)
    if any(tuple(words) == command[: len(words)] for command in known):
        return ""  # a group of commands, or a command alone
    command = known.get(tuple(words[:2])) or known.get(tuple(words[:1]))
    if command is None:
        return f"'streamjobs {call}': there is no such command"
    there = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    named = {word.partition("=")[0] for word in words if word.startswith("--")}
    strange = sorted(named - there - {"--debug", "--help"})
    return f"'streamjobs {call}': there is no option {', '.join(strange)}" if strange else ""


def wrong_metrics(text: str) -> list[str]:
    """Metrics that no worker has. Series of recording rules (`level:metric:operation`) are none."""
    known = {PREFIX + metric.name for metric in METRICS}
    named = set(re.findall(rf"(?<![\w:]){PREFIX}[a-z_]*[a-z]\b", text))
    return sorted(
        name for name in named if name not in known and not any(name.removesuffix(end) in known for end in SUFFIXES)
    )


def wrong_settings(text: str) -> list[str]:
    """Sections and settings in blocks of TOML that the job file does not have."""
    problems = []
    for language, contents in blocks(text):
        if language != "toml":
            continue
        for section, table in tomllib.loads(contents).items():
            model = _section(section)
            if model is None:
                problems.append(f"[{section}]")
            elif model.model_config.get("extra") != "allow":
                problems += [f"[{section}] {name}" for name in table if name not in model.model_fields]
    return problems


def wrong_variables(text: str) -> list[str]:
    """Environment variables that override no setting and are not read otherwise."""
    problems = []
    for variable in sorted(set(re.findall(r"\bSTREAMJOBS_[A-Z_]*[A-Z]\b", text)) - ENVIRONMENT):
        section, _, name = variable.removeprefix("STREAMJOBS_").lower().partition("__")
        model = _section(section)
        if f"{section}__{name}" != "section__name" and (model is None or name not in model.model_fields):
            problems.append(variable)
    return problems


def _section(name: str) -> Any:
    field = Settings.model_fields.get(name)
    if field is None:
        return None
    options = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return next(option for option in options if hasattr(option, "model_fields"))
