"""Jobs of every task with the records that make all of their outputs."""

import json
from collections.abc import Callable

import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Stored
from streamjobs.core.state.population import encode
from streamjobs.settings.sections import SinksSection
from streamjobs.stages.population.reference import DIRECTIONS, PopulationReference
from tests.core.people import job_of_people, of_people, population_of
from tests.core.streams import TOPIC, Worker, samples, settings

AXES = {"topic": TOPIC, "time": "ts", "fields": ["ax", "ay", "az"]}


def _classes(sinks: dict) -> Job:
    """With its own classes, a windowed signal and a detector of thresholds."""
    return Job.from_settings(settings(sinks=sinks))


def _declared(sinks: dict) -> Job:
    """With declared classes, smoothed scores, a control beside the learner, and missing numbers filled."""
    drift = {"beside": ["last_points"]}
    return Job.from_settings(
        settings(
            source={**AXES, "label": "activity", "missing": "hold"},
            head={"name": "rls", "classes": ["run", "sit"], "smooth": 0.3},
            drift=drift,
            bouts={"shortest": "1s"},
            sinks=sinks,
        )
    )


def _alarms(sinks: dict) -> Job:
    """Of samples, with a detector of their columns: alarms, and what it says of every row."""
    detector = {"name": "column_chart", "learn": 100, "hold": 60}
    drift = {"watch": "columns", "false_alarms": "1 per 1000 rows", "detector": detector}
    learner = {"name": "okfeb", "rank": 3, "budget": 5}
    more = {"drift": "every-row", **sinks}
    found = {"drift": drift, "alarms": {"stuck": True, "silent": "5s"}}
    found |= {"forecast": {"ahead": [1, 5], "every": "100ms"}}
    return Job.from_settings(settings(window=None, head=None, learner=learner, sinks=more, **found))


def _number(sinks: dict) -> Job:
    learner = {"name": "qklms", "budget": 10}
    source = {**AXES, "fields": ["ax", "ay"], "label": "az"}
    return Job.from_settings(settings(window=None, head=None, drift=None, learner=learner, source=source, sinks=sinks))


def _numbers(sinks: dict) -> Job:
    """Of two numbers, which no record has: what is said of them stays null or as it began."""
    head = {"name": "rls", "task": "regression", "targets": 2}
    return Job.from_settings(settings(source={**AXES, "label": "pair"}, head=head, sinks=sinks))


def _people(sinks: dict) -> Job:
    return job_of_people(sinks=sinks, bouts={"shortest": "1s"})


def _people_who_change(sinks: dict) -> Job:
    """With alarms by the population's reference; windows come every half second, six alarms an hour are one in 1200."""
    chosen = of_people(drift={"watch": "columns", "reference": "population", "false_alarms": "6/h"}, sinks=sinks)
    made = population_of(of_people())
    projection = np.random.default_rng(0).normal(size=(made.width, DIRECTIONS))
    reference = PopulationReference(1200.0, np.zeros(made.width), np.ones(made.width), projection)
    return Job.from_settings(chosen, population=encode(made._replace(reference=reference)))


JOBS: dict[str, Callable[[dict], Job]] = {
    "classes": _classes,
    "declared": _declared,
    "alarms": _alarms,
    "number": _number,
    "numbers": _numbers,
    "people": _people,
    "people who change": _people_who_change,
}


def job_of(name: str, **sinks: object) -> Job:
    """With features on."""
    features = {} if name == "number" else {"features": "features"}
    return JOBS[name]({**features, **SinksSection(**sinks).model_dump(exclude_unset=True)})


def outputs_of(job: Job, count: int = 900) -> list[Output]:
    """Of a stream with dead letters in it."""
    records: list[Stored] = samples(count)
    if "alarms" in job.sinks:
        records = [_moved(one) if 1500 <= number < 1800 else one for number, one in enumerate(samples(2400))]
        records[2000:2200] = [_stuck(one) for one in records[2000:2200]]
        records = [one for number, one in enumerate(records) if one.key != b"p2" or not 900 <= number < 1200]
    elif "activity" not in (job.settings.source.label or ""):
        records = [_with_pair(one) for one in records]
    broken = [one._replace(value=b"{") if number % 60 == 7 else one for number, one in enumerate(records)]
    return Worker(job).apply(broken)


def _with_pair(record: Stored) -> Stored:
    """A label of two numbers in place of the activity, in most of the records."""
    value = record.value or b""
    return record._replace(value=value.replace(b'"activity": "run"', b'"pair": [1.5, -2]'))


def _moved(record: Stored) -> Stored:
    """With an axis far from where it was."""
    body = json.loads(record.value or b"")
    return record._replace(value=json.dumps(body | {"ay": body["ay"] + 30.0}).encode())


def _stuck(record: Stored) -> Stored:
    return record._replace(value=json.dumps(json.loads(record.value or b"") | {"ax": 0.25}).encode())
