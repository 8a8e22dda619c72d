"""Hostile bytes for every decoder; exit code 1 when anything but a declared error came of them.

python -m tests.fuzz                          a million inputs of each family
python -m tests.fuzz --list                   the families
python -m tests.fuzz json job --inputs 50000  these, fewer
python -m tests.fuzz snapshot --minutes 5     as many as fit
python -m tests.fuzz start --first 400000     the inputs from there on: a run that was ended goes on
python -m tests.fuzz json --only 1234         this input again, with what came of it

Every input is drawn from the seed and its number. Compiled loops run with their bounds checked.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.fuzz.bounds import check_bounds

STILL = 120.0  # seconds after which an input hangs
MAKING = 1800.0  # a family: on a machine that has other things to do its loops take long to compile
TOLD_EVERY = 30.0  # seconds, where nobody sits at a terminal


def main() -> int:
    options = _options()
    if options.bounds:
        check_bounds()
    from streamjobs.process import use_one_thread

    use_one_thread()
    from tests.fuzz.families import FAMILIES

    if unknown := [name for name in options.what if name not in FAMILIES]:
        print(f"unknown family {unknown[0]!r}; known: {', '.join(FAMILIES)}.", file=sys.stderr)
        return 2
    names = options.what or list(FAMILIES)
    if options.list:
        print("\n".join(FAMILIES))
        return 0
    if options.only is not None:
        return _again(FAMILIES[names[0]](), options)
    with tempfile.TemporaryDirectory(prefix="streamjobs-fuzz-") as folder:
        runs = [_Family(name, options, Path(folder)) for name in names]
        _watch(runs, options)
        return _report(runs, options)  # while the folder is there


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hostile bytes for every decoder.")
    parser.add_argument("what", nargs="*", help="families; absent: all")
    parser.add_argument("--list", action="store_true", help="only their names")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of each family: up to this number")
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="of the first input")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=1e6, help="most time for each family")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this input of one family, with its traceback")
    parser.add_argument("--no-bounds", dest="bounds", action="store_false", help="compiled loops as workers run them")
    return parser.parse_args()


def _again(family: Any, options: argparse.Namespace) -> int:
    from tests.fuzz.execution import draw_input

    case = draw_input(family, options.seed, options.only)
    print(case)
    try:
        print(family.attempt(case))
    except Exception:  # noqa: BLE001 - shown
        traceback.print_exc()
        return 1
    return 0


class _Family:
    """A family's processes, one after the other: a new one where the last was ended by an input."""

    def __init__(self, name: str, options: argparse.Namespace, folder: Path) -> None:
        self.name, self.options, self.folder = name, options, folder
        self.at = multiprocessing.get_context("spawn").RawArray("q", 2)
        self.process: Any = None
        self.part, self.begin, self.begun, self.over, self.taken = 0, 0, 0.0, False, 0.0
        self.ended: list[str] = []  # inputs that ended their process
        self.told: set[str] = set()  # kinds of findings

    def start(self, begin: int) -> None:
        from tests.fuzz.execution import run

        self.begun = self.begun or time.monotonic()
        until = self.begun + self.options.minutes * 60
        self.part += 1
        self.begin = begin
        self.at[0], self.at[1] = begin - 1, int(time.monotonic())
        arguments = (self.name, self.options.seed, begin, self.options.inputs, until, self._path(self.part), self.at)
        self.process = multiprocessing.get_context("spawn").Process(target=run, args=arguments, daemon=True)
        self.process.start()

    def look(self) -> None:
        """Whether it is over; an input that ended the process, or hangs, is a finding, and the next one begins."""
        if self.process.is_alive():
            patience = STILL if self.at[0] >= self.begin else MAKING
            if time.monotonic() - self.at[1] < patience:
                return
            why = f"hangs for more than {patience:g} s"
            self.process.kill()
        else:
            why = f"ends the process with code {self.process.exitcode}"
            if self.process.exitcode == 0:
                self.over, self.taken = True, time.monotonic() - self.begun
                return
        self.process.join()
        self.ended.append(f"input {self.at[0]} {why}")
        if len(self.ended) > 20 or self.at[0] + 1 >= self.options.inputs:
            self.over, self.taken = True, time.monotonic() - self.begun
        else:
            self.start(self.at[0] + 1)

    def _path(self, part: int) -> Path:
        return self.folder / f"{self.name}-{part}.json"

    def news(self) -> list[str]:
        """Kinds of findings that have come since the last time."""
        kinds = [*self.ended, *(_sentence(one) for tally in self.tallies() for one in tally["found"])]
        new = [kind for kind in kinds if kind.partition(",")[0] not in self.told]
        self.told.update(kind.partition(",")[0] for kind in new)
        return [f"{self.name}: {kind}" for kind in new]

    def tallies(self) -> list[dict[str, Any]]:
        paths = [self._path(part) for part in range(1, self.part + 1)]
        return [json.loads(path.read_text()) for path in paths if path.exists()]


def _watch(runs: list[_Family], options: argparse.Namespace) -> None:
    console = Console()
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    said = looked = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks = {run.name: progress.add_task(run.name, total=options.inputs, start=False) for run in runs}
        while not all(run.over for run in runs):
            waiting = [run for run in runs if run.process is None]
            under_way = [run for run in runs if run.process is not None and not run.over]
            for run in waiting[: options.jobs - len(under_way)]:
                progress.start_task(tasks[run.name])
                run.start(options.first)
            paused, looked = time.monotonic() - looked - 1, time.monotonic()  # all of us: that is nobody's hanging
            for run in under_way:
                run.at[1] += max(0, int(paused))
                run.look()
                progress.update(tasks[run.name], completed=run.at[0] + 1)
            if not console.is_terminal and time.monotonic() - said > TOLD_EVERY:
                said = time.monotonic()
                print("; ".join(f"{run.name}: {run.at[0]:,}" for run in under_way), flush=True)
                print(*(line + "\n" for run in under_way for line in run.news()), sep="", end="", flush=True)
            time.sleep(0.2)


def _report(runs: list[_Family], options: argparse.Namespace) -> int:
    table = Table("family", "inputs", "what came of them", "findings", "seconds", title=f"seed {options.seed}")
    findings = 0
    results = {run.name: run.tallies() for run in runs}
    for run in runs:
        tallies, outcomes = results[run.name], Counter[str]()
        for tally in tallies:
            outcomes.update(tally["outcomes"])
        kinds = len({one["what"] for tally in tallies for one in tally["found"]}) + len(run.ended)
        findings += kinds
        lines = "\n".join(f"{count:>9,} {outcome}" for outcome, count in outcomes.most_common())
        table.add_row(run.name, f"{sum(outcomes.values()):,}", lines, str(kinds), f"{run.taken:,.0f}")
    Console(width=100).print(table)
    for run in runs:
        for line in run.ended:
            print(f"{run.name}: {line}: python -m tests.fuzz {run.name} --seed {options.seed} --only {line.split()[1]}")
        for tally in results[run.name]:
            for one in tally["found"]:
                print(f"{run.name}: {_sentence(one)}")
    print(f"{findings} FINDINGS" if findings else "nothing but declared errors")
    return 1 if findings else 0


def _sentence(one: dict[str, Any]) -> str:
    return f"{one['what']}, {one['times']} times, first input {one['index']}; small: {one['case'][:2000]}"


if __name__ == "__main__":
    sys.exit(main())
