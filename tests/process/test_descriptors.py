"""How many files a worker may open."""

import subprocess
import sys

LIMITS = """
import resource
from streamjobs.process import use_all_descriptors

hard = min(5_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
use_all_descriptors()
files = [open("/dev/null") for _ in range(100)]
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
"""


def test_a_worker_may_open_as_many_files_as_the_system_allows() -> None:
    subprocess.run([sys.executable, "-c", LIMITS], check=True)
