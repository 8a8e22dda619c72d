"""What a learner's file says about it: the header's sections, the meaning and range of each setting.

Everything comes from the registry: dataclass fields and their types, the comments behind them, the sentences with which
wrong values are refused, docstrings, `room` and `bytes_of`. Where sources are not installed beside the bytecode the
comments and ranges are missing, the rest is there.
"""

import ast
import dataclasses
import functools
import inspect
import io
import re
import sys
import textwrap
import tokenize
import typing
from typing import Any, Literal

from algorithms import LEARNERS, Learner, SettingError, learner_from
from algorithms.common.kernels import Kernel, table_of
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
_TYPES = {int: "integer", float: "number", bool: "true/false", str: "text", Kernel: "kernel table", Learner: "learner table"}


class Setting(typing.NamedTuple):
    name: str
    type: str  # in words; the choices where there are some
    needed: bool
    default: Any  # as a job file would write it, None where there is none
    range: str
    meaning: str


def families() -> dict[str, list[str]]:
    """Names of learners by the folder of `algorithms` they are in; what combines learners is in "composition"."""
    found: dict[str, list[str]] = {}
    for name in sorted(LEARNERS):
        found.setdefault(family(name), []).append(name)
    return dict(sorted(found.items()))


def family(name: str) -> str:
    parts = LEARNERS[name].__module__.split(".")
    return parts[1] if len(parts) > 2 else "composition"


def sections(name: str) -> dict[str, str]:
    """Sections of the file's header, each as one line; "title" is what stands before them."""
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
    cls = LEARNERS[name]
    hints = typing.get_type_hints(cls)
    comments, ranges = _read(name)
    found = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        value = field.default_factory() if callable(field.default_factory) else field.default
        needed = value is dataclasses.MISSING
        found.append(
            Setting(
                name=field.name,
                type=_words(hints[field.name]),
                needed=needed,
                default=None if needed else _plain(value),
                range=ranges.get(field.name, ""),
                meaning=comments.get(field.name, "") or _usual(hints[field.name]),
            )
        )
    return found


def made(name: str, table: dict[str, Any]) -> Learner | None:
    """The learner with these settings, None where needed ones are not given; raises ConfigError where one is wrong."""
    if any(setting.needed and setting.name not in table for setting in settings(name)) and not table:
        return None
    try:
        return learner_from(name, table)
    except SettingError as error:
        raise ConfigError(str(error)) from error


def size(learner: Learner, dim: int, targets: int) -> dict[str, Any]:
    """Bytes of a key's state and features of a row, for x of this length."""
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


def _usual(hint: Any) -> str:
    """The meaning of a setting that is everywhere the same."""
    return _line((Kernel.__doc__ or "").partition(">>>")[0]) if hint is Kernel else ""


def _words(hint: Any) -> str:
    options = (hint,) if typing.get_origin(hint) is Literal else typing.get_args(hint) or (hint,)
    words = []
    for option in options:
        if typing.get_origin(option) is Literal:
            words += [str(choice) for choice in typing.get_args(option)]
        elif option is not type(None):
            words.append(_TYPES.get(option, "table"))
    return " | ".join(words)


def _plain(value: Any) -> Any:
    """A default as a job file would write it."""
    if isinstance(value, Kernel):
        return {name: number for name, number in table_of(value).items() if number is not None}
    if isinstance(value, Learner):
        name = next(name for name, cls in LEARNERS.items() if type(value) is cls)
        own = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return {"name": name, **{setting: number for setting, number in own.items() if number is not None}}
    return value


@functools.cache
def _read(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Of each setting the comment behind it, and what a refused value is told to be."""
    cls = LEARNERS[name]
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}, {}
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.ClassDef)
    by_line = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    comments: dict[str, str] = {}
    ranges: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            comments[node.target.id] = " ".join(by_line[line] for line in lines if line in by_line)
        if isinstance(node, ast.FunctionDef) and node.name == "__post_init__":
            for setting, told in _refusals(node, sys.modules[cls.__module__]):
                ranges[setting] = f"{ranges[setting]}; {told}" if setting in ranges else told
    return comments, ranges


def _refusals(body: ast.FunctionDef, module: Any) -> typing.Iterator[tuple[str, str]]:
    """(setting, "1 or more") of every `require` and `reject`; what is only known when it happens is left out."""
    for call in ast.walk(body):
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        if name not in ("require", "reject") or not isinstance(call, ast.Call):
            continue
        setting, expected = call.args[1], call.args[3 if name == "require" else 2]
        if isinstance(setting, ast.Constant) and (told := _told(expected, module)):
            yield str(setting.value), told


def _told(node: ast.expr, module: Any) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if not isinstance(node, ast.JoinedStr):
        return ""
    words = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            words += str(part.value)
        elif isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
            words += str(getattr(module, part.value.id, ""))
    return re.sub(r" \(\)", "", words)  # "1 to budget ({self.budget})"
