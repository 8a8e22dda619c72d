"""Settings as text: TOML, with secrets masked."""

import json
import re
from collections.abc import Mapping
from typing import Any

from streamjobs.checking.sentences import is_secret
from streamjobs.config import Section, Settings

MASK = "********"


def masked(settings: Settings) -> dict[str, Any]:
    """Every section as a table, without what is absent; passwords, in urls too, are replaced."""
    table: dict[str, Any] = {}
    for name in Settings.model_fields:
        section = getattr(settings, name)
        if section is None:
            continue
        values = section.model_dump(exclude_none=True)
        model = type(section)
        assert issubclass(model, Section) or section.model_extra is not None
        table[name] = {key: MASK if is_secret(model, key) else _clean(value) for key, value in values.items()}
    return table


def _clean(value: Any) -> Any:
    return re.sub(r"(?<=://)[^@/\s]*@", f"{MASK}@", value) if isinstance(value, str) else value


def toml(table: Mapping[str, Any]) -> str:
    """Sections of settings as TOML.

    >>> print(toml({"learner": {"name": "okfeb", "kernel": {"bandwidth": 1.5}}}))
    [learner]
    name = "okfeb"
    kernel = { bandwidth = 1.5 }
    """
    sections = []
    for section, settings in table.items():
        lines = [f"{name} = {_value(value)}" for name, value in settings.items()]
        sections.append("\n".join([f"[{section}]", *lines]))
    return "\n\n".join(sections)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_value(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # texts, numbers, true and false look the same in TOML
