"""Runs inputs through a family and counts their outcomes; keeps every kind of finding with its smallest input."""

import json
import os
import time
import traceback
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.bytes import smallest
from tests.fuzz.case import Case, Family

MEASURED = 16  # of one input in so many the memory is measured, what was only reserved included
MOST_BYTES = 64 << 20  # beside 100 bytes for each that was received
MOST_SECONDS = 1.0  # of processor time, looked at where the clock on the wall says more
SAVE_EVERY = 2000  # inputs


@dataclass
class Found:
    """A kind of finding: where it happened, with the smallest input known."""

    what: str
    index: int  # of the first input, to draw it again
    case: Case
    times: int = 1


@dataclass
class Tally:
    outcomes: Counter[str] = field(default_factory=Counter)
    found: dict[str, Found] = field(default_factory=dict)
    inputs: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        found = [
            {"what": one.what, "index": one.index, "times": one.times, "case": repr(one.case)} for one in self.found.values()
        ]
        return {"outcomes": dict(self.outcomes), "found": found, "inputs": self.inputs, "seconds": self.seconds}


def draw_input(family: Family, seed: int, index: int) -> Case:
    """Input number `index`, independent of the inputs before it."""
    return family.draw(Random(seed << 40 | index))


def problem_of(
    family: Family, case: Case, measured: bool = False, clock: Callable[[], float] = time.perf_counter
) -> tuple[str, str]:
    """The outcome, and what is wrong and where ("" if nothing is). clock: measures the time that an input may take."""
    if measured:
        tracemalloc.start()
    begun = clock()
    try:
        outcome, wrong = family.attempt(case), ""
    except Exception as error:  # noqa: BLE001 - whatever is not declared is what we look for
        place = traceback.extract_tb(error.__traceback__)[-1]
        outcome, wrong = "FINDING", f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
    taken = clock() - begun
    if measured:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if not wrong and most > MOST_BYTES + 100 * len(case.data):
            outcome, wrong = "FINDING", "memory far beyond what was received"
    if not wrong and taken > MOST_SECONDS:
        outcome, wrong = "FINDING", f"more than {MOST_SECONDS:g} s"
    return outcome, wrong


def run_input(family: Family, seed: int, index: int, tally: Tally, minimise: bool = True) -> None:
    case = draw_input(family, seed, index)
    outcome, wrong = problem_of(family, case, index % MEASURED == 0)
    if wrong.startswith(("more", "memory")):  # again: what takes long once was compiled, or another process had its turn
        real = problem_of(family, case, True, time.process_time)[1] == wrong
    else:
        real = bool(wrong)
    if real:
        known = tally.found.get(wrong)
        if known is None:
            tally.found[wrong] = known = Found(wrong, index, case, 0)
            if minimise and not wrong.startswith(("more", "memory")):  # each try would take its second, or is not measured
                size = smallest(case.data, lambda data: problem_of(family, case._replace(data=data))[1] == wrong, 400)
                known.case = case._replace(data=size)
        known.times += 1
    elif wrong:
        outcome = "decoded, slowly the first time"
    tally.outcomes[outcome] += 1
    tally.inputs += 1


def run(name: str, seed: int, begin: int, end: int, until: float, path: Path, at: Any) -> None:
    """A process of its own: inputs begin to end, or until the moment. `at` has the input under way and since when."""
    from tests.fuzz.families import FAMILIES

    warnings.simplefilter("error", RuntimeWarning)
    parent = os.getppid()
    at[1] = int(time.monotonic())
    family, tally, begun = FAMILIES[name](), Tally(), time.monotonic()
    for index in range(begin, end):
        at[0], at[1] = index, int(time.monotonic())
        run_input(family, seed, index, tally)
        if tally.inputs % SAVE_EVERY == 0 or index + 1 == end:
            tally.seconds = time.monotonic() - begun
            part = path.with_suffix(".part")
            part.write_text(json.dumps(tally.as_json()))
            part.replace(path)
            if time.monotonic() > until or os.getppid() != parent:  # over, or nobody waits any more
                break
    os._exit(0)  # nothing to tidy up, and no time spent on it
