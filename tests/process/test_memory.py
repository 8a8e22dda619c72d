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


HEAP = """
import sys
from streamjobs.process import return_free_memory, return_large_arrays

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) // 1024

return_large_arrays()
before = resident()
blocks = [bytearray(100_000) for _ in range(600)]  # 60 MB
last = bytearray(100_000)  # lies behind them
del blocks
kept = resident() - before
return_free_memory()
print(kept, resident() - before)
"""
REUSED = """
import resource
from streamjobs.process import return_large_arrays

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

return_large_arrays()
bytearray(900_000)
before = faults()
for _ in range(100):
    bytearray(900_000)  # 220 pages
print(faults() - before)
"""


def printed(program: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory_of_the_heap_goes_back_to_the_system_on_request() -> None:
    kept, left = printed(HEAP)
    assert kept > 40 and left < 8  # MB


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults")
def test_a_buffer_of_the_heap_is_reused_without_new_page_faults() -> None:
    (faults,) = printed(REUSED)
    assert faults < 300  # 22,000 if glibc returned each buffer
