"""Which states of live keys may be written: those that the reader of snapshots takes back."""

from collections.abc import Sequence
from typing import Any, Protocol

from streamjobs.core.job import Job
from streamjobs.core.live.columns import Columns
from streamjobs.core.live.forms import Forms
from streamjobs.core.live.stored import check_states
from streamjobs.errors import SnapshotError


class LiveStates(Protocol):
    """What `streamjobs.core.live.live.Live` has of each slot."""

    job: Job
    columns: Columns | Forms | None
    names: list[tuple[str, ...]]

    def states(self, slot: int) -> dict[str, Any]: ...


def unwritable(live: LiveStates, slots: Sequence[int]) -> dict[int, str]:
    """The slots among these with a state that no reader takes back, and the sentence the reader would refuse it with.

    Empty when all is well. Does not change the states.
    """
    doubtful = list(slots)
    if live.columns is not None and doubtful:
        known = None if live.job.most_names is None else [len(live.names[slot]) for slot in doubtful]
        good = live.columns.writable(doubtful, known)
        doubtful = [slot for slot, can in zip(doubtful, good.tolist(), strict=True) if not can]
    wrong = {}
    for slot in doubtful:
        try:
            check_states(live.job, live.states(slot), list(live.names[slot]))
        except SnapshotError as problem:
            wrong[slot] = str(problem)
    return wrong
