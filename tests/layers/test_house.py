"""What keeps the house simple: generic code knows no stage or learner by name, and no folder is a corridor."""

import ast
import functools
from collections import Counter
from collections.abc import Iterator

import pytest

from algorithms import LEARNERS
from algorithms.common.protocol import Stage
from streamjobs.core.job import Job
from streamjobs.settings.load import settings_from
from tests.layers.imports import CHECKOUT, modules, tree

MODULES = {name: path for name, path in modules().items() if name.startswith("streamjobs")}
MOST_MODULES = 18  # of a folder
WHERE_STAGES_STAND = "streamjobs.core.job_stages"  # the stages' own order
EVERYTHING = {
    "source": {"topic": "in", "fields": ["x", "y", "z"], "time": "ts", "label": "activity"},
    "window": {"length": "2s", "hop": "1s", "rate": 50},
    "labels": {"wait": "1m"},
    "learner": {"name": "okfeb", "rank": 3, "budget": 5},
    "head": {"name": "rls", "smooth": 0.3, "fallback": "last_label"},
    "drift": {"extractor": {"name": "okfeb", "rank": 3, "budget": 5}, "beside": ["last_points"]},
}


@functools.cache
def _stage_names() -> set[str]:
    return {"map", *Job.from_settings(settings_from(EVERYTHING)).stages}


@functools.cache
def _concrete() -> set[str]:
    """Names of the classes of stages and learners, base classes aside."""
    found, left = set(), [Stage]
    while left:
        subclasses = left.pop().__subclasses__()
        found |= {cls.__name__ for cls in subclasses if "persisted_name" in vars(cls)}
        left += subclasses
    return found | {cls.__name__ for cls in LEARNERS.values()}


def class_checks(source: str, concrete: set[str]) -> Iterator[str]:
    """Each isinstance or issubclass with one of these classes."""
    for node in tree(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            for name in ast.walk(node.args[1]):
                if isinstance(name, ast.Name) and name.id in concrete:
                    yield f"line {node.lineno}: {node.func.id}(..., {name.id})"


def tables_of_names(source: str, names: set[str]) -> Iterator[str]:
    """Each literal collection of nothing but two or more of these names."""
    for node in tree(source):
        if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            if len(items) > 1 and len(texts) == len(items) and set(texts) <= names:
                yield f"line {node.lineno}: {texts}"


@pytest.mark.parametrize("module", MODULES)
def test_generic_code_tests_for_no_concrete_stage_or_learner(module: str) -> None:
    assert not list(class_checks(MODULES[module].read_text(), _concrete())), module


def test_stages_are_named_together_only_where_their_order_stands() -> None:
    names = _stage_names()
    found = {module: list(tables_of_names(path.read_text(), names)) for module, path in MODULES.items()}
    assert not {module: tables for module, tables in found.items() if tables and module != WHERE_STAGES_STAND}


def test_no_folder_has_become_a_corridor() -> None:
    folders = Counter(path.parent for path in modules().values())
    crowded = {str(folder.relative_to(CHECKOUT)): count for folder, count in folders.items() if count > MOST_MODULES}
    assert not crowded


def test_planted_ones_are_found() -> None:
    assert list(class_checks("isinstance(stage, (Windows, Order))", _concrete()))
    assert list(class_checks("isinstance(one, GatedRls)", _concrete()))
    assert not list(class_checks("isinstance(stage, kind)", _concrete()))
    names = _stage_names()
    assert {"order", "idle", "windows", "waiting", "scaling", "learner", "books"} <= names
    assert list(tables_of_names('SIGNAL = ("order", "idle")', names))
    assert list(tables_of_names('CODES = {"order": 1, "windows": 2}', names))
    assert not list(tables_of_names('SINKS = ("features", "drift")', names))
