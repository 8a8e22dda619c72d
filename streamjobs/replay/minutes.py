"""Minutes of each activity and day of each key in a replay, the bouts under way at its end included."""

from typing import Any

import msgspec

from streamjobs.core.job import Job
from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.messages import Output
from streamjobs.core.output_records import Bout
from streamjobs.core.predictions import bout_of
from streamjobs.replay.engine import Replay
from streamjobs.stages.names import BOUTS


class MinutesOfDays:
    """By key, day and activity; takes all outputs of a replay."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[str, dict[str, float]]] = {}

    def take(self, output: Output) -> None:
        if output.sink == "bouts" and output.value is not None:
            self._add(msgspec.json.decode(output.value, type=Bout))

    def _add(self, bout: Bout) -> None:
        for one in bout.days:
            self.by_key.setdefault(bout.key, {}).setdefault(one.day, {})[bout.activity] = one.minutes

    def summary(self, job: Job, run: Replay) -> dict[str, Any]:
        """Minutes by key, day and activity."""
        stage = job.steps.bouts
        assert stage is not None
        for (_, _, key), snapshot in run.snapshots().items():
            states, names, _ = load_snapshot(job, snapshot)
            for one in stage.under_way(states[BOUTS]):
                self._add(bout_of(job, key.decode("utf-8", "backslashreplace"), names, one))
        return self.by_key
