"""The kernels that OpenBLAS chooses for the processor: their name, and the bits that learners compute with them."""

import ctypes
import hashlib
import json
import os
import pickle
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.common import blas
from streamjobs.core.state.snapshot import flatten
from tests.checks.examples import cases
from tests.parts import CHECKOUT, CORE_TYPE

ROWS = 300


def core_names() -> list[str]:
    """The core type of SciPy's and of NumPy's OpenBLAS, in lower case."""
    names = []
    for extension in blas.EXTENSIONS:
        package, _, module = extension.partition("/")
        spec = find_spec(package.partition(".")[0])
        assert spec is not None and spec.submodule_search_locations is not None
        folder = Path(*spec.submodule_search_locations, *package.split(".")[1:])
        (path,) = (folder / (module + suffix) for suffix in EXTENSION_SUFFIXES if (folder / (module + suffix)).is_file())
        library = ctypes.CDLL(str(path))
        symbols = (f"{prefix}_get_corename{suffix}" for prefix in blas.PREFIXES for suffix in blas.SUFFIXES)
        function: Any = next(filter(None, (getattr(library, symbol, None) for symbol in symbols)))
        function.restype = ctypes.c_char_p
        names.append(function().decode().lower())
    return names


def computed(core_type: str, streams: Path) -> dict[str, Any]:
    """What `main` prints in a process with this core type; "": OpenBLAS chooses."""
    env = {name: value for name, value in os.environ.items() if name != CORE_TYPE}
    env |= {CORE_TYPE: core_type} if core_type else {}
    command = [sys.executable, "-m", "tests.processor.core_types", str(streams)]
    done = subprocess.run(command, env=env, cwd=CHECKOUT, capture_output=True, text=True, timeout=600, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def write_streams(path: Path) -> None:
    """A stream for every checked learner: the streams themselves are made with BLAS."""
    path.write_bytes(pickle.dumps([case.stream(ROWS) for case in cases()]))


def main(streams: Path) -> None:
    bits = {}
    for number, (case, (X, Y)) in enumerate(zip(cases(), pickle.loads(streams.read_bytes()), strict=True)):
        state, out = case.learner.run(case.init(), X, Y)
        arrays = [*flatten(state), *(one for one in out if one is not None)]
        joined = b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)
        bits[f"{case.name} {number}"] = hashlib.sha256(joined).hexdigest()
    print(json.dumps({"names": core_names(), "bits": bits}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
