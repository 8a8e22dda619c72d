"""`python -m tests` itself: what it counts, what fails it, and that a hanging or dying part cannot pass."""

import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import tests.__main__ as runner
from tests import running
from tests.data import NO_RECORDINGS
from tests.parts import CHECKOUT, PARTS, Part, together
from tests.running import Result, run_part

FILE = """
import os, pytest, time
def test_passes(): pass
def test_fails(): assert False
def test_skips(): pytest.skip("no broker here")
@pytest.fixture
def broken(): raise RuntimeError
def test_cannot_be_set_up(broken): pass
@pytest.fixture
def messy():
    yield
    raise RuntimeError
def test_cannot_be_cleaned_up(messy): pass
"""


@pytest.fixture(autouse=True)
def _no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugins of other packages, which these files do not use, take half of a start of pytest."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def _written(folder: Path, text: str) -> Part:
    (folder / "test_written.py").write_text(text)
    return Part("written", (str(folder),))


def _run(part: Part) -> Result:
    return run_part(part, [], lambda line: None)


def _ends(capsys: pytest.CaptureFixture[str], results: list[Result]) -> tuple[int, str]:
    code = runner._total(results, [], 1.0, 2.0)
    return code, capsys.readouterr().out.splitlines()[-1]


def _first_lines(result: Result) -> list[str]:
    return [test.splitlines()[0].rpartition("::")[2] or test for test in result.failed]


def test_each_outcome_is_counted_once(tmp_path: Path) -> None:
    result = _run(_written(tmp_path, FILE))
    assert result.passed == 1
    assert _first_lines(result) == [
        "test_fails - assert False",
        "test_cannot_be_set_up - RuntimeError",
        "test_cannot_be_cleaned_up - RuntimeError",
    ]
    assert [reason for _, reason in result.skipped] == ["no broker here"]


def test_the_last_line_is_the_total_and_a_failure_makes_the_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = Result("good", passed=3, skipped=[("t", "why")]), Result("bad", failed=["x"])
    assert _ends(capsys, [good]) == (0, "3 passed, 0 failed, 1 skipped")
    assert _ends(capsys, [good, bad]) == (1, "3 passed, 1 failed, 1 skipped")


def test_a_failure_shows_its_error_its_place_and_what_was_printed_above_the_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "def test_a():\n    print('a worker ended with code 3')\n    assert 3 == 0, 'one\\n' + 'more\\n' * 50\n"
    result = _run(_written(tmp_path, text))
    assert _ends(capsys, [result]) == (1, "0 passed, 1 failed, 0 skipped")
    runner._total([result], [], 1.0, 2.0)
    first, *below, total = capsys.readouterr().out.splitlines()[2:]
    assert first.startswith("FAILED ") and first.endswith("test_written.py::test_a - AssertionError: one")
    place, source, *error, printed = below
    assert place.endswith("test_written.py:3: in test_a") and source.split()[1:3] == ["assert", "3"]
    assert error[:2] == ["  | E   AssertionError: one", "  | E     more"] and len(below) <= 14
    assert printed == "  | a worker ended with code 3" and total == "0 passed, 1 failed, 0 skipped"


def test_a_run_without_any_test_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ends(capsys, []) == (1, "0 passed, 1 failed, 0 skipped")


def test_in_ci_a_skip_fails_unless_recordings_are_absent(tmp_path: Path) -> None:
    text = f"import pytest\ndef test_a(): pytest.skip('no Java')\ndef test_b(): pytest.skip('{NO_RECORDINGS}: nowhere')\n"
    part = _written(tmp_path, text)
    lenient = runner._one(part, [], picked=False, strict=False)
    strict = runner._one(part, [], picked=False, strict=True)
    assert (len(lenient.failed), len(lenient.skipped)) == (0, 2)
    assert [why for _, why in strict.skipped] == [f"{NO_RECORDINGS}: nowhere"]
    assert strict.failed == [f"{lenient.skipped[0][0]}: skipped, which CI counts as a failure: no Java"]


def test_a_file_that_cannot_be_imported_fails_and_the_others_still_run(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name\n")
    result = _run(_written(tmp_path, "def test_a(): pass\n"))
    assert (result.passed, len(result.failed)) == (1, 1)


def test_a_file_skipped_as_a_whole_is_a_skip(tmp_path: Path) -> None:
    result = _run(_written(tmp_path, "import pytest\npytest.skip('no Java', allow_module_level=True)\n"))
    assert (result.passed, result.failed) == (0, [])
    assert [why for _, why in result.skipped] == ["no Java"]


def test_a_dying_process_fails_and_names_its_last_test(tmp_path: Path) -> None:
    result = _run(_written(tmp_path, "import os\ndef test_a(): pass\ndef test_dies(): os._exit(0)\n"))
    assert result.passed == 1
    assert len(result.failed) == 1
    assert "test_dies" in result.failed[0]


def test_a_hanging_part_is_ended_and_fails(tmp_path: Path) -> None:
    _written(tmp_path, "import time\ndef test_hangs(): time.sleep(60)\n")
    result = _run(Part("written", (str(tmp_path),), within_seconds=3))
    assert len(result.failed) == 1
    assert "timed out after 3 s" in result.failed[0]
    assert result.seconds < 30


def test_a_hanging_test_ends_its_part_and_is_named_with_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PROGRESS_EVERY_SECONDS", 0.1)
    text = "import time\ndef test_ends(): pass\ndef stands(): time.sleep(600)\ndef test_hangs(): stands()\n"
    result = _run(replace(_written(tmp_path, text), test_within_seconds=11))  # the first second is for the stack
    assert result.passed == 1 and len(result.failed) == 1
    assert "a test took more than 11 s; last test started: " in result.failed[0]
    assert result.failed[0].endswith("::test_hangs") and " in stands" in result.output


def test_parts_with_brokers_run_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = []
    for mine, other in (("a", "b"), ("b", "a")):
        folder = tmp_path / mine
        folder.mkdir()
        text = f"""
import os, pathlib, time
def test_meets():
    pathlib.Path({str(tmp_path / "met")!r} + {mine!r}).write_text(os.environ["STREAMJOBS_PORTS"])
    giving_up = time.monotonic() + 60
    while not pathlib.Path({str(tmp_path / "met")!r} + {other!r}).exists():
        assert time.monotonic() < giving_up
        time.sleep(0.01)
"""
        part = _written(folder, text)
        parts.append(Part(mine, part.folders, lane=int(mine == "b")))
    monkeypatch.setattr(runner, "PARTS", tuple(parts))
    monkeypatch.setattr(runner, "REQUIRED", frozenset())
    monkeypatch.delenv("STREAMJOBS_PORTS", raising=False)
    assert runner.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"
    assert [(tmp_path / f"met{name}").read_text() for name in "ab"] == ["61000-61999", "62000-62999"]


def test_two_processes_of_a_part_share_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first files wait for each other, so each process begins one. The end of a file's fixture is that of its tests."""
    text = """
import os, pathlib, time, pytest
HERE = pathlib.Path(__file__)
@pytest.fixture(scope="module")
def opened():
    left = HERE.parent / f"left-{os.getpid()}"
    left.touch(exist_ok=False)
    yield
    left.unlink()
def test_meets(opened):
    HERE.with_suffix(f".{os.getpid()}").touch()
    giving_up = time.monotonic() + 60
    while len(list(HERE.parent.parent.glob("*/test_[ab].[0-9]*"))) < 2:
        assert time.monotonic() < giving_up
        time.sleep(0.01)
def test_stays_in_its_process(opened):
    assert HERE.with_suffix(f".{os.getpid()}").exists()
"""
    for folder, names in (("one", "ab"), ("two", "cd"), ("three", "e")):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"test_{name}.py").write_text(text)
    part = Part("shared", tuple(str(tmp_path / folder) for folder in ("one", "two", "three")), second=1)
    monkeypatch.setattr(runner, "PARTS", (part,))
    monkeypatch.setattr(runner, "REQUIRED", frozenset({"shared"}))
    assert runner.main([]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "10 passed, 0 failed, 0 skipped"
    assert sum(line.startswith(("shared ", "shared2 ")) for line in printed) == 2
    begun = [path.suffix for path in tmp_path.glob("*/test_*.[0-9]*")]
    assert len(begun) == 5 and len(set(begun)) == 2 and not list(tmp_path.glob("*/left-*"))
    empty = Part("shared", (str(tmp_path / "one"),), second=1, members=(Part("empty", ("nowhere",)),))
    monkeypatch.setattr(runner, "PARTS", (empty,))
    monkeypatch.setattr(runner, "REQUIRED", frozenset({"empty"}))
    assert runner.main([]) == 1
    assert "FAILED empty: no test found" in capsys.readouterr().out


def test_a_second_process_begins_after_all_other_parts_if_files_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = replace(_written(tmp_path, "def test_a(): pass\n"), name="long", either=True, second=0)
    longest, short = replace(long, name="longest"), Part("short", either=True)
    names = [part.name for part in runner._processes([longest, long, short], "")]
    assert names == ["longest", "long", "short", "long2", "longest2"]
    monkeypatch.setattr(runner, "PARTS", (long,))
    monkeypatch.setattr(runner, "LANES", 1)
    assert runner.main([]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed if "passed  " in line] == ["long"], "nothing was left for a second process"


def test_a_run_that_is_stopped_ends_the_part_it_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    stopped.set()
    monkeypatch.setattr(running, "stopping", stopped)
    result = _run(_written(tmp_path, "import time\ndef test_hangs(): time.sleep(60)\n"))
    assert len(result.failed) == 1
    assert result.seconds < 30


def test_a_process_left_behind_ends_with_its_part(tmp_path: Path) -> None:
    left = tmp_path / "pid"
    text = f"""
import subprocess, pathlib
def test_a():
    process = subprocess.Popen(["sleep", "60"])
    pathlib.Path({str(left)!r}).write_text(str(process.pid))
"""
    assert _run(_written(tmp_path, text)).passed == 1
    giving_up = time.monotonic() + 60
    while _lives(int(left.read_text())):  # a busy machine may not have given it a turn to end
        assert time.monotonic() < giving_up
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_failing_tool_fails_its_part() -> None:
    assert len(_run(Part("tool", command=(sys.executable, "-c", "raise SystemExit(3)"))).failed) == 1
    assert _run(Part("tool", command=(sys.executable, "-c", ""))).passed == 1


def test_a_required_part_without_tests_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = _written(tmp_path, "")
    monkeypatch.setattr(runner, "REQUIRED", frozenset({"written"}))
    assert runner._one(part, [], picked=False, strict=False).failed == ["written: no test found"]
    assert runner._one(part, [], picked=True, strict=False).failed == []


def test_parts_that_run_together_count_as_before_and_each_needs_a_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = []
    for name, text in (("a", "def test_a(): pass\n"), ("b", "def test_b(): assert False\n"), ("c", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(text)
        parts.append(Part(name, (str(tmp_path / name),)))
    tool = Part("tool", command=(sys.executable, "-c", ""))
    first, one = together([*parts, tool])
    assert (first, one.members, one.folders) == (tool, tuple(parts), tuple(str(tmp_path / name) for name in "abc"))
    late = [replace(part, either=True) for part in parts]
    names = [part.name for part in together([late[0], tool, *late[1:]], "ab", ("a", "b"))]
    assert names == ["ab", "tool", "c"], "a long part begins where its first member did: a late one leaves a processor idle"
    monkeypatch.setattr(runner, "REQUIRED", frozenset("abc"))
    monkeypatch.setattr(running, "CHECKOUT", tmp_path)  # test ids begin with the folders as they are given
    of = {"a": "a/test_a.py", "b": "b", "c": "c"}  # a part has files or folders
    members = tuple(replace(part, folders=(of[part.name],)) for part in parts)
    one = replace(one, folders=tuple(of.values()), members=members)
    monkeypatch.setattr(Part, "there", property(lambda part: list(part.folders)))
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    result = runner._one(one, [], picked=False, strict=False)
    assert result.passed == 1
    assert _first_lines(result) == ["test_b - assert False", "c: no test found"]


def test_a_part_runs_with_its_environment(tmp_path: Path) -> None:
    part = _written(tmp_path, "import os\ndef test_a(): assert os.environ['OPENBLAS_CORETYPE'] == 'Haswell'")
    assert _run(part).failed and not _run(replace(part, environment={"OPENBLAS_CORETYPE": "Haswell"})).failed


def test_every_test_file_belongs_to_a_part() -> None:
    folders = tuple(folder if folder.endswith(".py") else folder + "/" for part in PARTS for folder in part.folders)
    files = [path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "tests").rglob("test_*.py")]
    assert [file for file in files if not file.startswith(folders)] == []


def test_the_processor_time_of_a_part_includes_the_processes_it_starts(tmp_path: Path) -> None:
    text = """
import subprocess, sys
BUSY = "import time\\nwhile time.process_time() < 0.8: pass"
def test_a(): subprocess.run([sys.executable, "-c", BUSY], check=True)
"""
    result = _run(_written(tmp_path, text))
    assert result.passed == 1
    assert result.processor > 0.8
