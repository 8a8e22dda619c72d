"""Validates a section, and turns each of pydantic's errors into one sentence: setting, expected, got, nearest known name."""

import difflib
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from algorithms.common.settings import suggestion

Path = tuple[str, ...]  # section, then names of settings
MASK = "********"
_EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "string_pattern_mismatch": "made of letters, digits, '.', '_' and '-' only",
}
_BOUNDS = {
    "greater_than": ("above {}", "gt"),
    "greater_than_equal": ("{} or more", "ge"),
    "less_than": ("below {}", "lt"),
    "less_than_equal": ("at most {}", "le"),
    "too_short": ("a list of {} or more values", "min_length"),
    "too_long": ("a list of at most {} values", "max_length"),
}


class Places(NamedTuple):
    """Where settings come from: the job file, or a variable of the environment."""

    origin: str  # the job file, as the user named it
    variables: Mapping[Path, str]  # path of a setting -> its environment variable

    def of(self, path: Path) -> str:
        """The start of a sentence about the setting at `path`.

        >>> Places("job.toml", {}).of(("learner", "rank"))
        'job.toml [learner]: '
        >>> Places("job.toml", {("learner", "rank"): "STREAMJOBS_LEARNER__RANK"}).of(("learner", "rank"))
        'environment STREAMJOBS_LEARNER__RANK: '
        """
        for length in range(len(path), 1, -1):
            if path[:length] in self.variables:
                return f"environment {self.variables[path[:length]]}: "
        return f"{self.origin} [{path[0]}]: "


def validated(
    model: type[BaseModel], section: str, table: Any, places: Places
) -> tuple[BaseModel | None, list[tuple[Path, str]]]:
    """The section's model, and a sentence with the setting's path for everything wrong in its table.

    Settings that are wrong fall back to their defaults, so that the rest can be checked too; the model is None if one of
    them has no default.
    """
    if not isinstance(table, Mapping):
        got = hidden(repr(table))
        return None, [((section, ""), f"{places.origin}: {section} must be a table, written [{section}]; got {got:.80}.")]
    try:
        return model.model_validate(table, strict=True), []
    except ValidationError as error:
        problems = error.errors()
    sentences = list(_sentences(model, section, problems, places))
    wrong = {path[1] for path, _ in sentences}
    try:
        return model.model_validate({name: table[name] for name in table if name not in wrong}, strict=True), sentences
    except ValidationError:
        return None, sentences


def hidden(text: str) -> str:
    """The text with credentials masked, if it is a url that holds some.

    >>> hidden("kafka://me:word@broker:9092")
    'kafka://********@broker:9092'
    >>> hidden("me:wo/rd@broker")
    '********@broker'
    """
    scheme, between, rest = text.partition("://")
    if not between:
        scheme, rest = "", text
    return f"{scheme}{between}{MASK}@{rest.rpartition('@')[2]}" if "@" in rest else text


def is_secret(model: type[BaseModel], name: str) -> bool:
    """Whether a setting must never be printed."""
    field = model.model_fields.get(name)
    return field is not None and _is_marked_secret(field.json_schema_extra)


def _is_marked_secret(extra: object) -> bool:
    return isinstance(extra, Mapping) and bool(extra.get("secret"))


def _sentences(
    model: type[BaseModel], section: str, problems: list[ErrorDetails], places: Places
) -> Iterator[tuple[Path, str]]:
    """One sentence per wrong setting, with its path."""
    seen: set[str] = set()
    for number, problem in enumerate(problems):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        whole = ".".join(str(part) for part in problem["loc"][: 2 if table_of(model, name) else 1])
        if whole not in seen:  # a setting that may be a text or a table has an error for both
            seen.add(whole)
            several: Any = {**problem, "expected": _of_several_types(problems[number:])}
            yield (section, name), places.of((section, name)) + _sentence(model, name, several)


def _of_several_types(problems: list[ErrorDetails]) -> str | None:
    """What the setting of the first problem may be, or an entry of a list, if it has one for each of its types."""
    first = problems[0]
    other = next((one for one in problems[1:] if one["loc"][:1] == first["loc"][:1]), first)
    if first["type"] in ("bool_type", "bool_parsing") and other["type"] == "value_error":  # or a duration
        return f"true, false or {other['ctx']['error']}"
    if len(first["loc"]) > 2 and first["type"] in _EXPECTED:
        kinds = [_EXPECTED.get(one["type"], "valid") for one in problems if one["loc"][:2] == first["loc"][:2]]
        return ", or ".join(dict.fromkeys(kinds))
    return None


def _sentence(model: type[BaseModel], name: str, problem: Any) -> str:
    """problem: pydantic's ErrorDetails, and `expected` of a setting of several types."""
    entries = _entries_of(model, name)
    if entries is not None and len(problem["loc"]) > 2:
        deeper = {**problem, "loc": problem["loc"][2:]}
        return f"{name}.{problem['loc'][1]}: {_sentence(entries, str(problem['loc'][2]), deeper)}"
    inner_model = table_of(model, name)
    if entries is None and inner_model is not None and len(problem["loc"]) > 1:
        deeper = {**problem, "loc": problem["loc"][1:]}
        return f"{name}: {_sentence(inner_model, str(problem['loc'][1]), deeper)}"
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown setting {name!r}{suggestion(name, model.model_fields)}"
    field = model.model_fields.get(name)
    if kind == "missing":
        meaning = f" ({field.description})" if field and field.description else ""
        return f"setting {name!r} is missing{meaning}; it has no default."
    got = "" if field and _is_marked_secret(field.json_schema_extra) else f"; got {problem['input']!r:.80}"
    if kind == "literal_error":
        value, known = problem["input"], re.split(", | or ", str(context["expected"]))
        near = difflib.get_close_matches(value, [one.strip("'") for one in known], n=1) if isinstance(value, str) else []
        return f"{name} must be {context['expected']}{got}{f'; did you mean {near[0]!r}?' if near else '.'}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"{name} must be {words.format(f'{context[bound]:g}' if context[bound] < 1e6 else context[bound])}{got}."
    if kind == "value_error":
        return f"{name} must be {context['error']}{got}." if name else str(context["error"])  # of a whole table: a sentence
    inner = [part for part in problem["loc"][1:] if isinstance(part, int)]
    subject = f"{name}[{inner[0]}]" if inner else name
    expected = problem["expected"] or _EXPECTED.get(kind, f"valid ({problem['msg'][:1].lower()}{problem['msg'][1:]})")
    return f"{subject} must be {expected}{got}."


def table_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The model of a setting that is a table with settings of its own; None for other settings."""
    field = model.model_fields.get(name)
    options = (field.annotation, *typing.get_args(field.annotation)) if field else ()
    return next((option for option in options if isinstance(option, type) and issubclass(option, BaseModel)), None)


def _entries_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The model of each entry of a setting that is a table of tables by name; None for other settings."""
    field = model.model_fields.get(name)
    entry = typing.get_args(field.annotation)[1:] if field and typing.get_origin(field.annotation) is dict else ()
    return entry[0] if entry and isinstance(entry[0], type) and issubclass(entry[0], BaseModel) else None
