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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamjobs.errors import SetupError
from tests.brokers.cluster import Cluster
from tests.brokers.fixtures import cleaning_up_on_sigterm
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import toml
from tests.faults.bugs import BUGS
from tests.faults.case import JOB, Environment
from tests.faults.drawn import drawn_case
from tests.faults.load import EACH, KEYS, people
from tests.faults.soak import duration, soak
from tests.faults.suite import CASES, Row, run, table


def main() -> int:
    options = _options()
    if options.list:
        for name, do in CASES.items():
            print(f"{name:<11} {(do.__doc__ or '').strip()}")
        return 0
    try:
        with cleaning_up_on_sigterm(), started_environment(options.keep) as environment:
            environment = environment._replace(guarantee=options.guarantee, replay=options.replay)
            if options.planted:  # most bugs are in how a checkpoint writes states
                environment = environment._replace(replay=options.replay or "0s")
                return _planted(environment, options)
            if options.drawn:
                return _drawn(environment, options)
            if options.soak:
                return soak(environment, options.soak, options.seed, options.keys, options.cache)
            return _passes(environment, options)
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Faults on three real Kafka brokers.")
    parser.add_argument("what", nargs="*", help="cases; absent: all")
    parser.add_argument("--list", action="store_true", help="only their names")
    parser.add_argument("--times", type=int, default=1, help="passes")
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
def started_environment(keep: Path | None = None) -> Iterator[Environment]:
    """Three nodes and a fork_server in a folder that is removed afterwards, unless another one is given."""
    with tempfile.TemporaryDirectory(prefix="streamjobs-faults-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        job = folder / "compiled.toml"
        learner = {"learner": {"name": "okfeb", "rank": 3, "budget": 5}}
        job.write_text(toml({**JOB, **learner, "source": JOB["source"] | {"topic": "none"}}), encoding="utf-8")
        with Cluster(folder) as cluster, ForkServer(folder, job) as fork_server:
            yield Environment(cluster, folder, fork_server)


def _passes(environment: Environment, options: argparse.Namespace) -> int:
    begun, failed = time.monotonic(), 0
    for turn in range(options.times):
        seed, rows = options.seed + turn, []
        records = people(seed, each=options.each)
        started = time.monotonic()
        for name in options.what or CASES:
            print(f"pass {turn + 1}: {name} (load {os.getloadavg()[0]:.1f})", flush=True)
            rows.append(run(name, CASES[name], environment, records, seed))
            print("\n".join(table(rows[-1:])[1:]), flush=True)
        failed += sum(bool(row.problems) for row in rows)
        _tell(rows, f"pass {turn + 1}", time.monotonic() - started)
    print(f"{time.monotonic() - begun:.0f} s in all; {f'{failed} cases FAILED' if failed else 'every fault did no harm'}")
    return 1 if failed else 0


def _drawn(environment: Environment, options: argparse.Namespace) -> int:
    begun, rows = time.monotonic(), []
    for seed in range(options.seed, options.seed + options.drawn):
        rows.append(run("drawn", drawn_case, environment, (), seed))
        print(f"seed {seed}\n" + "\n".join(table(rows[-1:])[1:]), flush=True)
    _tell(rows, "drawn jobs", time.monotonic() - begun)
    return 1 if any(row.problems for row in rows) else 0


def _planted(environment: Environment, options: argparse.Namespace) -> int:
    """Each bug must be found by the audit: a case that could not be carried through proves nothing."""
    begun, missed, rows = time.monotonic(), 0, []
    records = people(options.seed, each=options.each)
    bugs = BUGS[options.guarantee]
    for name in options.what or bugs:
        rows.append(run(name, bugs[name], environment, records, options.seed))
        noticed = rows[-1].audited and bool(rows[-1].problems)
        missed += not noticed
        print(f"{name}: {'noticed' if noticed else 'NOT noticed'}", flush=True)
    _tell(rows, "planted bugs (every one must fail)", time.monotonic() - begun)
    return 1 if missed else 0


def _tell(rows: list[Row], what: str, seconds: float) -> None:
    print(f"\n{what}, {seconds:.0f} s")
    print("\n".join(table(rows)) + "\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
