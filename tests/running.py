"""One part of `python -m tests` as a process of its own, watched while it runs."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.parts import CHECKOUT, Part

PROGRESS_EVERY_SECONDS = 10.0

stopping = threading.Event()  # set: parts that run are ended


@dataclass
class Result:
    """The outcome of a part."""

    name: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)  # test ids with the cause, or another problem of the part
    skipped: list[tuple[str, str]] = field(default_factory=list)  # test id, reason
    ids: list[str] = field(default_factory=list)  # of all tests
    seconds: float = 0.0
    processor: float = 0.0  # seconds, of the part and all processes it waited for
    output: str = ""

    @property
    def tests(self) -> int:
        return self.passed + len(self.failed) + len(self.skipped)


def run_part(part: Part, pytest_options: list[str], progress: Callable[[str], None]) -> Result:
    """Run the part until it ends or times out; `progress` gets a line every ten seconds."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="streamjobs-tests-") as folder:
        output, tally = Path(folder) / "output", Path(folder) / "tally"
        tally.touch()
        command = list(part.command)
        if not command:
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "tests.tally",
                "-p",
                "tests.compiling",
                "-p",
                "tests.sharing",
                "--no-header",
                "-rN",
                "--tb=short",
                "-o",
                f"faulthandler_timeout={max(part.test_within_seconds - 10, 1)}",  # shows where a test hangs
                "--color=no",
                "--continue-on-collection-errors",
            ]
            command += [*part.options, *pytest_options, *part.there]
        code, processor = _watch(part, command, output, tally, progress)
        result = Result(part.name, seconds=time.monotonic() - started, processor=processor)
        result.output = output.read_text(encoding="utf-8", errors="replace")
        if part.command:
            if code == 0:
                result.passed = 1
            else:
                result.failed.append(_ended(part, code, result.seconds))
        else:
            _read(tally, code, part, result)
    return result


def _watch(
    part: Part, command: list[str], output: Path, tally: Path, progress: Callable[[str], None]
) -> tuple[int | None, float]:
    """Exit code and processor seconds; None at a timeout. The process group of the part ends with it."""
    started = last_report = begun = time.monotonic()
    running = ""
    environment = {**with_bytecode(), **part.environment, "STREAMJOBS_TALLY": str(tally), "PYTHONUNBUFFERED": "1"}
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while True:
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    return process.returncode, usage.ru_utime + usage.ru_stime
                now = time.monotonic()
                hangs = now - started > part.within_seconds or now - begun > part.test_within_seconds
                if hangs or stopping.is_set():
                    return None, 0.0
                if now - last_report >= PROGRESS_EVERY_SECONDS:
                    last_report = now
                    done, test = _progress(tally)
                    progress(f"{now - started:.0f} s, {done} tests done" + (f", running {test}" if test else ""))
                    if test != running:
                        begun, running = now, test
                time.sleep(0.05)
        finally:
            _end(process)


def with_bytecode() -> dict[str, str]:
    """This environment, with bytecode caching on: without it every process compiles all modules again (0.4 s)."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the part's process group: SIGTERM, so that it can clean up, then SIGKILL."""
    for how, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, how)
        except (ProcessLookupError, PermissionError):
            break
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue
        time.sleep(0.05)


def _lines(tally: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in tally.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def _progress(tally: Path) -> tuple[int, str]:
    """How many tests are done, and the one that was started last."""
    lines = _lines(tally)
    return sum("test" in line for line in lines), _last(lines)


def _last(lines: list[dict[str, str]]) -> str:
    return next((line["start"] for line in reversed(lines) if "start" in line), "")


def _read(tally: Path, code: int | None, part: Part, result: Result) -> None:
    lines = _lines(tally)
    result.ids = [line["test"] for line in lines if "test" in line]
    for line in lines:
        if line.get("outcome") == "passed":
            result.passed += 1
        elif line.get("outcome") == "failed":
            result.failed.append(f"{line['test']} - {line['reason']}")
        elif line.get("outcome") == "skipped":
            result.skipped.append((line["test"], line["reason"]))
    if not any("done" in line for line in lines) or (code not in (0, 5) and not result.failed):
        result.failed.append(f"{_ended(part, code, result.seconds)}; last test started: {_last(lines) or 'none'}")


def _ended(part: Part, code: int | None, seconds: float) -> str:
    if code is None and stopping.is_set():
        return f"{part.name}: stopped"
    if code is None and seconds > part.within_seconds:
        return f"{part.name}: timed out after {part.within_seconds} s"
    if code is None:
        return f"{part.name}: ended because a test took more than {part.test_within_seconds} s"
    return f"{part.name}: killed by signal {-code}" if code < 0 else f"{part.name}: exit code {code}"
