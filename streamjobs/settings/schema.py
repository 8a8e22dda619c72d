"""The JSON Schema of the job file, for editors: sections from the models, learners' settings from the registry."""

import dataclasses
import typing
from typing import Any, Literal

from algorithms import LEARNERS
from algorithms.common.kernels import NAMES, Kernel
from algorithms.common.protocol import Learner
from streamjobs.settings.sections import Settings

_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}
_WIDTH = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "auto"}]}
_TABLES: dict[type, dict[str, Any]] = {
    Kernel: {"type": "object", "properties": {"name": {"enum": list(NAMES)}, "bandwidth": _WIDTH}},
    Learner: {"type": "object"},
}


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12): every setting with its description, type and range."""
    schema: dict[str, Any] = _without_null(Settings.model_json_schema())
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "streamjobs job file"
    schema["additionalProperties"] = False
    schema["required"].remove("learner")
    schema["anyOf"] = [{"required": ["learner"]}, {"required": ["forecast"]}]
    for section, kinds in (
        ("LearnerSection", ("features", "regression", "classification")),
        ("HeadSection", ("regression", "classification")),
    ):
        model = schema["$defs"][section]
        names = sorted(
            name for name, learner in LEARNERS.items() if learner.kind in kinds or not isinstance(learner.kind, str)
        )
        model["properties"]["name"] |= {"enum": names}
        model["allOf"] = [_settings_of(name) for name in names]
    detectors = sorted(name for name, learner in LEARNERS.items() if learner.kind == "drift")
    with_ls_error = sorted(name for name, learner in LEARNERS.items() if learner.kind == "features")
    drift = schema["$defs"]["DriftSection"]["properties"]
    drift["detector"]["anyOf"][0] = {"enum": detectors}
    drift["beside"]["items"]["anyOf"][0] = {"enum": with_ls_error}
    drift["extractor"] |= {"properties": {"name": {"enum": with_ls_error}}, "required": ["name"]}
    return schema


def _settings_of(name: str) -> dict[str, Any]:
    """The rule "if the learner's name is this, its settings are these"."""
    learner = LEARNERS[name]
    hints = typing.get_type_hints(learner)
    properties = {}
    for field in dataclasses.fields(learner):  # type: ignore[arg-type]
        properties[field.name] = _type(hints[field.name])
        if isinstance(field.default, (int, float, str)):
            properties[field.name]["default"] = field.default
    return {"if": {"properties": {"name": {"const": name}}}, "then": {"properties": properties}}


def _type(hint: Any) -> dict[str, Any]:
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if typing.get_origin(hint) is Literal:
        return {"enum": list(typing.get_args(hint))}
    if options:
        types = [_type(option) for option in options]
        return types[0] if len(types) == 1 else {"anyOf": types}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    return dict(_TABLES.get(hint, {}))


def _without_null(node: Any) -> Any:
    """The schema without null as a type or default: TOML has no null, an unset setting is left out."""
    if isinstance(node, list):
        return [_without_null(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    cleaned = {name: _without_null(inner) for name, inner in node.items() if not (name == "default" and inner is None)}
    options = cleaned.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        options.remove({"type": "null"})
        if len(options) == 1:
            del cleaned["anyOf"]
            cleaned = {**options[0], **cleaned}
    return cleaned
