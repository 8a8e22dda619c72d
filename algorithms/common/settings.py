"""Settings of a learner from a plain table: unknown names, wrong types and nested learners, each with one clear sentence."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from algorithms.common.kernels import Kernel, kernel_from
from algorithms.common.protocol import Learner, SettingError

Made = TypeVar("Made")


MOST_LISTED = 80  # names in a sentence; the registry has fewer learners, a row of windows may have thousands of numbers


def suggestion(name: str, known: typing.Iterable[str]) -> str:
    """What to write instead: the same letters in another order, a name that is near, longer names, or the list of names.

    >>> suggestion("okfbe", ["okfe", "okfeb"]), suggestion("x", ["rank"])
    ("; did you mean 'okfeb'?", '; known: rank.')
    >>> suggestion("ax", ["ax_mean", "ax_log_sd", "ay_mean"])
    '; known: ax_log_sd, ax_mean and 1 more.'
    """
    known = sorted(known)
    near = [one for one in known if sorted(one) == sorted(name)] or difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    listed = ([one for one in known if one.startswith(f"{name}_")] or known)[:MOST_LISTED]
    more = f" and {len(known) - len(listed)} more" if len(listed) < len(known) else ""
    return f"; known: {', '.join(listed) or 'none'}{more}."


def build(owner: str, cls: type[Made], settings: Mapping[str, Any], nested: Callable[[Mapping[str, Any]], Learner]) -> Made:
    """Make a frozen dataclass from a table. `nested` makes the learners named inside it (chain, one_vs_rest)."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values = {}
    for name, value in settings.items():
        if name not in fields:
            raise SettingError(f"unknown setting {name!r} for {owner}{suggestion(name, fields)}")
        values[name] = _typed(owner, name, value, hints[name], nested)
    for name, field in fields.items():
        bare = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if name not in values and bare:
            raise SettingError(f"{owner}: setting {name!r} is missing; it has no default.")
    return cls(**values)


def _typed(owner: str, name: str, value: Any, hint: Any, nested: Callable[[Mapping[str, Any]], Learner]) -> Any:
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for option in options:
        if option is type(None) and value is None:
            return None
        if option is Kernel and isinstance(value, (Mapping, Kernel)):
            return value if isinstance(value, Kernel) else kernel_from(value)
        if option is Learner and isinstance(value, (Mapping, Learner)):
            return value if isinstance(value, Learner) else nested(value)
        if typing.get_origin(option) is Literal and value in typing.get_args(option):
            return value
        if typing.get_origin(option) is tuple and isinstance(value, (list, tuple)):
            return tuple(_typed(owner, name, one, typing.get_args(option)[0], nested) for one in value)
        if option is bool and isinstance(value, bool):
            return value
        if option is int and isinstance(value, int) and not isinstance(value, bool):
            return value
        if option is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if option is str and isinstance(value, str):
            return value
    wanted = " or ".join(_word(option) for option in options)
    raise SettingError(f"{owner}: {name} must be {wanted}; got {value!r}.")


def _word(option: Any) -> str:
    if typing.get_origin(option) is Literal:
        return ", ".join(repr(choice) for choice in typing.get_args(option))
    if typing.get_origin(option) is tuple:
        return "a list"
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a text", type(None): "nothing"}
    return words.get(option, "a table" if option in (Kernel, Learner) else str(option))
