"""tests/README.md names every part of `python -m tests`, every folder of tests and the tests it relies on."""

import re

import pytest

from tests.faults.bugs import BUGS
from tests.faults.suite import CASES
from tests.parts import CHECKOUT, PARTS

TEXT = (CHECKOUT / "tests" / "README.md").read_text(encoding="utf-8")
TESTS = {
    name
    for path in (CHECKOUT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.mark.parametrize("name", [part.name for part in PARTS])
def test_every_part_is_named(name: str) -> None:
    assert f"`{name}`" in TEXT


def test_every_folder_of_tests_is_named() -> None:
    folders = {path.parent.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "tests").glob("*/*.py")}
    assert [folder for folder in sorted(folders) if f"`{folder}`" not in TEXT] == []


def test_every_file_and_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", TEXT))
    assert named and [file for file in sorted(named) if not (CHECKOUT / file).is_file()] == []
    claims = set(re.findall(r"`(test_\w+)`", TEXT))
    assert len(claims) > 2 and not claims - TESTS


def test_every_fault_case_that_a_command_names_exists() -> None:
    words = re.findall(r"python -m tests\.faults (?:--(planted) )?(\w+)", TEXT)
    assert words
    for planted, name in words:
        assert name in (BUGS["at_least_once"] if planted else CASES), name
