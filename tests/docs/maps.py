"""Pictures in Mermaid, held against the imports: what a box names exists, and what an arrow says is so.

A box is `id["module<br/>words"]` or, where its id is the module, `id` alone. An arrow is one of
    A --> B             A imports B
    A -.-> B            data flows from A to B: B imports A
    A ==>|by W| B       W imports B and, itself or through others, A; A does not import B
The subgraphs of the picture of the layers stand from the highest floor to the lowest.
"""

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from tests.docs.named import blocks
from tests.layers.imports import imported, modules

Imports = Mapping[str, Set[str]]  # module -> modules it imports

_BOX = re.compile(r'(\w+)(?:\["([^"]+)"\])?')
_ARROW = re.compile(r"(\w+) (-->|-\.->|==>)(?:\|by ([\w.]+)\|)? (\w+)")
_FLOOR = re.compile(r'subgraph (\w+)\["[^"]+"\]')
_IGNORED = re.compile(r"flowchart (TB|LR)|%%.*|end|")


@dataclass
class Map:
    """A picture as it is written; boxes and arrows by module."""

    boxes: dict[str, str] = field(default_factory=dict)  # id -> module
    arrows: list[tuple[str, str, str, str]] = field(default_factory=list)  # from, kind, to, by ("" without)
    floors: list[list[str]] = field(default_factory=list)  # modules, from the highest floor to the lowest
    unread: list[str] = field(default_factory=list)  # lines that say nothing a test could hold


def project_imports() -> dict[str, set[str]]:
    """What each module imports of the project."""
    known = modules()
    return {
        module: {
            target
            for _, target in imported(path.read_text(), module, set(known), is_package=path.name == "__init__.py")
            if target in known
        }
        for module, path in known.items()
    }


def maps(text: str) -> Iterator[Map]:
    """The pictures of a page."""
    for language, contents in blocks(text):
        if language == "mermaid":
            yield read_map(contents)


def read_map(contents: str) -> Map:
    found = Map()
    for line in map(str.strip, contents.splitlines()):
        if arrow := _ARROW.fullmatch(line):
            found.arrows.append((arrow[1], arrow[2], arrow[4], arrow[3] or ""))
        elif _FLOOR.fullmatch(line):
            found.floors.append([])
        elif not _IGNORED.fullmatch(line):
            if box := _BOX.fullmatch(line):
                found.boxes[box[1]] = _full((box[2] or box[1]).partition("<br/>")[0])
                if found.floors:
                    found.floors[-1].append(found.boxes[box[1]])
            else:
                found.unread.append(line)
    return found


def _full(name: str) -> str:
    return name if name.partition(".")[0] == "algorithms" else f"streamjobs.{name}"


def wrong(found: Map, imports: Imports) -> list[str]:
    """One sentence for each box that is no module and each arrow that is not so."""
    problems = [f"'{line}' is neither a box nor an arrow" for line in found.unread]
    problems += [f"there is no module {module}" for module in found.boxes.values() if module not in imports]
    for start, kind, end, by in found.arrows:
        if start not in found.boxes or end not in found.boxes:
            problems.append(f"{start} {kind} {end}: one of them is no box")
            continue
        a, b = found.boxes[start], found.boxes[end]
        if kind == "-->" and not _imports(a, b, imports):
            problems.append(f"{start} --> {end}: {a} does not import {b}")
        if kind == "-.->" and not _imports(b, a, imports):
            problems.append(f"{start} -.-> {end}: {b} does not import {a}")
        if kind == "==>":
            giver = _full(by)
            if giver not in imports or not _imports(giver, b, imports) or not _reaches(giver, a, imports):
                problems.append(f"{start} ==> {end}: {giver} does not import both {a} and {b}")
            elif _imports(a, b, imports):
                problems.append(f"{start} ==> {end}: {a} imports {b} itself")
    joined = {name for start, _, end, _ in found.arrows for name in (start, end)}
    return problems + [f"no arrow leads to {name} or from it" for name in found.boxes if name not in joined]


def wrong_floors(found: Map, imports: Imports) -> list[str]:
    """One sentence for each package that stands on no floor or on two, and for each import that does not lead down."""
    floor_of = {package: -number for number, floor in enumerate(found.floors) for package in floor}
    placed = [package for floor in found.floors for package in floor]
    there = {_package(module) for module in imports} - {"streamjobs", "streamjobs.__main__"}
    problems = [f"{package} stands on no floor" for package in sorted(there - set(placed))]
    problems += [f"{package} stands on two floors" for package in sorted(set(placed)) if placed.count(package) > 1]
    for module, targets in imports.items():
        for target in targets:
            above, below = _package(module), _package(target)
            if above in floor_of and below in floor_of and above != below and floor_of[above] <= floor_of[below]:
                problems.append(f"{module} imports {target}, which does not stand on a lower floor")
    return problems


def _package(module: str) -> str:
    """The box of the layers a module stands in: a package of streamjobs, or all of algorithms."""
    parts = module.split(".")
    return parts[0] if parts[0] == "algorithms" else ".".join(parts[:2])


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _imports(a: str, b: str, imports: Imports) -> bool:
    """Whether a, or something in it where it is a package, imports b, or something in it."""
    return any(_within(target, b) for module in imports if _within(module, a) for target in imports[module])


def _reaches(a: str, b: str, imports: Imports) -> bool:
    seen, todo = set[str](), [a]
    while todo:
        module = todo.pop()
        if _within(module, b):
            return True
        if module not in seen:
            seen.add(module)
            todo += imports.get(module, ())
    return False
