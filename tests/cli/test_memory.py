"""What a process holds of large arrays it has freed."""

import subprocess
import sys

import pytest

FREED = """
import sys
import numpy as np
from streamjobs.process import return_large_arrays

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) // 1024

if "return" in sys.argv:
    return_large_arrays()
arrays, kept = [np.ones(3 << 20)], []
arrays.clear()  # from now on glibc takes blocks of this size from its heap
before = resident()
for _ in range(8):
    arrays.append(np.ones(1 << 20))  # 8 MB
    kept.append(np.ones(100))  # lies behind it
arrays.clear()
print(resident() - before)
"""


def held(*arguments: str) -> int:
    """MB that stay after 64 MB were freed."""
    done = subprocess.run([sys.executable, "-c", FREED, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_large_arrays_go_back_to_the_system_when_they_are_freed() -> None:
    assert held("return") < 8
