"""The fault suite on three real brokers with two workers; exit code 1 when anything failed.

python -m tests.faults                           every case once
python -m tests.faults --list                    their names
python -m tests.faults sigkill zombie --times 3  these, three passes
python -m tests.faults --guarantee exactly_once  any of it where a reader of committed records must see each output once
python -m tests.faults --drawn 20 --seed 7       20 jobs drawn from all sections, with drawn faults; of case seeds 7 to 26
python -m tests.faults --planted                 workers with planted bugs, which the suite must notice
python -m tests.faults --soak 2h                 random faults, and the slope of the workers' memory
python -m tests.faults --soak 2h --keys 50000 --cache 25MB   the same with three times the keys that fit
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Process, SimpleQueue
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.broker import PORTS, prepare
from tests.brokers.cluster import Cluster
from tests.brokers.fixtures import cleaning_up_on_sigterm
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import toml, until
from tests.faults.bugs import BUGS
from tests.faults.case import JOB, Environment
from tests.faults.drawn import drawn_case
from tests.faults.load import EACH, KEYS, people
from tests.faults.soak import duration, soak
from tests.faults.suite import CASES, Do, Row, run, table

HOURS = 7200.0  # seconds


class Task(NamedTuple):
    """What one process does at a time: a case, a planted bug, or a drawn job."""

    name: str
    do: Do
    seed: int
    each: int = 0  # records of each key; 0: the case makes its own


def main() -> int:
    options = _options()
    if options.list:
        for name, do in CASES.items():
            print(f"{name:<11} {(do.__doc__ or '').strip()}")
        return 0
    try:
        with cleaning_up_on_sigterm():
            if options.soak:
                with started_environment(options) as environment:
                    return soak(environment, options.soak, options.seed, options.keys, options.cache)
            if options.planted:
                return _planted(options)
            return _drawn(options) if options.drawn else _passes(options)
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Faults on three real Kafka brokers.")
    parser.add_argument("what", nargs="*", help="cases; absent: all")
    parser.add_argument("--list", action="store_true", help="only their names")
    parser.add_argument("--times", type=int, default=1, help="passes")
    parser.add_argument(
        "--parallel", type=int, default=1, metavar="N", help="so many cases at a time, on nodes of their own"
    )
    parser.add_argument("--planted", action="store_true", help="workers with planted bugs instead")
    parser.add_argument("--drawn", type=int, metavar="N", help="so many jobs and faults that are drawn, instead of cases")
    parser.add_argument("--soak", type=duration, metavar="TIME", help="random faults for so long, such as 2h or 90m")
    parser.add_argument("--guarantee", choices=("at_least_once", "exactly_once"), default="at_least_once")
    parser.add_argument("--replay", default="", help="[state] replay of every case, such as 10s; absent: the default")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--each", type=int, default=EACH, help="records of each of the 200 keys")
    parser.add_argument("--keys", type=int, default=KEYS, help="of a soak")
    parser.add_argument("--cache", help="[state] cache of a soak's workers, such as 25MB")
    parser.add_argument("--keep", type=Path, help="a folder for all data and logs, which stays")
    options = parser.parse_args()
    known = BUGS[options.guarantee] if options.planted else CASES
    unknown = set(options.what) - set(known)
    if unknown:
        parser.error(f"unknown case {sorted(unknown)[0]!r}; there are: {', '.join(known)}")
    if options.keep is not None and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"--keep {options.keep}: expected an empty folder or none, it holds the data of something else")
    return options


@contextmanager
def started_environment(options: argparse.Namespace, place: str = "") -> Iterator[Environment]:
    """Three nodes and a fork_server in a folder that is removed afterwards, unless --keep names another one."""
    with tempfile.TemporaryDirectory(prefix="streamjobs-faults-") as temporary:
        folder = (options.keep or Path(temporary)) / place
        folder.mkdir(parents=True, exist_ok=True)
        job = folder / "compiled.toml"
        learner = {"learner": {"name": "okfeb", "rank": 3, "budget": 5}}
        job.write_text(toml({**JOB, **learner, "source": JOB["source"] | {"topic": "none"}}), encoding="utf-8")
        replay = options.replay or ("0s" if options.planted else "")  # most bugs are in how a checkpoint writes states
        with Cluster(folder) as cluster, ForkServer(folder, job) as fork_server:
            yield Environment(cluster, folder, fork_server, options.guarantee, replay)


def _rows(options: argparse.Namespace, tasks: Sequence[Task]) -> Iterator[tuple[Task, Row]]:
    """Each task's row as it is done, by --parallel processes with nodes of their own."""
    prepare()
    todo, done = SimpleQueue(), SimpleQueue()
    workers = [Process(target=_work, args=(options, number, tasks, todo, done)) for number in range(options.parallel)]
    for worker in workers:
        worker.start()
    for number in (*range(len(tasks)), *[None] * len(workers)):
        todo.put(number)
    try:
        for _ in tasks:
            until(lambda: not done.empty() or any(worker.exitcode for worker in workers), "a case is done", HOURS, every=0.2)
            if done.empty():
                raise SetupError("a process of cases has ended before its work was done.")
            number, row = done.get()
            print("\n".join(table([row])[1:]), flush=True)
            yield tasks[number], row
    except BaseException:
        for worker in workers:
            worker.terminate()  # which it takes as Ctrl-C, to end its nodes
        raise
    finally:
        for worker in workers:
            worker.join()


def _work(options: argparse.Namespace, number: int, tasks: Sequence[Task], todo: Any, done: Any) -> None:
    if options.parallel > 1:
        share = len(PORTS) // options.parallel
        first = PORTS.start + number * share
        os.environ["STREAMJOBS_PORTS"] = f"{first}-{first + share - 1}"
    place = str(number) if options.parallel > 1 else ""
    with suppress(KeyboardInterrupt), cleaning_up_on_sigterm(), started_environment(options, place) as environment:
        while (at := todo.get()) is not None:
            name, do, seed, each = tasks[at]
            print(f"{name} of seed {seed} (load {os.getloadavg()[0]:.1f})", flush=True)
            done.put((at, run(name, do, environment, people(seed, each=each) if each else (), seed)))


def _passes(options: argparse.Namespace) -> int:
    begun, turns = time.monotonic(), range(options.seed, options.seed + options.times)
    tasks = [Task(name, CASES[name], seed, options.each) for seed in turns for name in options.what or CASES]
    rows = [row for _, row in sorted(_rows(options, tasks), key=lambda one: tasks.index(one[0]))]
    failed = sum(bool(row.problems) for row in rows)
    _tell(rows, f"{options.times} passes", time.monotonic() - begun)
    print(f"{failed} cases FAILED" if failed else "every fault did no harm")
    return 1 if failed else 0


def _drawn(options: argparse.Namespace) -> int:
    begun, seeds = time.monotonic(), range(options.seed, options.seed + options.drawn)
    rows = [row for _, row in _rows(options, [Task("drawn", drawn_case, seed) for seed in seeds])]
    _tell(rows, "drawn jobs", time.monotonic() - begun)
    return 1 if any(row.problems for row in rows) else 0


def _planted(options: argparse.Namespace) -> int:
    """Each bug must be found by the audit: a case that could not be carried through proves nothing."""
    begun, missed, rows = time.monotonic(), 0, []
    bugs = BUGS[options.guarantee]
    for task, row in _rows(options, [Task(name, bugs[name], options.seed, options.each) for name in options.what or bugs]):
        rows.append(row)
        noticed = row.audited and bool(row.problems)
        missed += not noticed
        print(f"{task.name}: {'noticed' if noticed else 'NOT noticed'}", flush=True)
    _tell(rows, "planted bugs (every one must fail)", time.monotonic() - begun)
    return 1 if missed else 0


def _tell(rows: list[Row], what: str, seconds: float) -> None:
    print(f"\n{what}, {seconds:.0f} s")
    print("\n".join(table(rows)) + "\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
