"""A worker process with the hash core: python -m tests.shell.hash_worker JOB.toml [--once] [--debug] [--state-bytes N]."""

import argparse
import sys
import tomllib
from pathlib import Path

from streamjobs.config import Settings
from streamjobs.shell.worker import run
from tests.shell.fake_core import hash_core


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--state-bytes", type=int, default=1024)
    options = parser.parse_args()
    settings = Settings.model_validate(tomllib.loads(options.job.read_text()))
    core = hash_core(settings.source.topic, state_bytes=options.state_bytes)
    return run(settings, once=options.once, debug=options.debug, core=core)


if __name__ == "__main__":
    sys.exit(main())
