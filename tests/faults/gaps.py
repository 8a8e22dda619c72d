"""Keys that workers set aside for a while, and what an audit expects of them: the replay of such a key has a gap."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live import aside
from streamjobs.core.live.live import Live
from streamjobs.core.messages import ASIDE, Advanced, Output, Report, Stored, dead_letter

STAYS = b"stays"


@dataclass
class Gap:
    """The records of a key from `first` on are dead letters, up to `end`: there the key goes on from another state.

    stored: the key's state in the changelog if `end` is None; None: its state before the gap.
    then: the state that it goes on from; STAYS: its state before the gap, None: it starts over.
    """

    first: int  # offset of the input
    what: str  # "read" or "written"
    why: str
    end: int | None = None
    stored: bytes | None = None
    then: bytes | None = STAYS


@dataclass
class Expected:
    outputs: list[Output]
    state: bytes | None
    report: Report


def expected(job: Job, key: bytes, records: Sequence[Stored], gap: Gap, seen: set[bytes]) -> Expected:
    """What is to come of all records of the key.

    seen: ids of outputs that workers sent. A key that cannot be written has outputs of the records just before it was set
    aside; where they were sent, they must be those of the replay.
    """
    before = [one for one in records if one.offset < gap.first]
    after = [one for one in records if gap.end is not None and one.offset >= gap.end]
    between = [one for one in records[len(before) :] if gap.end is None or one.offset < gap.end]
    outputs, report, state = _applied(job, key, before, None)
    letters = [dead_letter(one, aside._error(one, aside.Verdict(gap.what, gap.why, {})), job.life) for one in between]
    if gap.what == aside.WRITTEN:
        again = [one for one in _applied(job, key, between, state)[0] if one.headers[0][1] in seen]
        outputs += again
    report.records += len(between)
    report.dead_lettered[ASIDE] = len(between)
    if gap.end is None:
        return Expected(outputs + letters, gap.stored or state, report)
    rest, later, final = _applied(job, key, after, state if gap.then == STAYS else gap.then)
    report.add(later)
    return Expected(outputs + letters + rest, final, report)


def _applied(
    job: Job, key: bytes, records: Sequence[Stored], state: bytes | None
) -> tuple[list[Output], Report, bytes | None]:
    live = Live(job, {key: state}.get)
    made: Advanced = advance(job, live, records) if records else Advanced([], Report())
    return made.outputs, made.report, dict(live.snapshots()).get(key, state)
