"""Links of a page: the file, the heading and the name in the code that each of them promises.

A link to a Python file whose text is code names something in that file: [`Checkpoints.take`](worker/checkpoint.py).
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from tests.parts import CHECKOUT

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def links(text: str) -> Iterator[tuple[str, str]]:
    """(text, target) of every link and picture outside fenced blocks."""
    for found in _LINK.finditer(_FENCE.sub("", text)):
        yield found[1], found[2]


def anchors(text: str) -> set[str]:
    """The anchors a forge gives the headings of a page."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.+?) *$", _FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return set(found)


def wrong_links(page: str, pages: Mapping[str, str]) -> list[str]:
    """One sentence for each link of `page` (its path in the repository) that leads nowhere."""
    problems = []
    for text, target in links(pages[page]):
        if re.match(r"[a-z]+:", target):
            continue  # another site; nothing here opens a connection
        place, _, anchor = target.partition("#")
        path = _resolved(PurePosixPath(page).parent, place) if place else page
        if path is None or not (CHECKOUT / path).exists():
            problems.append(f"{page}: ({target}) does not exist")
        elif anchor and anchor not in anchors(pages.get(path, "")):
            problems.append(f"{page}: ({target}) is no heading of {path}")
        elif path.endswith(".py"):
            problems += [f"{page}: {path} has no {name}" for name in _names(text) if not _holds(CHECKOUT / path, name)]
    return problems


def linked_page(page: str, target: str) -> str | None:
    """The path in the repository that a link of `page` leads to; None for another site."""
    return None if re.match(r"[a-z]+:", target) else _resolved(PurePosixPath(page).parent, target.partition("#")[0])


def _resolved(folder: PurePosixPath, place: str) -> str | None:
    """The path in the repository; None outside of it."""
    parts: list[str] = []
    for part in (*folder.parts, *PurePosixPath(place).parts):
        if part == ".." and not parts:
            return None
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts) or "."


def _names(text: str) -> list[str]:
    """Names of code in a link's text; the file itself, or a command, is none."""
    return [name for name in re.findall(r"`([^`]+)`", text) if re.fullmatch(r"\w+(\.\w+)*", name)]


def _holds(path: Path, name: str) -> bool:
    return name in defined(path) or path.as_posix().endswith("/" + name) or path.stem == name


@cache
def defined(path: Path) -> frozenset[str]:
    """Functions, classes, their methods and fields, constants, and the keys of a table such as `CASES`."""
    return frozenset(_defined(ast.parse(path.read_text(encoding="utf-8")).body, ""))


def _defined(body: list[ast.stmt], before: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield before + node.name
        elif isinstance(node, ast.ClassDef):
            yield before + node.name
            yield from _defined(node.body, f"{before}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (before + target.id for target in targets if isinstance(target, ast.Name))
            if isinstance(node.value, ast.Dict):
                keys = (key.value for key in node.value.keys if isinstance(key, ast.Constant))
                yield from (key for key in keys if isinstance(key, str))
