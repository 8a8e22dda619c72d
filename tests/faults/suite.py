"""The cases by name, and how one is run from its job to its row of the table."""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import SkipTest

from tests.brokers.kafka_job import Sent
from tests.faults import (
    alarms,
    aside,
    brokers,
    changelogs,
    clock,
    credentials,
    disks,
    growth,
    inputs,
    lasting,
    network,
    operations,
    processes,
    refusals,
    releases,
    rollback,
)
from tests.faults.case import Case, Environment

Do = Callable[[Case], None]

CASES: dict[str, Do] = {
    "sigterm": processes.sigterm,
    "sigkill": processes.sigkill,
    "points": processes.points,
    "zombie": processes.zombie,
    "joins": processes.joins,
    "leader": brokers.leader,
    "controller": brokers.controller,
    "rolling": brokers.rolling,
    "twodown": brokers.two_down,
    "asleep": brokers.asleep,
    "latency": network.latency,
    "narrow": network.narrow,
    "blackhole": network.black_hole,
    "resets": network.resets,
    "halfopen": network.half_open,
    "wiped": disks.wiped,
    "paced": disks.paced,
    "crowded": disks.crowded,
    "truncated": disks.truncated,
    "full": disks.full,
    "changelog": changelogs.recreated,
    "cut": changelogs.cut,
    "unclean": changelogs.unclean,
    "poison": inputs.poison,
    "learner": inputs.learner,
    "clocks": inputs.clocks,
    "clock": clock.clock,
    "clock-silent": clock.clock_silent,
    "disorder": inputs.disorder,
    "retention": inputs.retention,
    "damaged": aside.damaged,
    "evicted": aside.evicted,
    "unwritable": aside.unwritable,
    "lasting": lasting.lasting,
    "torture": lasting.torture,
    "alarms": alarms.alarms,
    "reference": alarms.reference,
    "silent": alarms.silent,
    "output": refusals.output,
    "letters": refusals.letters,
    "snapshot": refusals.snapshot,
    "rotated": credentials.rotated,
    "release": releases.release,
    **{f"back-{kind}": rollback.rolled_back(kind) for kind in rollback.KINDS},
    "grown": growth.grown,
    "moved": operations.moved,
    "preferred": operations.preferred,
    "offsets": operations.offsets_gone,
    "throttled": operations.throttled,
}


@dataclass
class Row:
    """What came of a case; passed where `problems` is empty."""

    case: str
    proof: str = ""
    records: int = 0
    missing: int = 0
    doubled: int = 0
    disordered: int = 0
    states: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    audited: bool = False  # it came through to its audit


def run(name: str, do: Do, environment: Environment, records: Sequence[Sent], seed: int) -> Row:
    """A case with a job of its own; afterwards the cluster is whole again."""
    begun, row = time.monotonic(), Row(name)
    case = Case(environment, f"{name.replace('-', '')}{seed}", records, seed)
    try:
        do(case)
        case.finish()
        row.proof = "; ".join(case.proofs)
        verdict = case.check()
        row.proof = "; ".join(case.proofs)
        row.audited = True
        row.records, row.missing, row.doubled = verdict.records, verdict.missing, verdict.doubled
        row.disordered, row.states, row.problems = verdict.disordered, verdict.states, verdict.problems
    except SkipTest as reason:
        row.proof = f"SKIPPED: {reason}"
    except Exception as error:  # noqa: BLE001 - the other cases are wanted as well
        row.problems.append(short(f"{type(error).__name__}: {error}"))
        row.proof = "; ".join(case.proofs)
        place_of = traceback.extract_tb(error.__traceback__)
        print("\n".join(f"  {Path(frame.filename).name}:{frame.lineno} {frame.line}" for frame in place_of), flush=True)
    finally:
        network.mended(case)
        case.close()
    environment.cluster.whole()
    row.seconds = time.monotonic() - begun
    return row


def short(text: str) -> str:
    """Without a worker's log lines: they stay in its file."""
    lines = [line for line in text.splitlines() if line and not line.startswith("{")]
    return " ".join(lines)[:800]


def table(rows: Sequence[Row]) -> list[str]:
    """Lines for people to read."""
    lines = [
        f"{'case':<11} {'records':>7} {'missing':>7} {'doubled':>7} {'order':>5} {'states':>6} {'s':>5}  proof of the fault"
    ]
    for row in rows:
        lines.append(
            f"{row.case:<11} {row.records:>7} {row.missing:>7} {row.doubled:>7} {row.disordered:>5} {row.states:>6} "
            f"{row.seconds:>5.0f}  {row.proof}"
        )
        lines += [f"  FAILED {problem}" for problem in row.problems]
    return lines
