"""`init`: writes a commented job file to start from."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamjobs.commands.console import note, say
from streamjobs.settings.types import UNIT_NAMES

if TYPE_CHECKING:
    from streamjobs.recordings.guess import Guess

USUAL_CLASSES = 16  # [head] max_classes without the setting
NO_CONTROLS = {code: "?" for code in (*range(32), 127, 0x85, 0x2028, 0x2029)}  # of a text that stays in one line
MOST_LEFT_OUT = 40  # columns that are listed with the reason why they are no part of x

TEMPLATE = """\
# A streamjobs job: records of a Kafka topic in; one learner per key; features, predictions and drift out.
# 'streamjobs check {file}' lists all mistakes, 'streamjobs schema' describes every setting.
# Any setting can come from the environment: STREAMJOBS_BROKER__URL=kafka://broker:9092

[job]
name = "{name}"  # consumer group, and prefix of the state's topic

[broker]
url = "kafka://localhost:9092"

[source]
topic = {topic}  # records are keyed by person, device or machine{key}
format = "json"  # json | msgpack | raw
{x}
{time}
{label}
late = "learn"  # learn | predict_only | drop | dlq; of samples with a time
{left_out}
{window}

[scaling]
method = "standard"  # running mean and variance of every key
{clip}

[learner]
name = "okfeb"  # a subspace of the kernel's feature space, followed on a budget
role = "{role}"  # head: stops changing, so that a head can learn on it | track: keeps following, for features and drift
rank = {rank}
budget = {budget}  # most samples that a key stores
kernel = {{ name = "gaussian", bandwidth = {bandwidth} }}  # about the square root of the number of features

{head}

[drift]
watch = "columns"  # columns | ls_error | loss; the numbers of a row as they come, or an error of the learner
false_alarms = "1 per 10000 rows"  # most that a key may have while nothing changes{per_time}

[sinks]  # absent: <topic>.predictions, .alarms, .dlq; "" turns one off (never dlq)
version = 2  # of the records: one type a field; 'streamjobs schema JOB --outputs' describes them
# features = {features}  # costs most of what a worker writes; off unless named
# scores = true  # predictions with the scores of all classes

[state]
directory = "state"
checkpoint = "1s"  # a crash repeats at most this much input
# start_from = "population.state"  # new keys start from it; written by 'streamjobs replay --pool --export'

[metrics]
port = 9108  # /metrics and /health on 127.0.0.1
"""


def add_to(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    file: Annotated[Path, typer.Argument(help="The job file to write.")] = Path("job.toml"),
    sample: Annotated[
        Path | None, typer.Option(help="A recording (.jsonl, .csv, .parquet, .npz) to guess fields, times and labels from.")
    ] = None,
    topic: Annotated[str, typer.Option(help="The input topic.")] = "imu",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented job file for your own data.

    What cannot be told from the sample is a line marked 'choose', with the candidates.
    """
    from streamjobs.errors import ConfigError

    if file.exists() and not force:
        raise ConfigError(f"{file}: already exists; --force overwrites it.")
    if sample is not None:
        from streamjobs.recordings.guess import guess

        guessed = guess(sample)
    else:
        guessed = None
    try:
        file.write_text(filled(guessed, file, topic), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror}).") from None
    for line in _said(guessed) if guessed is not None else ():
        note(line)
    say(_next(guessed, file, sample))


def _next(guessed: "Guess | None", file: Path, sample: Path | None) -> str:
    replay = ["streamjobs", "replay", str(file), "--input", str(sample) if sample is not None else "recording.csv"]
    replay += ["--key", guessed.key if guessed is not None and guessed.key else "KEY_COLUMN"]
    if guessed is not None and guessed.start_time is not None and guessed.rate is not None:
        replay += ["--time", guessed.start_time]
    first = "Next"
    if guessed is not None and "fields" in guessed.choose:
        first = "[source] still needs fields, or x and dim: look for 'choose' in it. Then"
    return f"wrote {file}. {first}: streamjobs check {shlex.quote(str(file))}; {shlex.join(replay)}"


def filled(guessed: "Guess | None", file: Path, topic: str) -> str:
    """The template, filled with what was guessed from a sample, or with an accelerometer's columns as an example."""
    dim, x = _x(guessed)
    rate = guessed.rate if guessed is not None else None
    # At lower rates rows are whole events, and windows would mix them.
    windowed = guessed is None or (rate is not None and rate >= 5)
    width = 8 * dim if windowed else dim
    labelled = guessed is None or guessed.label is not None
    rank = max(2, min(20, width))
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in file.stem)
    return TEMPLATE.format(
        file=file.name.translate(NO_CONTROLS),
        name=name[:100].strip(".") or "job",
        topic=_quoted(topic),
        features=_quoted(f"{topic}.features"),
        key=_key_comment(guessed),
        x=x,
        time=_time(guessed),
        label=_label(guessed),
        left_out=_left_out(guessed),
        window=_window(rate or 50.0, windowed, guessed),
        per_time='; or by time, such as "1/day"' if windowed else "",
        clip="clip = 5.0  # a single outlier does not move the model",
        role="head" if labelled else "track",
        rank=rank,
        budget=rank + max(5, rank // 2),
        bandwidth=round(width**0.5, 1),
        head=_head(guessed) if labelled else '# [head]\n# name = "rls"  # learns labels on the features',
    )


def _x(guessed: "Guess | None") -> tuple[int, str]:
    """Numbers of x, and the lines that name them; commented out where the user has to choose."""
    fields = guessed.fields if guessed is not None else ["ax", "ay", "az"]
    listed = "fields = [" + ", ".join(map(_quoted, fields)) + "]"
    if guessed is not None and "fields" in guessed.choose:
        return len(fields) or 3, f"# {listed}  # choose: {_comment(guessed.choose['fields'])}"
    if guessed is not None and guessed.x is not None:
        assert guessed.dim is not None
        return guessed.dim, f"x = {_quoted(guessed.x)}  # the field that holds x as a list\ndim = {guessed.dim}"
    return len(fields), f"{listed}  # the numbers that make x, in this order"


def _key_comment(guessed: "Guess | None") -> str:
    if guessed is None:
        return ""
    if guessed.key is not None:
        return f"; in the sample: column {_quoted(guessed.key)}"
    return f"\n# key: choose the column to send as the key of records: {_comment(guessed.choose['key'])}"


def _time(guessed: "Guess | None") -> str:
    if guessed is not None and guessed.written:
        line = f"time = {_quoted(guessed.time or '')}  # event time, ISO 8601"
        if "time_zone" in guessed.choose:
            line += f'\n# time_zone = "UTC"  # choose: {_comment(guessed.choose["time_zone"])}'
        return line
    if guessed is None or guessed.time is not None:
        time, unit = (guessed.time, guessed.time_unit) if guessed is not None else ("ts", "s")
        return f'time = {_quoted(time or "ts")}  # event time\ntime_unit = "{unit}"  # {UNIT_NAMES[unit]} since 1970'
    line = f'# time = "ts"  # choose: {_comment(guessed.choose["time"])}'
    if guessed.start_time is not None and guessed.time_unit != "s":
        line += f'\ntime_unit = "{guessed.time_unit}"  # of {_quoted(guessed.start_time)}, for replay --time'
    return line


def _label(guessed: "Guess | None") -> str:
    if guessed is None or guessed.label is not None:
        label = guessed.label if guessed is not None and guessed.label is not None else "activity"
        return f"label = {_quoted(label)}  # may be absent or null in a record"
    return f'# label = "activity"  # needed by a [head]; choose: {_comment(guessed.choose["label"])}'


def _left_out(guessed: "Guess | None") -> str:
    """Comments with the columns that are no part of x, and what else should be known."""
    if guessed is None:
        return ""
    lines = [_comment(remark) for remark in guessed.remarks]
    if guessed.left_out:
        lines.append("left out of x:")
        lines += [f"  {_quoted(name)}: {_comment(why)}" for name, why in list(guessed.left_out.items())[:MOST_LEFT_OUT]]
        if len(guessed.left_out) > MOST_LEFT_OUT:
            lines.append(f"  and {len(guessed.left_out) - MOST_LEFT_OUT} more")
    return "".join(f"# {line}\n" for line in lines)


def _window(rate: float, windowed: bool, guessed: "Guess | None") -> str:
    lines = ["[window]  # statistics of raw signals; without it every sample is a row of its own"]
    why = f"; choose: {_comment(guessed.choose['rate'])}" if guessed is not None and "rate" in guessed.choose else ""
    lines += ['length = "2s"', 'hop = "1s"', f"rate = {rate:g}  # Hz, of the sensor{why}"]
    return "\n".join(lines if windowed else [f"# {line}" for line in lines])


def _head(guessed: "Guess | None") -> str:
    task = guessed.task if guessed is not None else "classification"
    lines = ["[head]", 'name = "rls"', f'task = "{task}"  # classification | regression']
    if guessed is not None and guessed.classes > USUAL_CLASSES:
        lines.append(f"max_classes = {guessed.classes}  # as many as in the sample")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one character TOML does not take from JSON


def _comment(text: str) -> str:
    """Text that stays in its line."""
    return text.translate(NO_CONTROLS)


def _said(guessed: "Guess") -> Iterator[str]:
    """The guess for people, a line for each thing they should look at."""
    found = []
    if "fields" not in guessed.choose:
        found.append(f"x = {guessed.x} (list of {guessed.dim})" if guessed.x else f"fields {', '.join(guessed.fields)}")
    found += [f"key {guessed.key}"] if guessed.key else []
    unit = "ISO 8601" if guessed.written else f"{UNIT_NAMES[guessed.time_unit]} since 1970"
    found += [f"time {guessed.time} ({unit})"] if guessed.time else []
    found += [f"label {guessed.label} ({guessed.task})"] if guessed.label else []
    found += [f"{guessed.rate:g} Hz"] if guessed.rate else []
    if found:
        yield _comment(f"guessed from {guessed.rows:,} rows: {'; '.join(found)}. Check it in the file.")
    for what, why in guessed.choose.items():
        yield _comment(f"not guessed, choose: {what}: {why}")
    for remark in guessed.remarks:
        yield _comment(remark)
    for name, why in list(guessed.left_out.items())[:MOST_LEFT_OUT]:
        yield _comment(f"left out of x: {name}: {why}")
    if len(guessed.left_out) > MOST_LEFT_OUT:
        yield f"left out of x: {len(guessed.left_out) - MOST_LEFT_OUT} more"
