"""Workers with a planted fault: python -m tests.kafka.planted FAULT JOB.toml. Some are crashes, some are bugs.

dies-after-STAGE  SIGKILL right after a stage of a checkpoint (outputs, changelog, store, commit): any worker may die so.
commits-first     commits an offset before its states are stored, and dies in between.
forgets-offsets   a restored key does not know which records it has applied.
unfenced          its changelog is written by producers that do not exclude another worker's.
"""

import os
import signal
import sys
import uuid
from collections.abc import Callable
from typing import Any

from streamjobs.core.live import Live
from streamjobs.core.snapshot import Offsets
from streamjobs.files import load_job
from streamjobs.shell import app
from streamjobs.shell.changelog import Changelog
from streamjobs.shell.checkpoint import Checkpoints
from streamjobs.shell.worker import run


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_after(stage: str) -> Callable[[], None]:
    def plant() -> None:
        real = Checkpoints._step

        def step(self: Any, done: str, begun: float) -> float:
            if done == stage:
                die()
            return real(self, done, begun)

        Checkpoints._step = step  # type: ignore[method-assign]

    return plant


def commits_first() -> None:
    async def take(self: Any) -> bool:
        if self.partition.next > self.partition.committed:
            await self._commit(self.partition.number, self.partition.next)
            die()
        return True

    Checkpoints.take = take  # type: ignore[method-assign]


def forgets_offsets() -> None:
    real = Live._enter

    def enter(self: Any, key: bytes) -> int:
        slot = real(self, key)
        self.offsets[slot] = Offsets()
        return slot

    Live._enter = enter  # type: ignore[method-assign]


def unfenced() -> None:
    class Unfenced(Changelog):
        def __init__(self, client: Any, name: str, topic: str, partition: int) -> None:
            super().__init__(client, f"{name}-{uuid.uuid4()}", topic, partition)

    app.Changelog = Unfenced  # type: ignore[misc]


FAULTS: dict[str, Callable[[], None]] = {
    **{f"dies-after-{stage}": dies_after(stage) for stage in ("outputs", "changelog", "store", "commit")},
    "commits-first": commits_first,
    "forgets-offsets": forgets_offsets,
    "unfenced": unfenced,
}


def program(fault: str) -> tuple[str, ...]:
    """For `Worker(bed, program=...)`."""
    return ("-m", "tests.kafka.planted", fault)


if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(run(load_job(sys.argv[2])))
