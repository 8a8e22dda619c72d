"""What systemd says of deploy/streamjobs@.service: mistakes, and how exposed the service is. It is not started.

python -m tests.deploy unit
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.deploy.tools import DEPLOY

UNIT = DEPLOY / "streamjobs@.service"
INSTALLED = "/opt/streamjobs/bin/streamjobs"
MOST_EXPOSED = 20  # tenths


def main(arguments: Sequence[str] = ()) -> int:
    argparse.ArgumentParser(prog="python -m tests.deploy unit", description=__doc__.splitlines()[0]).parse_args(
        list(arguments)
    )
    if shutil.which("systemd-analyze") is None:
        print("unit: needs systemd-analyze (Debian: apt-get install systemd).", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="streamjobs-unit-") as folder:
        unit = Path(folder) / "streamjobs@wrist.service"
        text = UNIT.read_text(encoding="utf-8")
        assert INSTALLED in text
        unit.write_text(text.replace(INSTALLED, sys.executable), encoding="utf-8")  # a program that is there
        verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
        print(f"verify: exit code {verified.returncode} {verified.stderr.strip()}")
        security = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit]
        judged = subprocess.run(security, capture_output=True, text=True, check=False)
        print(judged.stdout.strip().splitlines()[-1])
        return 1 if verified.returncode or verified.stderr.strip() or judged.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
