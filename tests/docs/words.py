"""Words and turns that make a reader stop, and where they stand: `python -m tests.docs.words` lists them.

STYLE.md says why, with examples. What users see (messages, help, pages, the live page) has none of them; the number in
docstrings and comments may only shrink.
"""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

import typer

from streamjobs.cli import app
from tests.docs.pages import pages
from tests.parts import CHECKOUT

TURNS = (
    r"anew",
    r"told",
    r"whose",
    r"whoever",
    r"somebody(?: else)?",
    r"nobody",
    r"(?:is|are|was|were|be) no",
    r"(?:takes?|taken|took) (?:\w+ )?for(?! granted)",
    r"(?:goes?|went|going) by",
    r"for who",
    r"as (?:it|they) comes?",
    r"for good",
    r"beside",
    r"say(?:s|ing)? so",
    r"no more",
    r"(?:knows?|tells?) of",
    r"there (?:is|are) no(?:ne|thing)? (?:such|like)",
)
PATTERN = re.compile(rf"(?<![\w-])(?:{'|'.join(TURNS)})(?![\w-])", re.IGNORECASE)
SOURCES = ("algorithms", "streamjobs")
QUOTES = {"STYLE.md", "CHANGELOG.md"}  # STYLE.md quotes them; the CHANGELOG keeps what earlier releases said
# Settings, stored values and log events that users rely on: their names stay.
VALUES = (
    "'beside'",
    '"beside 0"',
    "learned anew",
    "offsets are committed but there are no states",
    "waiting for a record whose time tells the unit",
)
_STRING = re.compile(r'"[^"\n]*"|`[^`]*`')
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Turn:
    """One place."""

    path: str
    line: int
    text: str
    visible: bool  # to users: a message, help, a page


def turns() -> list[Turn]:
    """Every place in the product and its pages."""
    places = [turn for path, text in pages().items() if path not in QUOTES for turn in _of_page(path, text)]
    helps = help_functions()
    for folder in SOURCES:
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            name = path.relative_to(CHECKOUT).as_posix()
            places += of_source(name, path.read_text(encoding="utf-8"), helps.get(name, set()))
        for path in sorted((CHECKOUT / folder).rglob("*.html")):
            places += _of_page(path.relative_to(CHECKOUT).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted((CHECKOUT / folder).rglob("*.js")):
            if "uPlot" not in path.name:
                places += _of_script(path.relative_to(CHECKOUT).as_posix(), path.read_text(encoding="utf-8"))
    return places


def _of_page(path: str, text: str) -> Iterator[Turn]:
    blank = _blank(_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text))
    for match in PATTERN.finditer(blank):
        yield Turn(path, text.count("\n", 0, match.start()) + 1, match[0], True)


def _of_script(path: str, text: str) -> Iterator[Turn]:
    """Those in the strings of a page's script."""
    for string in _STRING.finditer(text):
        for match in PATTERN.finditer(string[0]):
            yield Turn(path, text.count("\n", 0, string.start() + match.start()) + 1, match[0], True)


def of_source(path: str, text: str, helps: Set[str] = frozenset()) -> Iterator[Turn]:
    """Turns of a Python file. Visible are plain strings and the docstrings of the functions in `helps`."""
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = set()
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            docstring = node.body[0].value  # type: ignore[attr-defined]
            docstrings.add(id(docstring))
            yield from _in_string(path, docstring, getattr(node, "name", "") in helps)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from _in_string(path, node, True)
    if not PATTERN.search(_blank(text)):  # nor in a comment, and tokens take half the time
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from (Turn(path, token.start[0], match[0], False) for match in PATTERN.finditer(_blank(token.string)))


def help_functions() -> dict[str, set[str]]:
    """Path -> names of the functions with a docstring that `--help` prints."""
    functions: dict[str, set[str]] = defaultdict(set)

    def walk(group: typer.Typer) -> None:
        for command in (*group.registered_commands, group.registered_callback):
            if command is not None and command.callback is not None:
                path = Path(command.callback.__code__.co_filename).relative_to(CHECKOUT).as_posix()
                functions[path].add(command.callback.__name__)
        for inner in group.registered_groups:
            assert inner.typer_instance is not None
            walk(inner.typer_instance)

    walk(app)
    return functions


def _in_string(path: str, node: ast.Constant, visible: bool) -> Iterator[Turn]:
    assert isinstance(node.value, str)
    if visible and all(map(str.isidentifier, node.value.strip().split("."))):  # the name of a field or setting
        return
    text = _blank(node.value)
    for match in PATTERN.finditer(text):
        yield Turn(path, node.lineno + text.count("\n", 0, match.start()), match[0], visible)


def _blank(text: str) -> str:
    for value in VALUES:
        text = text.replace(value, " " * len(value))
    return text


def main(arguments: list[str]) -> int:
    """arguments: beginnings of paths; absent: all. --hidden: also docstrings and comments."""
    hidden = "--hidden" in arguments
    chosen = tuple(word for word in arguments if word != "--hidden")
    for turn in turns():
        if (turn.visible or hidden) and (not chosen or turn.path.startswith(chosen)):
            line = (CHECKOUT / Path(turn.path)).read_text(encoding="utf-8").splitlines()[turn.line - 1].strip()
            print(f"{turn.path}:{turn.line}: {turn.text}: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
