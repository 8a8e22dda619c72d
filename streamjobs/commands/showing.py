"""Settings as text: TOML, with secrets masked."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from streamjobs.checking.sentences import MASK, is_secret
from streamjobs.config import Settings


def masked(settings: Settings) -> dict[str, Any]:
    """Every section as a table, without what is absent; secrets are replaced."""
    sections = {name: section for name in Settings.model_fields if (section := getattr(settings, name)) is not None}
    return {name: without_secrets(section) for name, section in sections.items()}


def without_secrets(section: BaseModel) -> dict[str, Any]:
    """A section's settings, those marked as secret replaced by asterisks."""
    values = section.model_dump(exclude_none=True)
    return {name: MASK if is_secret(type(section), name) else value for name, value in values.items()}


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
