"""No module imports what its layer may not; each planted violation is found."""

import ast
import graphlib
import re
from pathlib import Path

import pytest

from algorithms import LEARNERS
from tests.layers.imports import CHECKOUT, imported, modules, nodes, violations

MODULES = modules()
REGISTERED = {cls.__module__ for cls in LEARNERS.values()}
KNOWN = {*MODULES, "algorithms.heads.lms", "algorithms.heads.rls", "algorithms.heads.linear"}
LEARNER_FILES = REGISTERED | {"algorithms.heads.lms", "algorithms.heads.rls"}


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_what_its_layer_may(module: str) -> None:
    path = MODULES[module]
    found = violations(path.read_text(), module, set(MODULES), REGISTERED, is_package=path.name == "__init__.py")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "line", "target"),
    [
        ("algorithms.common.linalg", "import os", "os"),
        ("algorithms.common.linalg", "from algorithms.heads.lms import Lms", "algorithms.heads.lms"),
        ("algorithms.common.compiled", "import socket", "socket"),
        ("algorithms.heads.lms", "from algorithms.heads.rls import Rls", "algorithms.heads.rls"),
        ("algorithms.heads.lms", "from algorithms.heads import rls", "algorithms.heads.rls"),
        ("algorithms.heads.lms", "from . import rls", "algorithms.heads.rls"),
        ("algorithms.heads.lms", "from .rls import Rls", "algorithms.heads.rls"),
        ("algorithms.heads.lms", "from algorithms import learner_from", "algorithms"),
        ("algorithms.heads.lms", "import streamjobs.core", "streamjobs.core"),
        ("algorithms.heads.lms", "def f():\n    import time", "time"),
        ("algorithms.heads.lms", "import pydantic", "pydantic"),
        ("algorithms.chain", "from algorithms import LEARNERS", "algorithms"),
        ("streamjobs.core.advance", "import time", "time"),
        ("streamjobs.core.advance", "from pathlib import Path", "pathlib"),
        ("streamjobs.core.advance", "import logging.handlers", "logging.handlers"),
        ("streamjobs.core.advance", "from streamjobs.worker import app", "streamjobs.worker.app"),
        ("streamjobs.core.advance", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import faust", "faust"),
        ("streamjobs.core.advance", "import importlib\nimportlib.import_module('faust')", "faust"),
        ("streamjobs.settings.sections", "import aiokafka", "aiokafka"),
        ("streamjobs.settings.sections", "def f():\n    from streamjobs.core.job import Job", "streamjobs.core.job"),
        ("streamjobs.stages.order", "from streamjobs.settings.sections import Settings", "streamjobs.settings.sections"),
        ("streamjobs.core.decoding.raw", "from streamjobs.core.job import Job", "streamjobs.core.job"),
        ("streamjobs.kafka.topics", "import faust", "faust"),
        ("streamjobs.kafka.topics", "from streamjobs.worker.outbox import Producer", "streamjobs.worker.outbox"),
        ("streamjobs.worker.recovery", "import rocksdict", "rocksdict"),
        ("streamjobs.worker.app", "import streamjobs.cli", "streamjobs.cli"),
        ("streamjobs.worker.app", "from streamjobs.recordings.files import rows_of", "streamjobs.recordings.files"),
        ("streamjobs.fit.inputs", "from streamjobs.commands.console import say", "streamjobs.commands.console"),
        ("streamjobs.worker.app", "from tests import data", "tests"),
        ("streamjobs.cli", "import tests.data", "tests.data"),
        ("streamjobs.core.advance", "from streamjobs import cli", "streamjobs.cli"),
        ("streamjobs.new_corner", "import math", "in no layer"),
    ],
)
def test_a_planted_import_is_found(module: str, line: str, target: str) -> None:
    found = violations(line, module, KNOWN, LEARNER_FILES)
    assert any(target in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("module", "line", "what"),
    [
        ("algorithms.heads.lms", "print(1)", "print()"),
        ("streamjobs.core.advance", "f = open('x')", "open()"),
        ("streamjobs.core.advance", "import numpy as np\nnp.random.normal()", "np.random"),
        ("algorithms.heads.lms", "import numpy as np\nnp.load('x')", "np.load"),
        ("algorithms.heads.lms", "import numpy as np\nnp.linalg.eigh(A)", "np.linalg.eigh"),
        ("streamjobs.worker.app", "import scipy.linalg\nscipy.linalg.svd(A)", "scipy.linalg.svd"),
    ],
)
def test_a_planted_call_is_found(module: str, line: str, what: str) -> None:
    found = violations(line, module, KNOWN, LEARNER_FILES)
    assert any(what in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("algorithms.heads.lms", "from algorithms.heads.linear import score\nfrom algorithms.common.linalg import dot"),
        ("algorithms.chain", "from algorithms.heads.lms import Lms"),
        ("algorithms.common.cache_folder", "import os\nfrom pathlib import Path"),
        ("algorithms.common.eigen", "import numpy as np\nnp.linalg.eigh(A)"),
        ("algorithms", "from algorithms.heads.lms import Lms"),
        (
            "streamjobs.core.advance",
            "import struct\nfrom algorithms import learner_from\nfrom streamjobs import __version__",
        ),
        ("streamjobs.worker.app", "import faust, asyncio, time\nopen('x')\nprint(1)"),
    ],
)
def test_what_is_allowed_is_not_found(module: str, line: str) -> None:
    found = violations(line, module, KNOWN, LEARNER_FILES)
    assert not found, found


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Late imports inside functions count: what cannot be imported at the top is in the wrong place."""
    named = {
        module: {
            target
            for _, target in imported(path.read_text(), module, set(MODULES), is_package=path.name == "__init__.py")
            if target in MODULES
        }
        for module, path in MODULES.items()
    }
    graphlib.TopologicalSorter(named).prepare()  # a CycleError names the circle


def test_nothing_in_the_project_imports_tests_or_papers() -> None:
    for module, path in MODULES.items():
        for node in nodes(path.read_text()):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] in ("tests", "papers") for name in names), f"{module} imports {names}"


def imports_of_test_modules(source: str) -> list[str]:
    """The lines that import a test module, or a test from one; those in the text of a program that a test runs too."""
    ours = r"(?:tests|papers)"
    pattern = rf"[ \t]*(?:from +{ours}[\w.]*\.test_|from +{ours}[\w.]* +import .*\btest_|import +{ours}.*\.test_).*"
    return [line.strip() for line in source.splitlines() if re.match(pattern, line)]


def test_no_test_module_is_imported_by_another() -> None:
    """Shared helpers live in modules of their own: a test file can be moved, renamed or removed alone."""
    found = {
        path.relative_to(CHECKOUT).as_posix(): lines
        for folder in ("tests", "papers")
        for path in (CHECKOUT / folder).rglob("*.py")
        if path != Path(__file__) and (lines := imports_of_test_modules(path.read_text()))
    }
    assert not found, found


@pytest.mark.parametrize(
    "line", ["from tests.cli.test_jobs import table", "from tests.cli import a, test_jobs", "import tests.test_a"]
)
def test_an_import_of_a_test_module_is_found(line: str) -> None:
    assert imports_of_test_modules(f"import os\n    {line}\nfrom tests.cli import jobs\nimport test_data") == [line]


def test_the_top_level_has_only_what_belongs_there() -> None:
    expected = {
        "algorithms",
        "streamjobs",
        "deploy",
        "examples",
        "papers",
        "tests",
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "STYLE.md",
        "LICENSE",
        "pyproject.toml",
    }
    ignored = {"build", "dist", "state", "__pycache__"}
    there = {path.name for path in CHECKOUT.iterdir() if not path.name.startswith(".")}
    strays = {name for name in there - expected - ignored if not name.endswith((".egg-info", ".lock"))}
    assert not strays, f"at the top level: {', '.join(sorted(strays))}"
