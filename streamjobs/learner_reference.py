"""What the registry knows about each learner: for `streamjobs describe`, estimators and algorithms/reference.md.

Everything is read from the learner's own file: the header's sections, dataclass fields with their types and comments,
the sentences that refuse wrong values, docstrings, `workspace` and `bytes_of`. Without source files next to the bytecode
the comments and ranges are missing; the rest is there.
"""

import ast
import dataclasses
import functools
import inspect
import re
import sys
import textwrap
import typing
from typing import Any, Literal

from algorithms import LEARNERS, Learner, SettingError, learner_from
from algorithms.common.kernels import Kernel, table_of
from algorithms.common.ranges import ranges as stated_ranges
from streamjobs.errors import ConfigError

HEADINGS = {  # of a learner's file -> name in JSON
    "Source": "source",
    "Symbols": "symbols",
    "Model": "model",
    "One row": "one_row",
    "Cost of a row": "cost_of_a_row",
    "State": "state",
    "Readings": "readings",
    "Departs from the source": "departs_from_the_source",
}
CHOSEN_WIDTH = (
    'bandwidth = "auto" chooses it by kernel alignment from the first `bandwidth_rows` (100) rows of a key: '
    "see auto_bandwidth."
)
_TYPES = {int: "integer", float: "number", bool: "true/false", str: "text", Kernel: "kernel table", Learner: "learner table"}


class Setting(typing.NamedTuple):
    name: str
    type: str  # in words; the choices where there are some
    needed: bool
    default: Any  # as a job file would write it, None where there is none
    range: str
    meaning: str


def families() -> dict[str, list[str]]:
    """Names of learners by folder of `algorithms`, or package; learners made of others are in "composition"."""
    found: dict[str, list[str]] = {}
    for name in sorted(LEARNERS):
        found.setdefault(LEARNERS.family(name), []).append(name)
    return dict(sorted(found.items()))


def kind(cls: type[Learner]) -> str:
    """The learner's kind in words, also where its settings decide."""
    if isinstance(cls.kind, str):
        return cls.kind
    hints = typing.get_type_hints(cls)
    if inner := [name for name, hint in hints.items() if hint is Learner]:
        return f"its {inner[-1]}'s"
    if "regress" in hints:
        return "features, or regression with `regress`"
    if "head" in hints:
        return "regression, or features for a [head]"
    return "regression or classification"


def sections(name: str) -> dict[str, str]:
    """The sections of the file's header, each as one line; "title" is the text before them."""
    header = inspect.cleandoc(sys.modules[LEARNERS[name].__module__].__doc__ or "")
    pattern = r"(?:^|(?<=  ))(" + "|".join(HEADINGS) + r"):\s"
    parts = re.split(pattern, header, flags=re.MULTILINE)
    found = {"title": _line(parts[0])}
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        found[HEADINGS[heading]] = _line(text)
    return found


def meaning(name: str) -> str:
    """What the class says it does: its docstring without the example."""
    return _line(inspect.cleandoc(LEARNERS[name].__doc__ or "").partition(">>>")[0])


def settings(name: str) -> list[Setting]:
    """The learner's settings, in the order of its fields."""
    cls = LEARNERS[name]
    hints = typing.get_type_hints(cls)
    comments, ranges = _comments_and_ranges(name)
    found = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        value = field.default_factory() if callable(field.default_factory) else field.default
        needed = value is dataclasses.MISSING
        found.append(
            Setting(
                name=field.name,
                type=_type_in_words(hints[field.name]),
                needed=needed,
                default=None if needed else _toml_value(value),
                range=ranges.get(field.name, ""),
                meaning=comments.get(field.name, "") or _usual_meaning(hints[field.name]),
            )
        )
    return found


def make_learner(name: str, table: dict[str, Any]) -> Learner | None:
    """The learner with these settings; None without any where some are needed. Raises ConfigError for a wrong one."""
    if any(setting.needed and setting.name not in table for setting in settings(name)) and not table:
        return None
    try:
        return learner_from(name, table)
    except SettingError as error:
        raise ConfigError(str(error)) from error


def size(learner: Learner, dim: int, targets: int) -> dict[str, Any]:
    """Bytes of a key's state and features of a row, for x of this length. Raises ConfigError for a wrong length."""
    try:
        state = learner.init(dim=dim, targets=targets, seed=0)
        width = learner.width_for(dim)
    except SettingError as error:
        raise ConfigError(str(error)) from error
    return {
        "dim": dim,
        "targets": targets,
        "kind": learner.kind,
        "features": width,
        "bounded": learner.bounded,
        "state_bytes": learner.bytes_of(state) if learner.bounded else None,
        "workspace_bytes": learner.workspace(state).nbytes if learner.bounded else None,
    }


def _line(text: str) -> str:
    return " ".join(text.split())


def _usual_meaning(hint: Any) -> str:
    """The meaning of a setting that every learner shares."""
    return f"{_line((Kernel.__doc__ or '').partition('>>>')[0])} {CHOSEN_WIDTH}" if hint is Kernel else ""


def _type_in_words(hint: Any) -> str:
    options = (hint,) if typing.get_origin(hint) is Literal else typing.get_args(hint) or (hint,)
    words = []
    for option in options:
        if typing.get_origin(option) is Literal:
            words += [str(choice) for choice in typing.get_args(option)]
        elif option is not type(None):
            words.append(_TYPES.get(option, "table"))
    return " | ".join(words)


def _toml_value(value: Any) -> Any:
    """A default as a job file would write it."""
    if isinstance(value, Kernel):
        return {name: number for name, number in table_of(value).items() if number is not None}
    if isinstance(value, Learner):
        own = {f.name: _toml_value(getattr(value, f.name)) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return {"name": value.name, **{setting: number for setting, number in own.items() if number is not None}}
    return value


@functools.cache
def _comments_and_ranges(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """For each setting, the comment behind it, and the range that its type or the error for a refused value states."""
    comments: dict[str, str] = {}
    stated = stated_ranges(LEARNERS[name])  # type: ignore[arg-type]
    ranges = {setting: one.expected for setting, one in stated.items()}
    for cls in reversed(LEARNERS[name].__mro__[: LEARNERS[name].__mro__.index(Learner)]):
        try:
            source = textwrap.dedent(inspect.getsource(cls))
        except (OSError, TypeError):
            continue
        tree = ast.parse(source).body[0]
        assert isinstance(tree, ast.ClassDef)
        by_line = {n: line.partition("  # ")[2] for n, line in enumerate(source.splitlines(), 1) if "  # " in line}
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                said = " ".join(by_line[line] for line in lines if line in by_line)
                comments[node.target.id] = said or comments.get(node.target.id, "")
            if isinstance(node, ast.FunctionDef) and node.name in ("check", "__post_init__"):
                for setting, expected in _ranges(node, sys.modules[cls.__module__]):
                    ranges[setting] = f"{ranges[setting]}; {expected}" if setting in ranges else expected
    return comments, ranges


def _ranges(body: ast.FunctionDef, module: Any) -> typing.Iterator[tuple[str, str]]:
    """(setting, "1 or more") for every `require` and `reject`; ranges known only at run time are left out."""
    for call in ast.walk(body):
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        if name not in ("require", "reject") or not isinstance(call, ast.Call):
            continue
        setting, expected = call.args[1], call.args[3 if name == "require" else 2]
        if isinstance(setting, ast.Constant) and (text := _expected_value(expected, module)):
            yield str(setting.value), text


def _expected_value(node: ast.expr, module: Any) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if not isinstance(node, ast.JoinedStr):
        return ""
    words = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            words += str(part.value)
        elif isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
            number = getattr(module, part.value.id, None)
            words += str(number) if isinstance(number, int) else "?"  # a local variable may be called like a function
        else:
            words += "?"
    words = re.sub(r" \([^)]*\?[^)]*\)", "", words)  # "1 to budget ({self.budget})"
    return "" if "?" in words else words
