"""Settings written as TOML, which Python's own library only reads."""

import json
from collections.abc import Mapping
from typing import Any


def toml(table: Mapping[str, Any]) -> str:
    """Sections of a job file, without a line's end behind the last.

    >>> print(toml({"learner": {"name": "okfeb", "kernel": {"bandwidth": 2.0}}, "head": {"name": "rls"}}))
    [learner]
    name = "okfeb"
    kernel = { bandwidth = 2.0 }
    <BLANKLINE>
    [head]
    name = "rls"
    """
    sections = []
    for section, settings in table.items():
        sections.append("\n".join([f"[{section}]", *(toml_line(name, value) for name, value in settings.items())]))
    return "\n\n".join(sections)


def toml_line(name: str, value: Any) -> str:
    """A setting, such as `rank = 5`."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return f"{name if plain else quoted(name)} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """A value in one line: a table is written in braces."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(toml_line(name, inner) for name, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, float):
        return repr(float(value))  # also of a kind that Python writes with its name, such as numpy's
    return quoted(value)  # texts, integers, true and false are the same in TOML


def quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one character that TOML refuses in a text
