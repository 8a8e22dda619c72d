"""The job file that `init` writes: a commented template, filled with what was guessed from a recording."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streamjobs.commands.recordings import source_template as parts
from streamjobs.commands.recordings.source_template import DRIFT_OF_POPULATION, OF_STARTER, one_line
from streamjobs.recordings import survey
from streamjobs.recordings.guess import result
from streamjobs.recordings.guess.result import Guess, windowed
from streamjobs.settings.rules.forecast import USUAL_SEASON
from streamjobs.settings.sections import MOST_WAITING
from streamjobs.settings.types import quoted, toml, toml_line

if TYPE_CHECKING:
    from streamjobs.commands.recordings.learner_trial import Best
    from streamjobs.commands.recordings.trial import Trial
    from streamjobs.fit.starters import Starter

TURNED = '\n# If people may mount the sensor in any orientation: statistics = "gravity", convolutions = 0, and no directions'
USUAL_NAME = "job"  # of a job file, which says nothing about the job
USUAL_CLASSES = 16  # [head] max_classes without the setting
SPARE = 1.25  # times the time, and the rows, that labels of the sample took
USUAL_WAITING = 1000  # rows of a key that wait without the setting
WINDOW_ROWS = 20  # of a proposed window, where samples are rows of their own


class Written(NamedTuple):
    """What the job file has next to the guess: of options, of questions, or as usual."""

    topic: str
    broker: str
    format: str
    time_zone: str | None
    missing: str | None
    partitions: int = 0  # of a topic with records without keys
    name: str = "job"  # of the job, where its file has the usual name
    rows: int = 0  # of a key in a sample that is too short for the usual detector
    few: bool = False  # of a key in the sample, for LEARN
    daily: bool = False  # a number has a daily cycle
    week: str = ""  # kinds of days, of a weekly rhythm
    keys: int = 0  # of the sample; 0: unknown
    runs: int = 0  # rows of the usual key, where keys follow one another and are short
    best: "Best | None" = None  # learner of a number, on the sample
    registry: str | None = None  # address of the registry with the records' schemas
    after_schema_id: bool = False  # values follow the id of a schema
    own: bool = False  # each key learns alone, to try [drift] before the population's file exists


TEMPLATE = """\
# A streamjobs job. It reads a Kafka topic, has a learner for each key, and sends predictions and alarms.
# 'streamjobs check {file}' lists all mistakes, 'streamjobs schema' describes every setting.
# Any setting can come from the environment: STREAMJOBS_BROKER__URL=kafka://broker:9092

[job]
name = "{name}"  # consumer group, and prefix of the state's topic

[broker]
url = {broker}

[source]
topic = {topic}  # records are keyed by person, device or machine{key}
format = "{format}"  # json | msgpack | raw | avro | protobuf
{envelope}{preset}{x}
{time}
{label}
{missing}late = "learn"  # late samples: learn | predict_only | drop | dlq
{left_out}{registry}
{sensors}{labels}{window}

{model}

[sinks]  # output topics; absent: <topic>.predictions, .alarms, .dlq; "" turns an output off, except dlq
# 'streamjobs schema JOB --outputs' describes the records
# features = {features}  # the learner's features: more than half of the output bytes; off if absent
# scores = true  # predictions with the scores of all classes

[state]
directory = "state"
# checkpoint = "1s"  # a crash repeats at most this much input; absent: 1 s, with guarantee = "exactly_once" 75 ms
# start_from = "pooled.state"  # new keys start from it; written by 'streamjobs replay --pool --export'

[metrics]
port = 9108  # /metrics and /health on 127.0.0.1
"""

ENVELOPE = 'envelope = "schema_id"  # none | cloudevents | schema_id: each value follows the id of its schema\n'
REGISTRY = """
[registry]
url = {url}  # has the records' schemas; 'streamjobs schema' describes the settings for credentials
"""
SCALING = """\
[scaling]
method = "standard"  # running mean and variance of every key
clip = 5.0  # a single outlier does not move the model

"""
OF_ROWS = """\
{learner}

[drift]
{tried}watch = {watch}  # columns | innovations | rows | ls_error | loss: numbers, their forecast errors, model errors
{daily}{learn}{detector}false_alarms = "1 per {between} rows"  # most alarms of an unchanged key{many}{per_time}
{reference}; absent: a change that lasts becomes normal{after}"""
REFERENCE = '# reference = "first 2h"  # these rows are always normal, such as for a machine'
OF_RUNS = """\
# Keys follow one another in time, as experiments do. If a key may begin with a fault, remove reference
reference = "first {rows} rows"  # these rows of each key are always normal"""
OF_RUN, MOST_OF_RUN = 0.4, 400  # of a key's rows are its reference, and most rows; chosen on experiments of seeds 1 and 2

OF_KERNEL = """\
[learner]
name = "okfeb"  # kernel features on a budget; 'streamjobs describe okfeb' explains the settings
role = "{role}"  # head: features stop changing, for a [head] | track: features follow the data, for drift
rank = {rank}
budget = {budget}  # most samples that a key stores
kernel = {{ name = "gaussian", bandwidth = {bandwidth} }}  # about the square root of the number of features

{head}"""

OF_BEST = """\
# {line}
{section}  # 'streamjobs compare' tries others on your recordings"""

OF_PEOPLE = """
# reference = "population"  # for people: alarms when a person changes the activity; needs a [population]"""
SHORT = """\
# The sample has {rows} rows of a key. With thousands, remove detector and watch ["columns", "innovations", "rows"]
detector = {{ name = "column_chart", learn = {learn}, smoothing = 0.5, shares = true }}  # alarms after {learn} + 128 rows
"""
LEARN, BLOCKS = 600, 128  # rows that teach what is normal, where the sample allows it; rows after them before any alarm
FEWER = "with 300 rows alarms come sooner, but fewer small changes are found"
DAILY = "daily = true  # deviations from the same time on the days before; the first alarms are on the third day\n"
WEEK = 'week = "{}"  # a letter for each day from Monday on: days are compared with two or more of the same letter\n'
SLOPES = "slopes = {{ {} }}  # for levels that always fall or rise: mean slope over this time; alarms have slopes per hour\n"
OF_CYCLE = "cycle = {}  # rows of a day: innovations are compared with innovations of all hours\n"
MOST_EACH = 20  # columns: each adds 3.4 KB to a state, and a microsecond to a row
EACH = "each = true  # also watch each column by itself: one that wanders then hides no other\n"
COUNTS = "counts = true  # a column is often 0: its usual counts raise no alarm\n"
DAY, OF_DAY = 86_400.0, 96  # seconds; least rows of a day: with 24 it finds less on series of seeds 1 to 4
LEAST_LEARN, LEARN_FROM = 60, 4  # rows, or this part of a key's, that teach the scale; chosen on fleets of seeds 1 to 3
USUAL_LIMIT, SHORT_LIMIT = 10_000, 50_000  # rows from one false alarm to the next; of keys without days, which are many
# Of one slow key, at least, where that is one false alarm in so many seconds; chosen on series of seeds 0 to 4
ALONE_LIMIT, ALONE_SECONDS = 3_000, 10 * 86_400
AHEAD = 1, 12  # rows
FORECASTS = 32  # of all keys together, at most, to be on unasked: 0.3 MB of states; 20 keys, all that are counted, have 40
FORECAST = """

{off}[forecast]  # forecasts of each number, with intervals{why}
{off}ahead = {ahead}  # rows; each adds for each field 9 KB to a key's state, and 0.3 KB to the output of a row{every}
# cautious = true  # start at the last value; 'streamjobs tune' measures both on a recording{floored}"""


def job_file_text(
    guessed: Guess, file: Path, written: Written, trial: "Trial | None" = None, starter: "Starter | None" = None
) -> str:
    """The template, filled with what was guessed from a sample, or with `result.EXAMPLE`."""
    dim, source = parts.lines_of_source(guessed, written.partitions, written.time_zone, written.missing)
    windowed = result.windowed(guessed.rate)
    width = 8 * dim if windowed else dim
    labelled = guessed.label is not None
    rank = max(2, min(20, width))
    short, runs = (0, 0) if windowed or labelled else (0 if written.runs else written.rows, written.runs)
    watch: str | Sequence[str] = "columns" if windowed or labelled or short or runs else ["columns", "innovations", "rows"]
    taken = trial.tried[-1] if trial is not None and trial.tried else None
    daily = _rhythm(written) != "" and not isinstance(watch, str) and 0.0 < (guessed.pause or 0.0) * OF_DAY <= DAY
    alone = _alone(guessed) if written.keys == 1 and watch != "columns" else USUAL_LIMIT
    listed = not isinstance(watch, str)  # only then what is tried has each and cycle
    watch, daily = (watch, daily) if taken is None else (taken.watch, taken.daily)
    listed = listed and not isinstance(watch, str)
    taught = guessed if survey.teaches(guessed) and not written.own else None
    people = "" if taught is None else parts.of_population(taught)
    return TEMPLATE.format(
        file=one_line(file.name),
        name=name_of(written.name if file.stem == USUAL_NAME else file.stem),
        broker=quoted(written.broker),
        topic=quoted(written.topic),
        features=quoted(f"{written.topic}.features"),
        format=written.format,
        envelope=ENVELOPE if written.after_schema_id else "",
        **source,
        labels=_labels(guessed),
        registry="" if written.registry is None else REGISTRY.format(url=quoted(written.registry)),
        window=_window_of(starter)
        if starter is not None
        else _window(guessed.rate or 50.0, windowed, guessed) + (_statistics(taught) if taught and windowed else ""),
        model=OF_STARTER.format(made_from=starter.made_from, file=quoted(f"{starter.name}.state"), classes=USUAL_CLASSES)
        if starter is not None
        else people + DRIFT_OF_POPULATION
        if people and windowed
        else OF_ROWS.format(
            after=(OF_PEOPLE if windowed else "")
            if labelled
            else _sensors(guessed, trial) + ("" if windowed else _ahead(guessed, written, dim)),
            per_time='; or by time, such as "1/day"' if windowed else "",
            learner=people
            or SCALING
            + (
                OF_BEST.format(line=one_line(best.line), section=toml({"learner": dict(best.section)}).rstrip())
                if (best := written.best) is not None and best.section is not None
                else OF_KERNEL.format(
                    role="head" if labelled else "track",
                    rank=rank,
                    budget=rank + max(5, rank // 2),
                    bandwidth=round(width**0.5, 1),
                    head=_head(guessed) if labelled else '# [head]\n# name = "rls"  # learns labels on the features',
                )
            ),
            tried="".join(f"# {one_line(line)}\n" for line in trial.lines()) if trial is not None else "",
            watch=json.dumps(watch),
            daily=_rhythm(written, daily)
            + ("" if runs else _slopes(guessed, watch))
            + (EACH if listed and 1 < dim <= MOST_EACH and "columns" in watch else "")
            + (COUNTS if guessed.counts and not isinstance(watch, str) else ""),
            learn=_learning(guessed, written, watch, daily or not listed, listed or bool(taken and taken.learn)),
            detector=SHORT.format(learn=max(LEAST_LEARN, short // LEARN_FROM), rows=short)
            if short and watch == "columns"
            else "",
            reference=OF_RUNS.format(rows=min(MOST_OF_RUN, int(OF_RUN * runs))) if runs else REFERENCE,
            between=SHORT_LIMIT if short and not written.daily else alone,
            many="; with many keys, state fewer" if alone < USUAL_LIMIT else "",
        ),
    )


def _rhythm(written: Written, daily: bool = True) -> str:
    """The lines of [drift] for days, and for kinds of days."""
    week = WEEK.format(written.week) if written.week else ""
    return DAILY + week if daily and (written.daily or week) else ""


def _slopes(guessed: Guess, watch: str | Sequence[str]) -> str:
    """The line of [drift] for levels that fall or rise all the time."""
    if not guessed.slopes or watch == "ls_error":
        return ""
    return SLOPES.format(", ".join(f"{quoted(name)} = {quoted(span)}" for name, span in guessed.slopes.items()))


def _learning(guessed: Guess, written: Written, watch: str | Sequence[str], daily: bool, learns: bool) -> str:
    """The lines of [drift] for what a list of watches learns; empty for one watch, and for a list that learns as usual."""
    if not learns:
        return ""
    day = result.cycle_of(guessed, watch) if written.daily and not daily else None
    return "{}  # {}\n".format(*learning(guessed, written)) + (OF_CYCLE.format(day) if day else "")


def learning(guessed: Guess, written: Written) -> tuple[str, str]:
    """The setting of the rows that a list of watches learns from, and why it is so."""
    rows, pause = LEARN + BLOCKS, 1.0 if windowed(guessed.rate) else guessed.pause  # a window a second
    when = f"row {rows + 1} of a key" + (f", {_span(rows * pause)}" if pause else "")
    if written.few:
        short = "the sample is short: 300 rows teach what is normal"
        return f"# learn = {LEARN}", f"{short}; {LEARN} find more small changes, none before {when}"
    return f"learn = {LEARN}", f"{LEARN} rows teach what is normal; no new level is found before {when}; {FEWER}"


def _labels(guessed: Guess) -> str:
    """The section for labels that come in records of their own; a quarter more than the sample needs."""
    if guessed.wait is None:
        return ""
    came = f"in the sample, labels came up to {_span(guessed.wait)} later" if guessed.wait else "how late labels may come"
    came = f"choose: {guessed.choose['wait']}" if "wait" in guessed.choose else came
    lines = [
        "[labels]  # late labels: records with the time and the label of an earlier sample, and no numbers",
        f'wait = "{_span(math.ceil(max(SPARE * guessed.wait, 1.0)), math.ceil)}"  # {came}',
    ]
    if not windowed(guessed.rate) and (most := math.ceil(SPARE * guessed.waiting)) > USUAL_WAITING:
        lines.append(f"most = {min(most, MOST_WAITING)}  # rows of a key that wait")
    return "\n".join(lines) + "\n\n"


def _window_of(starter: "Starter") -> str:
    lines = "[window]  # as in the population", 'length = "2s"', 'hop = "1s"', f"rate = {starter.rate:g}  # Hz{parts.FEWEST}"
    return "\n".join([*lines, 'statistics = "gravity"  # for a sensor in any orientation'])


def _sensors(guessed: Guess, trial: "Trial | None") -> str:
    """The lines of [alarms]: as tried on the sample, or as comments."""
    if trial is not None and trial.tried:
        return "".join(f"\n{one_line(line)}" for line in trial.sensors)
    lines = ["\n", "# [alarms]  # of sensors that stop; not tried"]
    lines.append("# stuck = true  # a column repeats one number")
    if guessed.pause and guessed.time is not None:
        lines.append(f'# silent = "{math.ceil(10 * guessed.pause)}s"  # no sample of a key for 10 usual pauses')
    return "\n".join(lines)


def _alone(guessed: Guess) -> int:
    """Rows from one false alarm of the only key to the next: people want to see more of one machine than of each of many."""
    if not guessed.pause:
        return USUAL_LIMIT
    return min(USUAL_LIMIT, max(ALONE_LIMIT, round(ALONE_SECONDS / guessed.pause)))


def name_of(text: str) -> str:
    """A name of a job or a topic, made of a file's.

    >>> name_of("Hall 3, pumps (Ä)")
    'Hall-3--pumps----'
    """
    letters = [letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text]
    return "".join(letters)[:100].strip(".") or USUAL_NAME


def _statistics(guessed: Guess) -> str:
    """The line of [window] for a population; gravity is that of an accelerometer in the first three fields."""
    fields = guessed.fields or [guessed.x or ""]
    names = [one.rpartition(".")[2] if guessed.narrow is None else one for one in fields[:3]]  # ax, or acc.x
    accelerates = len(guessed.fields) >= 3 and all(name.lower().startswith("a") for name in names)
    kind = "rich+gravity" if accelerates else "rich"
    also = "; gravity: the first three are acceleration" if accelerates else ""
    turned = TURNED if accelerates else ""
    line = f'{turned}\nstatistics = "{kind}"  # simple | rich | gravity | rich+gravity{also}'
    lines = parts.FEWEST + line + parts.convolutions(guessed)
    if (mirror := guessed.mirror) is None:
        return lines
    line = toml_line("mirror", {"field": mirror.field, "when": mirror.when, "columns": mirror.columns})
    return f"{lines}\n{line}  # a sensor on the {one_line(mirror.when)}, as if on the {one_line(mirror.other)}"


def _window(rate: float, windowed: bool, guessed: Guess) -> str:
    lines = ["[window]  # statistics of raw signals; without [window] each sample is a row"]
    why = f"; choose: {one_line(guessed.choose['rate'])}" if "rate" in guessed.choose else ""
    if "rate" in guessed.because:
        why = f": {one_line(guessed.because['rate'])}"
    second = 1.0
    if not windowed and guessed.rate is not None:
        second = float(f"{WINDOW_ROWS / 2 * (guessed.pause or 1 / rate):.2g}")  # a rate has two digits
    spans = f'length = "{_span(2 * second)}"', f'hop = "{_span(second)}"'
    lines += [*spans, f"rate = {rate:g}  # Hz, of the sensor{why}"]
    return "\n".join(lines if windowed else [f"# {line}" for line in lines])


def _span(seconds: float, to_whole: Callable[[float], int] = round) -> str:
    """A duration as settings have it, in its largest unit of which it has ten or more.

    >>> _span(2.0), _span(6000.0), _span(9100.0), _span(72_000.0)
    ('2s', '100m', '152m', '20h')
    """
    unit, of_unit = next(((name, one) for name, one in (("h", 3600), ("m", 60)) if seconds >= 10 * one), ("s", 1))
    return f"{to_whole(seconds / of_unit)}{unit}"


def _ahead(guessed: Guess, written: Written, dim: int) -> str:
    """The lines of [forecast]: as comments, unless the sample's keys and fields are few."""
    numbers = dim - sum(map(len, guessed.categories.values()))
    off = "" if 0 < written.keys * numbers * len(AHEAD) <= FORECASTS else "# "
    every, floored = "", ""
    if guessed.pause is not None and guessed.pause >= 1.0 and guessed.narrow is None:
        line = f'every = "{guessed.pause:.10g}s"'
        every = f"\n# {line}  # set it if rows have equal intervals: then gaps count as rows, and a season can be a day"
        if written.week and USUAL_SEASON[1] * guessed.pause >= 7 * DAY:
            every += '\n# season = "7d"  # a weekly rhythm; used from the third week on'
    if counts := [name for name in guessed.fields if name in guessed.counts]:
        floored = f"\n{off}not_negative = [{', '.join(map(quoted, counts))}]  # no interval goes below 0"
    why = "; off because of its size" if off else ""
    return FORECAST.format(off=off, why=why, ahead=[*AHEAD], every=every, floored=floored)


def _head(guessed: Guess) -> str:
    lines = ["[head]", 'name = "rls"', f'task = "{guessed.task}"  # classification | regression']
    if guessed.classes > USUAL_CLASSES:
        lines.append(f"max_classes = {guessed.classes}  # as many as in the sample")
    return "\n".join(lines)
