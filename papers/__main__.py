"""`python -m papers`: every script of this folder, one after the other.

python -m papers                    all of them, whole
python -m papers --list             their names and what they print
python -m papers activity --quick   this one, with its own options
"""

import ast
import importlib
import sys
import time
from pathlib import Path

import pytest

from streamjobs.process import use_one_thread

use_one_thread()  # before anything imports numpy


def scripts() -> dict[str, str]:
    """Name and first line of every module here that has a `main`."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main(arguments: list[str]) -> int:
    known = scripts()
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if arguments[:1] == ["--list"]:
        for name, line in known.items():
            print(f"{name:20} {line}")
        return 0
    if arguments and arguments[0] not in known:
        print(f"unknown script {arguments[0]!r}; known: {', '.join(known)}.", file=sys.stderr)
        return 2
    worst = 0
    for name in arguments[:1] or known:
        print(f"== {name}: {known[name]}", flush=True)
        begin, used = time.perf_counter(), time.process_time()
        try:
            worst = max(worst, importlib.import_module(f"papers.{name}").main(arguments[1:]) or 0)
        except pytest.skip.Exception as absent:
            print(f"not measured: {absent}")
        print(f"({time.perf_counter() - begin:.0f} s, {time.process_time() - used:.0f} s of the processor)", flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
