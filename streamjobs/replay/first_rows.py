"""The rows of recordings as a learner gets them, the first ones or a key's: decoded, filled, put in windows, scaled."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from operator import itemgetter
from statistics import median
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, Array, Outputs
from streamjobs.core.decoding.records import Decoded
from streamjobs.core.decoding.values import class_code, number_code
from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Record
from streamjobs.core.unlearned import apart, outside
from streamjobs.errors import RecordError
from streamjobs.replay.engine import Replay
from streamjobs.replay.warm_up import days_to_alarm
from streamjobs.schema_registry.ready_now import ready_now
from streamjobs.settings.composition import derived, fewest_of
from streamjobs.settings.sections import LearnerSection, ScalingSection, Settings, SinksSection
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.names import MAP

NEWEST = 100  # records of an input that are looked at
_SINK, _DAY = "features", 86_400_000  # milliseconds


class Row(NamedTuple):
    key: str
    time: float  # seconds since 1970
    numbers: list[float | None]


class FirstRows(NamedTuple):
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
    settings: Settings, scaling: ScalingSection, records: Sequence[Record], most: int, wait: float = 0
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


class KeyRows(NamedTuple):
    """What a key's learner (or the map that it shares) learned, in order."""

    scaled: Array  # (n, width)
    unscaled: Array  # (n, width) the same rows in the units of the records


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening(LearnerStage):
    """The stage as it is, which keeps what it gets: rows, and what is to be learned of them."""

    persisted_name: ClassVar[str] = "Listening"  # never stored

    kept: list[tuple[Array, Array]] = field(default_factory=list, compare=False)

    def advance(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array) -> Outputs:
        self.kept.append((X.copy(), learn.copy()))
        return LearnerStage.advance(self, work, slots, X, Y, learn)


def learner_rows(job: Job, records: Iterable[Record]) -> KeyRows:
    """The rows that the records of one key teach, as a worker would have them."""
    steps = {"map": job.steps.map} if job.steps.map else {"learner": job.steps.learner}
    listening = {name: _listening(step) for name, step in {**steps, "scaling": job.steps.scaling}.items() if step}
    Replay(job.with_stages(**listening)).run(records, lambda output: None, lambda tally: None)
    before = listening.pop("scaling", None)
    (last,) = listening.values()
    nothing = np.empty((0, job.width))
    scaled = np.concatenate([nothing, *(X for X, _ in last.kept)])
    unscaled = scaled if before is None else np.concatenate([nothing, *(X for X, _ in before.kept)])
    if job.shared.get(MAP) is None:
        learn = np.concatenate([np.empty(0, np.int64), *(learn for _, learn in last.kept)])
    else:
        learn = np.full(len(scaled), LEARN)  # it stands still, and sees every row
    taken = np.isfinite(scaled).all(axis=1) & (learn & LEARN_EXTRACTOR > 0)
    return KeyRows(scaled[taken], unscaled[taken])


def _listening(stage: LearnerStage) -> Listening:
    return Listening(**{one.name: getattr(stage, one.name) for one in fields(stage) if one.init})


def newest_records(job: Job) -> dict[str, Any]:
    """What the newest records of a job's input are to the job: keys, samples, times, and the group's place.

    Reads without a group. Raises SetupError where the topic cannot be read.
    """
    from streamjobs.kafka.preflight import passed
    from streamjobs.kafka.reader import newest

    source = job.settings.source
    found = list(newest(job.settings.broker, source.topic, NEWEST, time.monotonic(), max_bytes=source.max_bytes))[-NEWEST:]
    records = job.keyed(ready_now(job.settings, job.schemas, found))
    decoded = decoded_with_labels(job, records)
    ahead = [decoded.times[n] - records[owner].timestamp / 1000.0 for n, owner in enumerate(decoded.owner)]
    by_group, ends = passed(job.settings)
    keys_of: dict[int, set[bytes]] = {}
    for record in records:
        if record.key is not None:
            keys_of.setdefault(record.partition, set()).add(record.key)
    return {
        "records": len(records),
        "with_key": sum(record.key is not None for record in records),
        "keys": len({record.key for record in records} - {None}),
        "alone": sum(len(keys) == 1 for keys in keys_of.values()),  # keys without another in their partition
        "usable": len(records) - len(decoded.errors),
        "dead_letters": Counter(error.reason for _, error in decoded.errors),
        "first_error": str(decoded.errors[0][1]) if decoded.errors else None,
        "times": [float(min(decoded.times)), float(max(decoded.times))] if len(decoded.times) else None,
        "ahead": median(ahead) if ahead and source.time is not None else None,  # seconds, of the records' timestamps
        "passed": by_group,  # offsets of the input that the group has passed
        "ends": ends,
    }
