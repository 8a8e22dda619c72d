"""What a process holds of large arrays it has freed."""

import subprocess
import sys

import pytest

HEAP = """
import sys
from streamjobs.process import return_free_memory, return_large_arrays

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) // 1024

return_large_arrays()
before = resident()
blocks, last = [], []
for _ in range(int(sys.argv[1])):
    blocks.append(bytearray(b"x") * int(sys.argv[2]))
    last.append(bytearray(1000))  # lies behind it
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
bytearray(4_900_000)
before = faults()
for _ in range(100):
    bytearray(4_900_000)  # a fetch of 1,200 pages
print(faults() - before)
"""
GROWN = """
import numpy as np
from algorithms.common.workspace import Workspace
from streamjobs.process import return_large_arrays

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) // 1024

return_large_arrays()
before, last = resident(), []
work = Workspace(tuple(np.ones((1000, 150)) for _ in range(4)))
while work.nbytes < 50 << 20:
    work.grow(work.slots * 5 // 4)
    work.arrays[0][:] = work.arrays[1][:] = work.arrays[2][:] = work.arrays[3][:] = 1.0
    last.append(bytearray(1000))  # lies behind them
print(resident() - before, work.nbytes >> 20)
"""
UNUSED = """
from algorithms.heads.rls import Rls
from streamjobs.process import return_large_arrays

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) // 1024

return_large_arrays()
head = Rls()
state, before = head.init(dim=200, targets=2, seed=0), resident()
works = [head.workspace(state, slots=16) for _ in range(20)]
print(resident() - before, sum(work.nbytes for work in works) >> 20)
"""
IN_A_THREAD = """
import ctypes, threading
from streamjobs.process import return_large_arrays

return_large_arrays()
blocks = []
thread = threading.Thread(target=lambda: blocks.append(bytearray(100_000)))
thread.start()
thread.join()
at = ctypes.addressof(ctypes.c_char.from_buffer(blocks[0]))
heap = next(line.split("-") for line in open("/proc/self/maps") if line.rstrip().endswith("[heap]"))
print(int(int(heap[0], 16) <= at < int(heap[1].split()[0], 16)))
"""


def printed(program: str, *arguments: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("blocks", "size"), [("600", "100000"), ("8", "8000000")])
def test_free_memory_of_the_heap_goes_back_to_the_system_on_request(blocks: str, size: str) -> None:
    kept, left = printed(HEAP, blocks, size)
    assert kept > 40 and left < 8  # MB


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults")
def test_a_buffer_of_the_heap_is_reused_without_new_page_faults() -> None:
    (faults,) = printed(REUSED)
    assert faults < 300  # 120,000 if glibc returned each buffer


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_states_that_grew_leave_no_holes() -> None:
    resident, states = printed(GROWN)
    assert resident < 1.15 * states  # MB


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_slots_that_no_key_has_used_take_no_memory() -> None:
    resident, states = printed(UNUSED)
    assert resident < states / 10  # MB


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_share_one_heap() -> None:
    assert printed(IN_A_THREAD) == [1]


def test_commands_look_for_cycles_after_thousands_of_objects() -> None:
    (objects,) = printed("import gc\nfrom streamjobs.cli import run\nrun(['no-such-command'])\nprint(gc.get_threshold()[0])")
    assert objects > 10_000  # 700 takes a tenth of a replay
