"""`python -m tests`: format, lint, types, layers, doctests, every test, real brokers; ends with one total.

    python -m tests                       everything; the parts on brokers run in parallel with each other and the rest
    python -m tests --fast                what to run before every commit: no brokers, no tests marked slow
    python -m tests checks core           these parts
    python -m tests tests/core/test_x.py  this file
    python -m tests -k name               the tests with a matching name

The last line is "N passed, N failed, N skipped"; the exit code is 1 if anything failed. With CI=true a skipped test
counts as failed, except for recordings that are not part of the project (tests/data.py).
"""

import argparse
import os
import resource
import sys
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from tempfile import TemporaryDirectory

from tests.data import NO_RECORDINGS
from tests.parts import CHECKOUT, LANES, PARTS, REQUIRED, TOGETHER, Part, ports_of, together
from tests.running import Result, run_part, stopping


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    parts, problem = _chosen(options)
    if problem:
        print(problem, file=sys.stderr)
        return 2
    marks = "not long and not slow" if options.fast else "not long"
    pytest_options = ["-m", marks, *(["-k", options.k] if options.k else [])]
    strict = os.environ.get("CI", "").lower() == "true"
    started = time.monotonic()

    absent = [part.name for part in parts if not part.command and not part.there and part.name not in REQUIRED]
    there = [part for part in parts if part.name not in absent]
    with TemporaryDirectory(prefix="streamjobs-begun-") as begun:
        processes = _processes(there, begun)
        lanes = [deque(part for part in processes if not part.either and part.lane == lane) for lane in range(LANES)]
        last = deque(part for part in processes if part.either)
        ended = []  # seconds after which lanes had no part left
        needless: set[str] = set()  # second processes whose first one has left them no file

        def run(number: int) -> list[Result]:
            lane, results = lanes[number], []
            while not stopping.is_set():
                try:
                    part = (lane or last).popleft()
                except IndexError:
                    break
                if part.name in needless:
                    continue
                part = replace(part, environment={**ports_of(number), **part.environment})
                results.append(_one(part, pytest_options, picked=bool(options.k), strict=strict))
                needless.add(_second(part))
            ended.append(time.monotonic() - started)
            return results

        with ThreadPoolExecutor(len(lanes)) as pool:
            running = [pool.submit(run, number) for number in range(LANES)]
            try:
                results = [result for lane in running for result in lane.result()]
            except BaseException:
                stopping.set()
                raise
    for part in there:
        if part.second is not None and not options.k:
            both = [result for result in results if result.name in (part.name, _second(part))]
            both[0].failed += _without_tests(part, both)
    print(f"\nlanes ended after {', '.join(f'{seconds:.0f}' for seconds in ended)} s")
    return _total(results, absent, time.monotonic() - started, _processor())


def _second(part: Part) -> str:
    return f"{part.name}2"


def _processes(parts: list[Part], begun: str) -> list[Part]:
    """A part with a second process is there twice. begun: a folder for what `tests.sharing` writes.

    The second process of one that either lane runs is the last: it takes what is left when a lane has nothing else to do.
    """
    found, last = [], []
    for part in parts:
        if part.second is None:
            found.append(part)
        else:
            shared = replace(part, environment={**part.environment, "STREAMJOBS_BEGUN": begun})
            found.append(shared)
            (last if part.either else found).append(replace(shared, name=_second(part), lane=part.second))
    return found + last[::-1]


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests", description="Run the tests; the last line is the total.")
    parser.add_argument("what", nargs="*", help="parts or files; absent: all parts")
    parser.add_argument("--fast", action="store_true", help="without brokers and tests marked slow")
    parser.add_argument("-k", metavar="NAME", help="only tests whose name matches")
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace) -> tuple[list[Part], str]:
    by_name = {part.name: part for part in PARTS}
    if not options.what:
        parts = [part for part in PARTS if part.fast or not options.fast]
        parts = [part for part in parts if not (options.k and part.command)]
        for name, names in [("tests", None)] if options.fast else TOGETHER.items():
            parts = together(parts, name, names)
        return parts, ""
    chosen = []
    for word in options.what:
        if word in by_name:
            chosen.append(by_name[word])
        elif (CHECKOUT / word.partition("::")[0]).exists():
            chosen.append(Part(word, (word,)))
        else:
            return [], f"unknown part or file {word!r}; parts: {', '.join(by_name)}."
    return chosen, ""


def _one(part: Part, pytest_options: list[str], *, picked: bool, strict: bool) -> Result:
    """Run a part and print its outcome."""
    if not part.command and not part.there:
        result = Result(part.name, failed=[f"{part.name}: {' '.join(part.folders)} does not exist"])
    else:
        result = _ran(part, pytest_options, picked=picked, strict=strict)
    _show(result)
    return result


def _ran(part: Part, pytest_options: list[str], *, picked: bool, strict: bool) -> Result:
    def progress(line: str) -> None:
        print(f"  {part.name}: {line}", flush=True)

    result = run_part(part, pytest_options, progress)
    if part.second is None and not picked:
        result.failed += _without_tests(part, [result])
    if strict:
        forbidden = [(test, why) for test, why in result.skipped if not why.startswith(NO_RECORDINGS)]
        result.skipped = [skip for skip in result.skipped if skip not in forbidden]
        result.failed += [f"{test}: skipped, which CI counts as a failure: {why}" for test, why in forbidden]
    return result


def _without_tests(part: Part, results: list[Result]) -> list[str]:
    """The required ones of its members of which no result has a test."""
    failed = []
    for one in part.members or (part,):
        places = tuple(f"{place}::" if place.endswith(".py") else f"{place}/" for place in one.folders)
        ids = (test for result in results for test in result.ids)
        found = any(test.startswith(places) for test in ids) if part.members else any(result.tests for result in results)
        if not found and one.name in REQUIRED:
            failed.append(f"{one.name}: no test found")
    return failed


def _show(result: Result) -> None:
    counts = f"{result.passed} passed"
    if result.failed:
        counts += f", {len(result.failed)} FAILED"
    if result.skipped:
        counts += f", {len(result.skipped)} skipped"
    lines = [f"{result.name:<10} {counts:<40} {result.seconds:6.1f} s {result.processor:6.1f} s of processor"]
    if result.failed:
        lines += ["  | " + line for line in result.output.splitlines()]
    print("\n".join(lines), flush=True)  # in one call: another part may print at the same time


def _processor() -> float:
    """Seconds of processor time of this process and all it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _total(results: list[Result], absent: list[str], seconds: float, processor: float) -> int:
    passed = sum(result.passed for result in results)
    failed = [test for result in results for test in result.failed]
    skipped = [why for result in results for _, why in result.skipped]
    print(f"\n{seconds:.0f} s in all, {processor:.0f} s of processor")
    if absent:
        print(f"missing: {', '.join(absent)}")
    for why, times in Counter(skipped).items():
        print(f"skipped {times} times: {why}")
    for test in failed:
        cause, *below = test.splitlines()
        print("\n".join([f"FAILED {cause}", *(f"  | {line}" for line in below)]))
    if not passed and not failed:
        failed = ["no test ran"]
        print("FAILED no test ran")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
