"""The job file that `init` writes: a commented template, filled with what was guessed from a recording."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streamjobs.settings.presets import preset_of
from streamjobs.settings.source import MOST_USUAL
from streamjobs.settings.times import example_of
from streamjobs.settings.toml import toml
from streamjobs.settings.types import UNIT_NAMES

if TYPE_CHECKING:
    from streamjobs.commands.recordings.learner_trial import Best
    from streamjobs.commands.recordings.trial import Trial
    from streamjobs.fit.starters import Starter
    from streamjobs.recordings.guess.result import Guess

USUAL_NAME = "job"  # of a job file, which says nothing about the job
USUAL_CLASSES = 16  # [head] max_classes without the setting
WINDOW_ROWS = 20  # of a proposed window, where samples are rows of their own
MOST_LEFT_OUT = 40  # columns that are listed with the reason why they are not part of x
SLOW = 1.0  # seconds between two samples of a key
_NO_CONTROLS = {code: "?" for code in (*range(32), 127, 0x85, 0x2028, 0x2029)}  # of a text that stays in one line


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
    daily: bool = False  # a number has a daily cycle
    alone: bool = False  # the sample has one key
    best: "Best | None" = None  # learner of a number, on the sample
    registry: str | None = None  # address of the registry with the records' schemas


TEMPLATE = """\
# A streamjobs job: records of a Kafka topic in; one learner per key; features, predictions and drift out.
# 'streamjobs check {file}' lists all mistakes, 'streamjobs schema' describes every setting.
# Any setting can come from the environment: STREAMJOBS_BROKER__URL=kafka://broker:9092

[job]
name = "{name}"  # consumer group, and prefix of the state's topic

[broker]
url = {broker}

[source]
topic = {topic}  # records are keyed by person, device or machine{key}
format = "{format}"  # json | msgpack | raw | avro | protobuf
{preset}{x}
{time}
{label}
{missing}late = "learn"  # learn | predict_only | drop | dlq; of samples with a time
{left_out}{registry}
{window}

{model}

[sinks]  # absent: <topic>.predictions, .alarms, .dlq; "" turns one off (never dlq)
# 'streamjobs schema JOB --outputs' describes the records
# features = {features}  # costs most of what a worker writes; off unless named
# scores = true  # predictions with the scores of all classes

[state]
directory = "state"
{checkpoint}
# start_from = "pooled.state"  # new keys start from it; written by 'streamjobs replay --pool --export'

[metrics]
port = 9108  # /metrics and /health on 127.0.0.1
"""

REGISTRY = """
[registry]
url = {url}  # of the records' schemas; credentials are settings too, 'streamjobs schema' describes them
"""
OF_KEYS = """\
[scaling]
method = "standard"  # running mean and variance of every key
clip = 5.0  # a single outlier does not move the model

{learner}

[drift]
{tried}watch = {watch}  # columns | innovations | rows | ls_error | loss: numbers of a row, what a forecast missed, errors
{detector}false_alarms = "1 per {between} rows"  # most that a key may have while nothing changes{many}{per_time}
# reference = "first 2h"  # normal permanently, such as for a machine; absent: a change that lasts becomes normal{after}"""

OF_KERNEL = """\
[learner]
name = "okfeb"  # a subspace of the kernel's feature space, followed on a budget
role = "{role}"  # head: stops changing, so that a head can learn on it | track: keeps following, for features and drift
rank = {rank}
budget = {budget}  # most samples that a key stores
kernel = {{ name = "gaussian", bandwidth = {bandwidth} }}  # about the square root of the number of features

{head}"""

OF_BEST = """\
# {line}
{section}  # 'streamjobs compare' tries others on your recordings"""

OF_PEOPLE = """
# reference = "population"  # people who change what they do: alarms at once, with a [population] of 'streamjobs fit'"""
SHORT = """\
# The sample has {rows} rows of a key. With thousands, remove detector and watch ["columns", "innovations", "rows"]
detector = {{ name = "column_chart", learn = {learn}, smoothing = 0.5, shares = true }}  # alarms after {learn} + 128 rows
"""
LEAST_LEARN, LEARN_FROM = 60, 4  # rows, or this part of a key's, that teach the scale; chosen on fleets of seeds 1 to 3
USUAL_LIMIT, SHORT_LIMIT = 10_000, 50_000  # rows from one false alarm to the next; of keys without days, which are many
# Of one slow key, at least, where that is one false alarm in so many seconds; chosen on series of seeds 0 to 4
ALONE_LIMIT, ALONE_SECONDS = 3_000, 10 * 86_400
AHEAD = """

# [forecast]  # each number some rows ahead, with intervals; 'streamjobs tune' prints what that is worth on a recording
# ahead = [1, 12]{every}
# cautious = true  # start at the last value"""


def job_file_text(
    guessed: "Guess | None", file: Path, written: Written, trial: "Trial | None" = None, starter: "Starter | None" = None
) -> str:
    """The template, filled with what was guessed from a sample, or with an accelerometer's columns as an example."""
    from streamjobs.commands.recordings.population_template import DIRECTIONS, OF_POPULATION, OF_STARTER, convolutions
    from streamjobs.recordings import survey

    dim, x = _x(guessed)
    rate = guessed.rate if guessed is not None else None
    windowed = guessed is None or survey.windowed(guessed)
    width = 8 * dim if windowed else dim
    labelled = guessed is None or guessed.label is not None
    rank = max(2, min(20, width))
    short = written.rows if not (windowed or labelled) else 0
    watch: str | Sequence[str] = "columns" if windowed or labelled or short else ["columns", "innovations", "rows"]
    alone = _alone(guessed) if written.alone and watch != "columns" else USUAL_LIMIT
    watch = trial.tried[-1].watch if trial is not None and trial.tried else watch
    taught = guessed if survey.teaches(guessed) else None
    stem = written.name if file.stem == USUAL_NAME else file.stem
    return TEMPLATE.format(
        file=one_line(file.name),
        name=name_of(stem),
        broker=_quoted(written.broker),
        topic=_quoted(written.topic),
        features=_quoted(f"{written.topic}.features"),
        format=written.format,
        key=_key(guessed, written.partitions),
        preset=_preset(guessed),
        x=x,
        time=_time(guessed, written.time_zone),
        label=_label(guessed),
        checkpoint=_checkpoint(trial),
        missing=_missing(guessed, written.missing) + _most(guessed) + _linger(guessed),
        left_out=_left_out(guessed),
        registry="" if written.registry is None else REGISTRY.format(url=_quoted(written.registry)),
        window=_window_of(starter)
        if starter is not None
        else _window(rate or 50.0, windowed, guessed) + ("" if taught is None else _statistics(taught)),
        model=OF_STARTER.format(made_from=starter.made_from, file=_quoted(f"{starter.name}.state"))
        if starter is not None
        else OF_POPULATION.format(count=taught.people, directions=DIRECTIONS if convolutions(taught) else "")
        if taught is not None
        else OF_KEYS.format(
            after=(OF_PEOPLE if windowed else "") if labelled else _sensors(trial) + ("" if windowed else _ahead(guessed)),
            per_time='; or by time, such as "1/day"' if windowed else "",
            learner=OF_BEST.format(line=one_line(best.line), section=toml({"learner": dict(best.section)}).rstrip())
            if (best := written.best) is not None
            else OF_KERNEL.format(
                role="head" if labelled else "track",
                rank=rank,
                budget=rank + max(5, rank // 2),
                bandwidth=round(width**0.5, 1),
                head=_head(guessed) if labelled else '# [head]\n# name = "rls"  # learns labels on the features',
            ),
            tried="".join(f"# {one_line(line)}\n" for line in trial.lines()) if trial is not None else "",
            watch=json.dumps(watch),
            detector=SHORT.format(learn=max(LEAST_LEARN, short // LEARN_FROM), rows=short)
            if short and watch == "columns"
            else "",
            between=SHORT_LIMIT if short and not written.daily else alone,
            many="; with many keys, state fewer" if alone < USUAL_LIMIT else "",
        ),
    )


def _window_of(starter: "Starter") -> str:
    lines = "[window]  # as in the population", 'length = "2s"', 'hop = "1s"', f"rate = {starter.rate:g}  # Hz"
    return "\n".join([*lines, 'statistics = "gravity"  # for a sensor mounted any way round'])


def _sensors(trial: "Trial | None") -> str:
    return "".join(f"\n{one_line(line)}" for line in trial.sensors) if trial is not None else ""


def _alone(guessed: "Guess | None") -> int:
    """Rows from one false alarm of the only key to the next: people want to see more of one machine than of each of many."""
    if guessed is None or not guessed.pause:
        return USUAL_LIMIT
    return min(USUAL_LIMIT, max(ALONE_LIMIT, round(ALONE_SECONDS / guessed.pause)))


def _checkpoint(trial: "Trial | None") -> str:
    """With `silent` each checkpoint writes all changed states, so it comes less often."""
    if trial is not None and any(line.startswith("silent") for line in trial.sensors):
        return 'checkpoint = "10s"  # a crash repeats at most this much input; with silent each writes all changed states'
    return 'checkpoint = "1s"  # a crash repeats at most this much input'


def name_of(text: str) -> str:
    """A name of a job or a topic, made of a file's.

    >>> name_of("Hall 3, pumps (Ä)")
    'Hall-3--pumps----'
    """
    letters = [letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text]
    return "".join(letters)[:100].strip(".") or USUAL_NAME


def _statistics(guessed: "Guess") -> str:
    """The line of [window] for a population; gravity is that of an accelerometer in the first three fields."""
    from streamjobs.commands.recordings.population_template import convolutions

    fields = guessed.fields or [guessed.x or ""]
    accelerates = len(guessed.fields) >= 3 and all(one.rpartition(".")[2].lower().startswith("a") for one in fields[:3])
    kind = "rich+gravity" if accelerates else "rich"
    also = "; gravity: the first three are acceleration" if accelerates else ""
    line = f'\nstatistics = "{kind}"  # simple | rich | gravity | rich+gravity{also}'
    return line + convolutions(guessed) + _mirror(guessed)


def _mirror(guessed: "Guess") -> str:
    """The line of [window] for a sensor that is worn on either side of the body."""
    if (mirror := guessed.mirror) is None:
        return ""
    table = toml({"window": {"mirror": {"field": mirror.field, "when": mirror.when, "columns": mirror.columns}}})
    return f"\n{table.splitlines()[1]}  # a sensor on the {one_line(mirror.when)}, as if on the {one_line(mirror.other)}"


def _preset(guessed: "Guess | None") -> str:
    if guessed is None or guessed.preset is None:
        return ""
    notes = "".join(f"# {one_line(note)}\n" for note in guessed.preset.notes)
    return f"preset = {_quoted(guessed.preset.name)}  # {guessed.preset.tool}\n{notes}"


def _missing(guessed: "Guess | None", policy: str | None) -> str:
    if policy is None:
        return ""
    why = f"; {guessed.lacking:,} of {guessed.rows:,} rows lack a number" if guessed is not None and guessed.lacking else ""
    return f'missing = "{policy}"  # dlq | skip | hold | mean{why}\n'


def _most(guessed: "Guess | None") -> str:
    """A line where the sample has numbers beyond the usual limit, which would make dead letters."""
    if guessed is None or not guessed.largest > MOST_USUAL:
        return ""
    limit = 10.0 ** (math.ceil(math.log10(guessed.largest)) + 2)
    return f"max_abs = {limit:g}  # numbers beyond it are errors; the sample has some up to {guessed.largest:.3g}\n"


def _linger(guessed: "Guess | None") -> str:
    """A line where keys are so slow that a tenth of a second is nothing to them."""
    if guessed is None or guessed.key is None or guessed.pause is None or guessed.pause < SLOW:
        return ""
    why = f"a key sends every {guessed.pause:g} s: records of many keys may wait for each other, which saves processor"
    return f'linger = "100ms"  # {why}\n'


def _x(guessed: "Guess | None") -> tuple[int, str]:
    """Numbers of x, and the lines that name them; commented out where the user has to choose."""
    fields = guessed.fields if guessed is not None else ["ax", "ay", "az"]
    listed = "fields = [" + ", ".join(map(_quoted, fields)) + "]"
    if guessed is not None and "fields" in guessed.choose:
        return len(fields) or 3, f"# {listed}  # choose: {one_line(guessed.choose['fields'])}"
    if guessed is not None and guessed.x is not None:
        assert guessed.dim is not None
        return guessed.dim, f"x = {_quoted(guessed.x)}  # the field that holds x as a list\ndim = {guessed.dim}"
    why = "the numbers that make x, in this order"
    if guessed is not None and guessed.preset is not None and "sensors" in guessed.preset.source:
        if (sensors := guessed.preset.source["sensors"]) != preset_of(guessed.preset.name).source["sensors"]:
            return len(fields), toml({"source": {"sensors": sensors}}).splitlines()[1]
        each = ", ".join(guessed.preset.source["sensors"]["each"])
        return len(fields), f"# [source.sensors]: {each}, as the preset sets them: {', '.join(fields)}"
    if guessed is not None and guessed.preset is not None and fields == guessed.preset.source["fields"]:
        return len(fields), f"# {listed}  # as the preset sets them"
    if guessed is not None:
        why += f": {one_line(guessed.because['fields'])}"
    return len(fields), f"{listed}  # {why}"


def _key(guessed: "Guess | None", partitions: int) -> str:
    """The lines after the topic. partitions: of a topic with records without keys, else 0."""
    if guessed is None:
        return ""
    if partitions and guessed.key is not None:
        why = f"the topic's records have no keys; {one_line(guessed.because['key'])}"
        copied = "\nrekeyed = true  # 'streamjobs rekey' copies the topic's partitions by this key" if partitions > 1 else ""
        return f"\nkey = {_quoted(guessed.key)}  # {why}{copied}"
    if guessed.key is not None:
        return f"; in the sample: column {_quoted(guessed.key)} ({one_line(guessed.because['key'])})"
    if guessed.key_from is not None:
        return f"; in the sample: the name of the file, with --key-from {guessed.key_from}"
    if "key" not in guessed.choose:
        return ""
    return f"\n# key: choose the column to send as the key of records: {one_line(guessed.choose['key'])}"


def _time(guessed: "Guess | None", zone: str | None) -> str:
    why = f": {one_line(guessed.because['time'])}" if guessed is not None and "time" in guessed.because else ""
    if guessed is not None and guessed.preset is not None and guessed.time == guessed.preset.source["time"]:
        return f"# time = {_quoted(guessed.time or '')}  # event time, as the preset sets it"
    if guessed is not None and guessed.written:
        line = f"time = {_quoted(guessed.time or '')}  # event time{'' if guessed.time_format else ', ISO 8601'}{why}"
        if (form := guessed.time_format) is not None:
            open_ = f"choose: {one_line(guessed.choose['time_format'])}" if "time_format" in guessed.choose else ""
            line += f"\n{'# ' if open_ else ''}time_format = {_quoted(form)}  # {open_ or 'such as ' + example_of(form)}"
        if zone is not None:
            line += f"\ntime_zone = {_quoted(zone)}  # of times without a zone"
        elif "time_zone" in guessed.choose:
            line += f'\n# time_zone = "UTC"  # choose: {one_line(guessed.choose["time_zone"])}'
        return line
    if guessed is None or guessed.time is not None:
        time, unit = (guessed.time, guessed.time_unit) if guessed is not None else ("ts", "s")
        return f'time = {_quoted(time or "ts")}  # event time{why}\ntime_unit = "{unit}"  # {UNIT_NAMES[unit]} since 1970'
    line = f'# time = "ts"  # choose: {one_line(guessed.choose["time"])}'
    if guessed.start_time is not None and guessed.time_unit != "s":
        line += f'\ntime_unit = "{guessed.time_unit}"  # of {_quoted(guessed.start_time)}, for replay --time'
    return line


def _label(guessed: "Guess | None") -> str:
    if guessed is None or guessed.label is not None:
        label = guessed.label if guessed is not None and guessed.label is not None else "activity"
        why = f": {one_line(guessed.because['label'])}" if guessed is not None else ""
        return f"label = {_quoted(label)}  # may be absent or null in a record{why}"
    return f'# label = "activity"  # needed by a [head]; choose: {one_line(guessed.choose["label"])}'


def _left_out(guessed: "Guess | None") -> str:
    """Comments with the columns that are not part of x, and what else should be known."""
    if guessed is None:
        return ""
    lines = [one_line(remark) for remark in guessed.remarks]
    if guessed.left_out:
        lines.append("left out of x:")
        lines += [f"  {_quoted(name)}: {one_line(why)}" for name, why in list(guessed.left_out.items())[:MOST_LEFT_OUT]]
        if len(guessed.left_out) > MOST_LEFT_OUT:
            lines.append(f"  and {len(guessed.left_out) - MOST_LEFT_OUT} more")
    return "".join(f"# {line}\n" for line in lines)


def _window(rate: float, windowed: bool, guessed: "Guess | None") -> str:
    lines = ["[window]  # statistics of raw signals; without it every sample is a row of its own"]
    why = f"; choose: {one_line(guessed.choose['rate'])}" if guessed is not None and "rate" in guessed.choose else ""
    if guessed is not None and "rate" in guessed.because:
        why = f": {one_line(guessed.because['rate'])}"
    second = 1.0
    if not windowed and guessed is not None and guessed.rate is not None:
        second = float(f"{WINDOW_ROWS / 2 * (guessed.pause or 1 / rate):.2g}")  # a rate has two digits
    spans = f'length = "{_span(2 * second)}"', f'hop = "{_span(second)}"'
    lines += [*spans, f"rate = {rate:g}  # Hz, of the sensor{why}"]
    return "\n".join(lines if windowed else [f"# {line}" for line in lines])


def _span(seconds: float) -> str:
    """A duration as [window] has it, in its largest unit of which it has ten or more.

    >>> _span(2.0), _span(6000.0), _span(9100.0), _span(72_000.0)
    ('2s', '100m', '152m', '20h')
    """
    unit, of_unit = next(((name, one) for name, one in (("h", 3600), ("m", 60)) if seconds >= 10 * one), ("s", 1))
    return f"{round(seconds / of_unit)}{unit}"


def _ahead(guessed: "Guess | None") -> str:
    lines = ""
    if guessed is not None and guessed.pause is not None and guessed.pause >= 1.0:
        every = f'every = "{guessed.pause:.10g}s"'
        lines = f"\n# {every}  # where the pause between two rows is always the same: for gaps, and for days"
    if counts := [name for name in guessed.fields if name in guessed.counts] if guessed is not None else []:
        lines += f"\n# not_negative = [{', '.join(map(_quoted, counts))}]  # no interval goes below 0"
    return AHEAD.format(every=lines)


def _head(guessed: "Guess | None") -> str:
    task = guessed.task if guessed is not None else "classification"
    lines = ["[head]", 'name = "rls"', f'task = "{task}"  # classification | regression']
    if guessed is not None and guessed.classes > USUAL_CLASSES:
        lines.append(f"max_classes = {guessed.classes}  # as many as in the sample")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one character TOML does not take from JSON


def one_line(text: str) -> str:
    """Text that stays in its line."""
    return text.translate(_NO_CONTROLS)
