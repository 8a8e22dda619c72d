"""The compile cache: a loop is never older than anything it is made from."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

from algorithms.common import compiled
from algorithms.common.cache_folder import CacheWarning
from tests.compiling import compile_in_turns
from tests.layers.imports import CHECKOUT, imported, modules

LOOP = """
from algorithms.common.compiled import compiled
from mine.{helper} import weight
@compiled
def loop(k):
    return weight(k)
"""
MIDDLE = """
from algorithms.common.compiled import compiled
from mine import (
    deep,
)
@compiled
def weight(k):
    return deep.power(k)
"""
DEEP = """
from algorithms.common.compiled import compiled
@compiled
def power(k):
    return {power}
"""


def _ran(folder: Path, cache: Path) -> float:
    environment = {**os.environ, "STREAMJOBS_CACHE": str(cache), "PYTHONPATH": f"{folder}:{CHECKOUT}"}
    words = [sys.executable, "-c", "from mine.loop import loop; print(loop(3.0))"]
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=300, check=True)
    return float(done.stdout)


def _files(cache: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb*")}


@pytest.mark.slow
def test_a_loop_is_compiled_once_for_all_checkouts_and_again_when_a_helper_far_below_it_changes(tmp_path: Path) -> None:
    cache, package = tmp_path / "cache", tmp_path / "one" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "loop.py").write_text(LOOP.format(helper="weighting"))
    (package / "weighting.py").write_text(MIDDLE)
    (package / "deep.py").write_text(DEEP.format(power="k"))
    assert _ran(tmp_path / "one", cache) == 3.0
    compiled_once = _files(cache)
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    assert _ran(tmp_path / "other", cache) == 3.0
    assert _files(cache) == compiled_once
    (package / "deep.py").write_text(DEEP.format(power="k**3"))
    assert _ran(tmp_path / "one", cache) == 27.0


def _reached(module: str, paths: dict[str, Path]) -> set[Path]:
    """By the syntax tree: the files of all modules that one imports, however far away."""
    reached, left = {paths[module]}, [module]
    while left:
        path = paths[left.pop()]
        name = next(name for name, other in paths.items() if other == path)
        for _, target in imported(path.read_text(), name, set(paths), is_package=path.name == "__init__.py"):
            if target in paths and paths[target] not in reached:
                reached.add(paths[target])
                left.append(target)
    return reached


MODULES = modules()
LOOPS = [name for name, path in MODULES.items() if "\n@compiled\n" in path.read_text()]


@pytest.mark.parametrize("module", LOOPS)
def test_everything_a_module_with_loops_imports_is_in_its_key(module: str) -> None:
    hashed = compiled._reached(MODULES[module], CHECKOUT, compiled.OURS)
    assert _reached(module, MODULES) <= hashed


def test_a_slice_of_another_length_is_refused_without_compiling_the_formatting_of_strings() -> None:
    def assign(target: Any, source: Any) -> None:
        target[:] = source

    loop = compiled._compiled(assign, True, cache=False)  # of a loop from the cache numba shows no code
    with pytest.raises(ValueError, match="cannot assign slice from input of different size"):
        loop(np.zeros(2), np.zeros(3))
    assert "unicode" not in "".join(loop.inspect_llvm().values())  # type: ignore[attr-defined]


def test_a_damaged_file_and_a_full_disk_cost_only_a_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(x: float) -> float:
        return x / 2.0

    def hits(x: float) -> int:
        loop: Any = compiled.compiled(half)
        assert loop(x) == 1.5
        return sum(loop.stats.cache_hits.values())

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("STREAMJOBS_CACHE", str(tmp_path / "cache"))
    assert (hits(3.0), hits(3.0)) == (0, 1)
    for pattern, left in (("*.nbc", 99), ("*.nbc", 0), ("*.nbi", 99), ("*.nbi", 0)):
        (damaged,) = tmp_path.rglob(pattern)  # as a crash of the machine leaves it
        damaged.write_bytes(damaged.read_bytes()[:left])
        assert (hits(3.0), hits(3.0)) == (0, 1), pattern
    monkeypatch.setattr(IndexDataCacheFile, "_save_data", full)
    monkeypatch.setattr(compiled.LoopCache, "warned", False)
    with pytest.warns(CacheWarning, match=r"^loops are not kept in .*: No space left on device\.$"):
        assert hits(3) == 0
    assert hits(3) == 0  # without a second warning


def test_a_loop_from_the_disk_is_linked_into_one_that_is_compiled_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(x: float) -> float:
        return x / 2.0

    def quarter(x: float) -> float:
        return loaded(loaded(x))

    monkeypatch.setenv("STREAMJOBS_CACHE", str(tmp_path / "cache"))
    assert compiled.compiled(half)(3.0) == 1.5
    loaded: Any = compiled.compiled(half)
    later: Any = compiled._compiled(quarter, True, cache=False)
    assert later(3.0) == 0.75
    assert sum(loaded.stats.cache_hits.values()) == 1
    (code,) = later.inspect_llvm().values()
    assert "quarter" in code
    assert not [line for line in code.splitlines() if line.startswith("declare") and "half" in line]


def test_a_loop_that_another_process_of_the_tests_compiles_is_waited_for_and_loaded(tmp_path, monkeypatch) -> None:
    on_disk, results, looked = [], [], threading.Event()

    class Cache:
        def load_overload(self) -> str | None:
            found = on_disk[0] if on_disk else None
            looked.set()
            return found

    monkeypatch.setenv("STREAMJOBS_CACHE", str(tmp_path))
    monkeypatch.setattr(Dispatcher, "compile", lambda cache, sig: results.append(cache.load_overload()))
    compile_in_turns(Cache)
    (tmp_path / "loops").mkdir(0o700)
    with (tmp_path / "loops" / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        here = threading.Thread(target=Dispatcher.compile, args=(Cache(), None))
        here.start()
        assert looked.wait(60)
        on_disk.append("loop")
        fcntl.flock(lock, fcntl.LOCK_UN)
        here.join(60)
        assert results == ["loop"]
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the turn is over
