"""The long fault run on a broker of its own, printed as it goes; ends with code 1 when anything failed.

python -m tests.faults                      everything
python -m tests.faults --kills 20 kill wipe    these scenarios, this many kills
python -m tests.faults --planted            also a worker without fencing, which the zombie scenario must notice
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from streamjobs.errors import SetupError
from streamjobs.shell.broker import Broker
from tests.faults.scenarios import frozen, joins, kills
from tests.kafka.bed import Bed
from tests.kafka.fixtures import cleaning_up_on_sigterm
from tests.kafka.load import SOURCE
from tests.kafka.planted import program
from tests.kafka.truth import verify

JOB = {"source": SOURCE, "head": {"name": "rls"}, "drift": {"detector": "page_hinkley"}}
SLOW = {"checkpoint": "3s"}  # so that a frozen worker has much that is not saved

Scenario = tuple[dict, Callable[[Bed], list[str]], bool]  # [state], what is done, whether outputs may be repeated


def scenarios(options: argparse.Namespace) -> dict[str, Scenario]:
    count, turns, seed = options.kills, options.turns, options.seed
    return {
        "kill": ({}, lambda bed: kills(bed, count, seed), True),
        "kill-session": ({}, lambda bed: kills(bed, max(2, count // 4), seed + 1, static=False), True),
        "wipe": ({}, lambda bed: kills(bed, max(2, count // 2), seed + 2, wipe=True), True),
        "join": ({}, lambda bed: joins(bed, turns, seed + 3), False),
        "mixed": ({}, lambda bed: joins(bed, turns, seed + 4, kills_too=True), True),
        "frozen": (SLOW, lambda bed: frozen(bed, seed + 5, until_finished=False), True),
        "zombie": (SLOW, lambda bed: frozen(bed, seed + 6, until_finished=True), True),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Long fault tests on a real Kafka.")
    parser.add_argument("what", nargs="*", help="scenarios; absent: all")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--turns", type=int, default=8, help="joins and leaves")
    parser.add_argument("--rounds", type=int, default=3, help="how often frozen and zombie are done")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--planted", action="store_true", help="also a worker without fencing")
    options = parser.parse_args()
    known = scenarios(options)
    unknown = set(options.what) - set(known)
    if unknown:
        parser.error(f"unknown scenario {sorted(unknown)[0]!r}; there are: {', '.join(known)}")
    failed = 0
    try:
        with (
            cleaning_up_on_sigterm(),
            tempfile.TemporaryDirectory(prefix="streamjobs-faults-") as folder,
            Broker() as broker,
        ):
            for name in options.what or known:
                for turn in range(options.rounds if name in ("frozen", "zombie") else 1):
                    bed_name, (state, do, repeats) = f"{name}-{turn}", scenarios(options)[name]
                    bed = Bed(broker.bootstrap, Path(folder), bed_name, **JOB, state=state)
                    failed += not _one(bed, do, repeats)
                    options.seed += 50
            if options.planted:
                bed = Bed(broker.bootstrap, Path(folder), "unfenced", **JOB, state=SLOW)
                failed += not _noticed(bed, options.seed)
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print("every fault happened and did no harm" if not failed else f"{failed} scenarios FAILED")
    return 1 if failed else 0


def _one(bed: Bed, do: Callable[[Bed], list[str]], repeats: bool) -> bool:
    begin = time.monotonic()
    print(f"{bed.name} (load {os.getloadavg()[0]:.1f})", flush=True)
    try:
        for line in do(bed):
            print(f"  {line}")
        for sink, found in verify(bed, repeats=repeats).items():
            print(f"  {sink}: {found}")
    except Exception:  # noqa: BLE001 - the other scenarios are wanted as well
        traceback.print_exc()
        return False
    records = sum(bed.ends().values())
    print(f"  {records} records, all final states as in the replay, {time.monotonic() - begin:.0f} s", flush=True)
    return True


def _noticed(bed: Bed, seed: int) -> bool:
    """The zombie scenario fails with a worker whose changelog is not fenced."""
    print(f"{bed.name}: the zombie scenario must fail with it", flush=True)
    try:
        frozen(bed, seed, until_finished=True, program=program("unfenced"), fenced=False)
        verify(bed, repeats=True)
    except AssertionError as error:
        print(f"  noticed: {str(error)[:200]}")
        return True
    print("  NOT noticed")
    return False


if __name__ == "__main__":
    sys.exit(main())
