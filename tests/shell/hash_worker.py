"""A worker process with the hash core: python -m tests.shell.hash_worker JOB.toml [--once] [--debug] [--state-bytes N]."""

from streamjobs.shell.threads import nothing_to_save, one_thread

nothing_to_save()
one_thread()

import argparse  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from streamjobs.files import load_job  # noqa: E402
from streamjobs.shell.worker import run  # noqa: E402
from tests.shell.fake_core import hash_core  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--state-bytes", type=int, default=1024)
    options = parser.parse_args()
    settings = load_job(options.job)
    core = hash_core(settings.source.topic, state_bytes=options.state_bytes)
    return run(settings, once=options.once, debug=options.debug, core=core)


if __name__ == "__main__":
    sys.exit(main())
