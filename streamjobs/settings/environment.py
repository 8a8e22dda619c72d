"""Settings from the environment: STREAMJOBS_SECTION__NAME holds a TOML value; anything else is a text."""

import tomllib
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from algorithms.common.settings import suggestion
from streamjobs.errors import ConfigError
from streamjobs.settings.sections import Settings
from streamjobs.settings.sentences import Path, is_secret, table_of
from streamjobs.settings.types import MOST_NUMBERS

PREFIX = "STREAMJOBS_"
DEEPEST = 32  # levels of nested tables and lists
LONGEST = MOST_NUMBERS  # values of a list
MOST_NAMES = 1000  # names in a table
SECTION_MODELS: dict[str, type[BaseModel]] = {  # the model of each section, also of optional ones
    name: model for name in Settings.model_fields if (model := table_of(Settings, name)) is not None
}


def overridden(table: Mapping[str, Any], env: Mapping[str, str]) -> tuple[dict[str, Any], dict[Path, str], list[str]]:
    """The table with the environment's settings, the variable of each such setting, and every problem.

    >>> overridden({"learner": {"name": "okfeb"}}, {"STREAMJOBS_LEARNER__RANK": "20"})[0]
    {'learner': {'name': 'okfeb', 'rank': 20}}
    """
    merged = {section: _copy(value) for section, value in table.items()}
    variables: dict[Path, str] = {}
    problems = []
    for variable in sorted(env):
        if not variable.startswith(PREFIX) or "__" not in variable:
            continue
        path = tuple(word.lower() for word in variable[len(PREFIX) :].split("__"))
        if path[0] not in Settings.model_fields:
            problems.append(
                f"environment {variable}: unknown section {path[0]!r}{suggestion(path[0], Settings.model_fields)}"
            )
        elif not all(path) or len(path) > DEEPEST or not _put(merged, path, _value(path, env[variable])):
            problems.append(f"environment {variable}: expected {PREFIX}SECTION__NAME of a setting; this names none.")
        else:
            variables[path] = variable
    return merged, variables, problems


def require_usual(table: Mapping[str, Any], contains: str, place: str) -> None:
    """Raises ConfigError for what no setting can be, and Python may fail to print: huge integers, deep nesting, long lists.

    contains, place: the first words of the sentence.

    >>> require_usual({"source": {"fields": ["x"] * 5000}}, "job.toml: contains", "job.toml")
    Traceback (most recent call last):
    streamjobs.errors.ConfigError: job.toml [source]: fields has 5,000 values; a list may have 4,096.
    """
    level: list[tuple[Path, Any]] = [((), table)]
    for _ in range(DEEPEST):
        inner: list[tuple[Path, Any]] = []
        for path, value in level:
            where = f"[{path[0]}]: {'.'.join(path[1:]) or 'the section'}" if path else "as a whole"
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise ConfigError(f"{contains} an integer beyond 64 bits, which no setting accepts.")
            if isinstance(value, Mapping):
                if len(value) > MOST_NAMES:
                    raise ConfigError(f"{place} {where} has {len(value):,} names; a table may have {MOST_NAMES:,}.")
                inner += [((*path, str(name)), one) for name, one in value.items()]
            elif isinstance(value, (list, tuple)):
                if len(value) > LONGEST:
                    raise ConfigError(f"{place} {where} has {len(value):,} values; a list may have {LONGEST:,}.")
                inner += [(path, one) for one in value]
        level = inner
    if level:
        raise ConfigError(f"{contains} tables and lists nested more than {DEEPEST} deep, which no setting accepts.")


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copy(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(inner) for inner in value]
    return value


def _put(table: dict[str, Any], path: Path, value: Any) -> bool:
    for name in path[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            return False
    table[path[-1]] = value
    return True


def _value(path: Path, text: str) -> Any:
    section = SECTION_MODELS.get(path[0])
    if section is not None and is_secret(section, path[1]):
        return text  # never parsed: a secret may look like TOML
    if _is_text(path) and not text.startswith(('"', "'")):
        return text
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if set(parsed) == {"value"} else text


def _is_text(path: Path) -> bool:
    """Whether the setting takes texts only; then a name such as 2024 needs no quotes."""
    section = SECTION_MODELS.get(path[0])
    field = section.model_fields.get(path[1]) if section and len(path) == 2 else None
    if field is None:
        return False
    options = typing.get_args(field.annotation) or (field.annotation,)
    plain = {typing.get_args(option)[0] if hasattr(option, "__metadata__") else option for option in options}
    return plain <= {str, type(None)}
