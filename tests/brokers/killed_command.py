"""A command that dies as it writes states: python -m tests.brokers.killed_command STEP WORD...

STEP: of its transaction in the changelog (open, send, commit). It kills itself with SIGKILL right after the first one.
"""

import subprocess
import sys
from typing import Any

from streamjobs.__main__ import main
from streamjobs.worker.changelog import Changelog
from tests.brokers.fault_injection import crash
from tests.brokers.workers import CHECKOUT


def killed_after(step: str, *words: object) -> int:
    """The exit code of `streamjobs WORDS`, killed after this step."""
    command = [sys.executable, "-m", "tests.brokers.killed_command", step, *map(str, words)]
    return subprocess.run(command, cwd=CHECKOUT, check=False, timeout=120).returncode


def dies_after(step: str) -> None:
    real = getattr(Changelog, step)

    async def last(self: Any, *arguments: Any) -> None:
        await real(self, *arguments)
        crash()

    setattr(Changelog, step, last)


if __name__ == "__main__":
    dies_after(sys.argv.pop(1))
    main()
