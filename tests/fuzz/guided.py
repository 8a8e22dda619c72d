"""Inputs that follow coverage: atheris (libFuzzer) keeps whatever leads into branches of a decoder not seen before.

python -m tests.fuzz.guided json                a million inputs
python -m tests.fuzz.guided json --minutes 5    as many as fit

It begins with inputs of the family's own generator and changes their bytes; a checksum at an end is made to fit. What is
tried and what must hold is the same as in `python -m tests.fuzz`, compiled loops with their bounds checked included. The
first finding ends it: code 77, its traceback, and its bytes in the folder that is named.
Needs atheris: pip install -e '.[fuzz]'.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from types import FunctionType
from typing import Any

from tests.fuzz.bounds import check_bounds

BEGINNING = 2000  # inputs of the generator
HEAD = 2  # bytes that choose whose headers, key and job go with the others
SEALED = ("snapshot", "start", "copy", "population")  # families whose inputs end in a checksum of 4 bytes
CODED = ("streamjobs", "algorithms")  # whose branches count


def main() -> int:
    options = _options()
    try:
        import atheris
    except ImportError:
        print("fuzz: needs atheris; install it with: pip install -e '.[fuzz]'", file=sys.stderr)
        return 2
    check_bounds()
    from tests.fuzz.families import FAMILIES

    if options.what not in FAMILIES:
        print(f"unknown family {options.what!r}; known: {', '.join(FAMILIES)}.", file=sys.stderr)
        return 2
    family = FAMILIES[options.what]()
    for function in functions():
        atheris.instrument_func(function)
    cases = _drawn(family, options.seed)
    folder = Path(tempfile.mkdtemp(prefix="streamjobs-guided-"))
    corpus = folder / "inputs"
    corpus.mkdir()
    sealed = options.what in SEALED
    for number, case in enumerate(cases):
        (corpus / f"{number}").write_bytes(bytes_of(number, case, sealed=sealed))

    def attempt(data: bytes) -> None:
        if len(data) >= HEAD:
            family.attempt(case_of(data, cases, sealed=sealed))

    print(f"inputs that were kept, and a finding if there is one: {folder}", flush=True)
    ends = [f"-runs={options.inputs}", f"-max_total_time={round(60 * options.minutes)}"]
    bounds = ["-timeout=20", "-rss_limit_mb=4096"]  # seconds and megabytes of an input
    atheris.Setup(["fuzz", *ends, *bounds, f"-seed={options.seed}", f"-artifact_prefix={folder}/", str(corpus)], attempt)
    atheris.Fuzz()  # ends the process
    return 0


def functions() -> list[FunctionType]:
    """All of the product's that Python runs; compiled loops are no functions by now, and not touched."""
    found: dict[Any, FunctionType] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in CODED:
            continue
        for thing in vars(module).values():
            for one in vars(thing).values() if isinstance(thing, type) else (thing,):
                inner = getattr(one, "__func__", getattr(one, "fget", one))  # of class methods and properties
                if isinstance(inner, FunctionType) and inner.__module__ == name:
                    found[inner.__code__] = inner
    return list(found.values())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description="Hostile bytes that follow coverage.")
    parser.add_argument("what", help="a family of `python -m tests.fuzz --list`")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=0.0, help="most time; 0: all inputs, however long they take")
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


def _drawn(family: Any, seed: int) -> list[Any]:
    from tests.fuzz.execution import draw_input

    return [draw_input(family, seed, number) for number in range(BEGINNING)]


def bytes_of(number: int, case: Any, *, sealed: bool) -> bytes:
    """A drawn case as libFuzzer gets it; sealed: without its checksum."""
    body: bytes = case.data[:-4] if sealed else case.data
    return number.to_bytes(HEAD, "little") + body


def case_of(data: bytes, cases: list[Any], *, sealed: bool) -> Any:
    """The bytes after the first two, in place of those of the drawn case which these two choose."""
    from tests.fuzz.states import sealed as with_checksum

    body = data[HEAD:]
    return cases[int.from_bytes(data[:HEAD], "little") % len(cases)]._replace(data=with_checksum(body) if sealed else body)


if __name__ == "__main__":
    sys.exit(main())
