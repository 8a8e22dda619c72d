"""Jobs with [alarms], and what came of their alarms."""

import json

from streamjobs.core.job import Job
from streamjobs.core.messages import Output
from tests.core.streams import Worker, settings, values

NAMES = ("ax", "ay", "az")
CHART = {"name": "column_chart", "learn": 100, "hold": 60}
DRIFT = {"watch": "columns", "false_alarms": "1 per 1000 rows", "detector": CHART}
SAMPLES = {"window": None, "head": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}, "sinks": {}}
SILENT = {"silent": "60s"}


def job(**sections) -> Job:
    return Job.from_settings(settings(**{**SAMPLES, "drift": None, "alarms": {"stuck": True}, **sections}))


def alarms(outputs: list[Output]) -> list[dict]:
    return [json.loads(one.value) for one in outputs if one.sink == "alarms"]


def rows_of(outputs: list[Output]) -> list[tuple]:
    return [one for one in values(outputs) if one[0] == "alarms"]


class Fleet(Worker):
    """As a worker, which meets all stored keys when it takes over their partition."""

    def crash(self) -> None:
        super().crash()
        self.live.meet(lambda after, count: [] if after is not None else sorted(self.store.items()))
