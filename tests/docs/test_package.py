"""What a wheel holds beside Python files, by pyproject.toml's own patterns; and what the hooks before a commit run."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.parts import CHECKOUT, PARTS

SETUPTOOLS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
HOOKS = CHECKOUT / ".pre-commit-config.yaml"


def _packaged() -> set[Path]:
    """Data files of a wheel: each pattern is taken from its package's folder."""
    patterns = SETUPTOOLS["package-data"].items()
    return {path for package, those in patterns for one in those for path in (CHECKOUT / package).glob(one)}


def _beside() -> set[Path]:
    """Every file in the packages that is no Python file."""
    found = {path for package in ("algorithms", "streamjobs") for path in (CHECKOUT / package).rglob("*") if path.is_file()}
    return {path for path in found if path.suffix not in (".py", ".pyc")}


def test_a_wheel_holds_every_file_of_the_packages() -> None:
    assert _packaged() == _beside()


@pytest.mark.parametrize(
    "name",
    [
        *("algorithms/py.typed", "streamjobs/py.typed", "algorithms/README.md", "streamjobs/README.md"),
        *("streamjobs/kafka/devbroker/pom.xml", "streamjobs/kafka/devbroker/log4j2.xml"),
        *("streamjobs/demo/job.toml", "streamjobs/demo/population.state", "streamjobs/demo/recordings.npz"),
    ],
)
def test_a_wheel_holds_what_is_read_at_run_time(name: str) -> None:
    assert CHECKOUT / name in _packaged()


def test_every_folder_with_files_is_a_package_of_the_wheel() -> None:
    """Packages are found by their `__init__.py`; files elsewhere would be left out."""
    assert SETUPTOOLS["packages"]["find"]["include"] == ["algorithms*", "streamjobs*"]
    folders = {path.parent for package in ("algorithms", "streamjobs") for path in (CHECKOUT / package).rglob("*.py")}
    folders |= {path.parent for path in _beside()}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def _hooks() -> dict[str, dict[str, str]]:
    """The hooks by id, a line a value."""
    hooks: dict[str, dict[str, str]] = {}
    for block in HOOKS.read_text(encoding="utf-8").split("- id: ")[1:]:
        name, *lines = block.splitlines()
        hooks[name] = dict(line.strip().split(": ", 1) for line in lines if ": " in line)
    return hooks


def test_hooks_run_the_tools_of_the_test_command_and_come_from_here() -> None:
    hooks = _hooks()
    for part in PARTS:
        if part.command:
            assert hooks[part.name]["entry"] == " ".join((".venv/bin/python", *part.command[1:]))
    assert (hooks["tests"]["entry"], hooks["tests"]["stages"]) == (".venv/bin/python -m tests --fast", "[pre-push]")
    text = HOOKS.read_text(encoding="utf-8")
    assert re.findall(r"repo: (.+)", text) == ["local"]
    assert {hook["language"] for hook in hooks.values()} <= {"system", "pygrep"}


@pytest.mark.parametrize(("subject", "refused"), [("x" * 72, False), ("x" * 73, True), ("é" * 72, False), ("é" * 73, True)])
def test_a_long_subject_is_refused_and_a_long_body_is_not(subject: str, refused: bool) -> None:
    hook = _hooks()["subject"]
    assert (hook["stages"], hook["args"]) == ("[commit-msg]", "[--multiline]")
    pattern = hook["entry"].partition("  #")[0].strip("'").encode()
    message = f"{subject}\n\n{'y' * 100}\n".encode()
    found = re.search(pattern, message, re.MULTILINE | re.DOTALL)  # as pre-commit does it
    assert bool(found) is refused


def test_the_security_policy_says_how_to_report_and_what_comes_back() -> None:
    text = (CHECKOUT / "SECURITY.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+)\n\n((?:(?!^## ).*\n?)*)", text, re.MULTILINE))
    assert {"What is promised", "Versions", "Report a vulnerability"} == {*sections}
    report = " ".join(sections["Report a vulnerability"].split())
    for part in ("in private", "*Report a vulnerability*", "git log -1 --format=%ae", "streamjobs version --json", "days"):
        assert part in report, part
    assert len(re.findall(r"^- ", sections["What is promised"], re.MULTILINE)) >= 5


def test_nothing_of_the_product_unpickles_as_the_security_policy_promises() -> None:
    """numba's compile cache is what it names as the exception; NumPy unpickles arrays only where it is asked to."""
    promised = "Only the compile cache is read with `pickle`, never a record or another file."
    assert promised in " ".join((CHECKOUT / "SECURITY.md").read_text(encoding="utf-8").split())
    unpickling = re.compile(r"^\s*(?:import|from) (?:pickle|shelve|joblib|dill)\b|allow_pickle=True", re.MULTILINE)
    sources = [path for folder in ("streamjobs", "algorithms") for path in (CHECKOUT / folder).rglob("*.py")]
    assert len(sources) > 200
    assert [path for path in sources if unpickling.search(path.read_text(encoding="utf-8"))] == []
