"""For every module there is a way to its test: the test's name, its imports, or the table in tested.py."""

from pathlib import Path

from tests.layers.imports import CHECKOUT, imported, modules
from tests.layers.tested import TESTED


def _found_by_itself() -> set[str]:
    """Modules with a test of their name, or that a test imports."""
    known = modules()
    files = sorted((CHECKOUT / "tests").rglob("test_*.py"))
    names = {path.stem.removeprefix("test_") for path in files}
    targets = {target for path in files for target in _imports(path, set(known))}
    bare = {module for module, path in known.items() if _is_bare(path)}
    return bare | {module for module in known if module.rpartition(".")[2] in names or module in targets}


def _is_bare(path: Path) -> bool:
    """A package's file that defines nothing."""
    defines = ("def ", "class ", "async def ", "@")
    return path.name == "__init__.py" and not any(line.startswith(defines) for line in path.read_text().splitlines())


def _imports(path: Path, known: set[str]) -> set[str]:
    return {target for _, target in imported(path.read_text(encoding="utf-8"), path.stem, known, is_package=False)}


def _entry(module: str) -> str | None:
    """The longest prefix of a module in the table."""
    parts = module.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in TESTED), None)


def test_every_module_leads_to_its_test() -> None:
    assert [module for module in sorted(set(modules()) - _found_by_itself()) if _entry(module) is None] == []


def test_every_entry_of_the_table_is_needed_and_names_a_test() -> None:
    needed = {_entry(module) for module in set(modules()) - _found_by_itself()}
    assert sorted(set(TESTED) - needed) == []
    assert [path for path in sorted(set(TESTED.values())) if not (CHECKOUT / path).is_file()] == []
