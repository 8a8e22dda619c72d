"""A worker process with the hash core: python -m tests.worker.hash_worker JOB.toml [--once] [--debug] [--state-bytes N]."""

from streamjobs.process import exit_at_once_on_signals, use_one_thread

exit_at_once_on_signals()
use_one_thread()

import argparse  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

from streamjobs.job_files import load_job  # noqa: E402
from streamjobs.worker.run import run  # noqa: E402
from tests.worker.fake_core import hash_core  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--state-bytes", type=int, default=1024)
    options = parser.parse_args(arguments)
    settings = load_job(options.job)
    core = hash_core(settings.source.topic, state_bytes=options.state_bytes)
    return run(settings, lambda: core, once=options.once, debug=options.debug)


if __name__ == "__main__":
    sys.exit(main())
