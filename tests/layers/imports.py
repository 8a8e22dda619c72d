"""What a module's source imports and calls, and what of it the table forbids."""

import ast
import functools
from collections.abc import Iterator, Set
from pathlib import Path

from tests.layers.table import (
    DECOMPOSE_IN,
    DECOMPOSITIONS,
    FREE_OF_FILES,
    FREE_OF_IO,
    LAYERS,
    Layer,
)

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("algorithms", "streamjobs")


def modules() -> dict[str, Path]:
    """Every module of the project by name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((CHECKOUT / package).rglob("*.py")):
            parts = path.relative_to(CHECKOUT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def layer_of(module: str) -> Layer | None:
    """The layer of the longest name that fits."""
    fitting = [(len(name), layer) for layer in LAYERS for name in layer.modules if _fits(module, name)]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


@functools.cache
def tree(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a source, as `ast.walk` gives them. Parsed once, however many tests ask."""
    return tuple(ast.walk(ast.parse(source)))


@functools.cache
def nodes(source: str) -> tuple[ast.Import | ast.ImportFrom | ast.Call | ast.Attribute, ...]:
    """The imports, calls and attributes of a source."""
    return tuple(node for node in tree(source) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call, ast.Attribute)))


def imported(source: str, module: str, known: Set[str], *, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, full module name) of every import anywhere in the source; what cannot be known is "?"."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module, is_package)
            for alias in node.names:
                below = f"{base}.{alias.name}"
                yield node.lineno, below if below in known else base
        elif isinstance(node, ast.Call) and _name(node.func).endswith(("import_module", "__import__")):
            first = node.args[0] if node.args else None
            constant = isinstance(first, ast.Constant) and isinstance(first.value, str)
            yield node.lineno, first.value if constant else "?"  # type: ignore[union-attr]


def violations(source: str, module: str, known: Set[str], learners: Set[str], *, is_package: bool = False) -> list[str]:
    """One sentence for each forbidden import or call; `learners` are the modules that hold a registered learner."""
    layer = layer_of(module)
    if layer is None:
        return [f"{module} is in no layer: give it one in tests/layers/table.py"]
    found = []
    for line, target in imported(source, module, known, is_package=is_package):
        if not _allowed(layer, module, target, learners):
            found.append(f"{module}:{line} imports {target}, which {layer.name} may not")
    for line, what in _calls(source, module, layer):
        found.append(f"{module}:{line} uses {what}, which {layer.name} may not")
    return found


def _allowed(layer: Layer, module: str, target: str, learners: Set[str]) -> bool:
    if layer.name == "learners":
        folder = module if module.count(".") == 1 else module.rpartition(".")[0]
        if _fits(target, folder) and target not in learners:
            return True
    if layer.name == "composites" and target == "algorithms":  # the registry
        return False
    return any(_fits(target, name) for name in layer.may)


def _calls(source: str, module: str, layer: Layer) -> Iterator[tuple[int, str]]:
    for node in nodes(source):
        if isinstance(node, ast.Call) and layer.pure and _name(node.func) in FREE_OF_IO:
            yield node.lineno, f"{_name(node.func)}()"
        if isinstance(node, ast.Attribute):
            name = _name(node)
            numpy_io = layer.pure and name.startswith(("np.", "numpy.")) and name.split(".")[1] in FREE_OF_FILES
            decomposes = "linalg." in name and node.attr in DECOMPOSITIONS and module != DECOMPOSE_IN
            if numpy_io or decomposes:
                yield node.lineno, name


def _base(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    if node.level == 0:
        return node.module or "?"
    parts = module.split(".") if is_package else module.split(".")[:-1]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def _fits(module: str, name: str) -> bool:
    return module == name.removeprefix("=") or (not name.startswith("=") and module.startswith(name + "."))


def _name(node: ast.AST) -> str:
    """ "np.linalg.eigh" of such an expression, "" of any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        front = _name(node.value)
        return f"{front}.{node.attr}" if front else ""
    return ""
