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
        lines = [f"{_name(name)} = {_value(value)}" for name, value in settings.items()]
        sections.append("\n".join([f"[{section}]", *lines]))
    return "\n\n".join(sections)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_name(name)} = {_value(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float):
        return repr(float(value))  # also of a kind that Python writes with its name, such as numpy's
    return _text(value)  # texts, integers, true and false are the same in TOML


def _name(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _text(name)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
