"""The first rows of recordings as a learner gets them: decoded, filled, put in windows, scaled."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.decoding.labels import class_code, number_code
from streamjobs.core.decoding.records import Decoded
from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Record
from streamjobs.core.unlearned import apart, outside
from streamjobs.errors import RecordError
from streamjobs.replay.engine import Replay
from streamjobs.replay.warm_up import days_to_alarm
from streamjobs.settings.composition import derived, fewest_of
from streamjobs.settings.sections import LearnerSection, ScalingSection, Settings, SinksSection

_SINK, _DAY = "features", 86_400_000  # milliseconds


class Row(NamedTuple):
    """A row of x."""

    key: str
    time: float  # seconds since 1970
    numbers: list[float | None]


class FirstRows(NamedTuple):
    """What a sample gives."""

    columns: tuple[str, ...]  # names of a row's numbers
    unscaled: list[Row]  # in the units of the records
    scaled: list[Row]  # the same rows; empty where scaling is off, or that of a population
    rows: int  # of all records
    watched: list[int]  # rows of each key that had any, without its first `days_to_alarm`
    skipped: Counter[str]  # samples and windows that gave none, by reason
    unlike: list[str]  # sentences on rows unlike those that taught the job's population


def decoded_with_labels(job: Job, records: Sequence[Record]) -> Decoded:
    """As `job.decode`; records with labels that new keys refuse are errors too, as in a worker."""
    decoded, wrong = job.decode(records), dict[int, RecordError]()
    names = defaultdict[bytes | None, list[str]](lambda: list(job.names()))
    labels = zip(decoded.owner.tolist(), decoded.labels, strict=True) if job.task != "none" else ()
    for index, of_record in groupby(labels, itemgetter(0)):
        trial = list(names[records[index].key])
        try:
            for _, label in of_record:
                if job.task == "regression":
                    number_code(label, job.label_width)
                else:
                    class_code(label, trial, job.targets, job.classes is not None)
            names[records[index].key] = trial
        except RecordError as error:
            wrong[index] = error
    if not wrong:
        return decoded
    errors = sorted([*decoded.errors, *wrong.items()], key=itemgetter(0))
    return decoded.without([index in wrong for index in range(len(records))])._replace(errors=errors)


def first_rows(job: Job, records: Sequence[Record], most: int) -> FirstRows:
    """records: of one partition, in order. most: rows to keep.

    No learner runs: in its place stands one that passes its input through.
    """
    settings, shared = job.settings, job.population and job.population.scaling
    none, wait = ScalingSection(method="none"), days_to_alarm(job) * _DAY
    unscaled, watched, replay = _rows(settings, none, records, len(records) if shared else most, wait)
    scaled: list[Row] = []
    if settings.scaling.method != "none" and job.population is None:
        scaled = _rows(settings, settings.scaling, records, most)[0]
    if unscaled and job.convolutions is not None:  # in the place of the samples behind the statistics
        X = job.convolutions.rows(np.array([row.numbers for row in unscaled], float))
        unscaled = [row._replace(numbers=numbers) for row, numbers in zip(unscaled, X.tolist(), strict=True)]
    columns, tally = job.composition.columns, replay.tally
    if unscaled and shared:
        X = np.array([row.numbers for row in unscaled], float)
        rows = shared.learner.transform(shared.state, X)
        tally.outside.update(outside(columns, rows, settings.scaling.clip, _apart(job, rows)))
        if job.norms is not None:
            tally.units.update((unscaled[n].key, what) for n, what in job.norms.other_units(X))
    unlike = [*filter(None, [tally.unlike]), *(sentence for sentence, _ in tally.other_units())]
    return FirstRows(columns, unscaled[:most], scaled, tally.rows, watched, tally.skipped, unlike)


def passing_through(settings: Settings, scaling: ScalingSection, **sections: Any) -> Settings:
    """The job up to its windows: features are the rows, scaled so."""
    window = settings.window
    return Settings(
        job=settings.job,
        source=settings.source,
        window=window and window.model_copy(update={"fewest": fewest_of(settings, window)}),
        scaling=scaling,
        learner=LearnerSection(name="scaling", method="none"),  # type: ignore[call-arg]
        sinks=SinksSection(features=f"{settings.source.topic}.{_SINK}"),
        **sections,
    )


def _apart(job: Job, scaled: Array) -> Array | None:
    """As a worker has it of scaled rows: `core.model.run_learners`."""
    assert job.population is not None
    if job.directions is None:
        return None
    mapped = job.population.map and job.population.map.learner.transform(job.population.map.state, scaled)
    X = scaled if mapped is None else np.hstack([scaled, mapped]) if job.composition.keeps_input else mapped
    return apart(job.directions.rows(X))


def _rows(
    settings: Settings, scaling: ScalingSection, records: Sequence[Record], most: int, wait: int = 0
) -> tuple[list[Row], list[int], Replay]:
    replay, rows = Replay(Job.from_composition(derived(passing_through(settings, scaling)))), list[Row]()
    firsts, watched = dict[bytes | None, int](), Counter[bytes | None]()

    def take(output: Output) -> None:
        if output.sink == _SINK:
            watched[output.key] += output.timestamp - firsts.setdefault(output.key, output.timestamp) >= wait
        if output.sink == _SINK and len(rows) < most:
            value = json.loads(output.value or b"null")
            rows.append(Row(value["key"], value["ts"], value["z"]))

    replay.run(records, take, lambda tally: None)
    return rows, list(watched.values()), replay
