"""`init`: writes a commented job file to start from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamjobs.commands.console import note, say

if TYPE_CHECKING:
    from streamjobs.recordings.guess import Guess

TEMPLATE = """\
# A streamjobs job: records of a Kafka topic in; one learner per key; features, predictions and drift out.
# 'streamjobs check {file}' lists all mistakes, 'streamjobs schema' describes every setting.
# Any setting can come from the environment: STREAMJOBS_BROKER__URL=kafka://broker:9092

[job]
name = "{name}"  # consumer group, and prefix of the state's topic

[broker]
url = "kafka://localhost:9092"

[source]
topic = "{topic}"  # records are keyed by person, device or machine{key}
format = "json"  # json | msgpack | raw
{x}
{time}
{label}
late = "learn"  # learn | predict_only | drop | dlq

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
detector = "page_hinkley"
watch = "ls_error"  # ls_error | loss

# [sinks]  # absent: <topic>.features, .predictions, .drift, .dlq; "" turns one off (never dlq)
# features = ""

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
    """Write a commented job file for your own data."""
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
    if guessed is not None:
        note(_guess_text(guessed))
    key = guessed.key if guessed is not None and guessed.key else "KEY_COLUMN"
    recording = str(sample) if sample is not None else "recording.csv"
    say(f"wrote {file}. Next: streamjobs check {file}; streamjobs replay {file} --input {recording} --key {key}")


def filled(guessed: "Guess | None", file: Path, topic: str) -> str:
    """The template, filled with what was guessed from a sample, or with an accelerometer's columns as an example."""
    fields = guessed.fields if guessed is not None else ["ax", "ay", "az"]
    if fields:
        x = "fields = [" + ", ".join(_quoted(name) for name in fields) + "]  # the numbers that make x, in this order"
        dim = len(fields)
    else:
        dim = (guessed.dim if guessed is not None else None) or 3
        x = f"x = {_quoted(guessed.x if guessed is not None else 'x')}  # the field that holds x as a list\ndim = {dim}"
    rate = guessed.rate if guessed is not None else None
    timed = guessed is None or guessed.time is not None
    # At lower rates rows are whole events, and windows would mix them.
    windowed = guessed is None or (rate is not None and rate >= 5)
    width = 8 * dim if windowed else dim
    labelled = guessed is None or guessed.label is not None
    rank = max(2, min(20, width))
    return TEMPLATE.format(
        file=file.name,
        name="".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in file.stem) or "job",
        topic=topic,
        key=f"; in the sample: column {guessed.key}" if guessed is not None and guessed.key else "",
        x=x,
        time=f"time = {_quoted(guessed.time if guessed is not None and guessed.time else 'ts')}  # event time\n"
        f'time_unit = "{guessed.time_unit if guessed is not None else "s"}"  # since 1970'
        if timed
        else '# time = "ts"  # event time; absent: the records\' own timestamps',
        label=f"label = {_quoted(guessed.label if guessed is not None and guessed.label else 'activity')}"
        "  # may be absent or null in a record"
        if labelled
        else '# label = "activity"  # needed by a [head]; may be absent or null in a record',
        window=_window(rate or 50.0, windowed),
        clip="clip = 5.0  # a single outlier does not move the model",
        role="head" if labelled else "track",
        rank=rank,
        budget=rank + max(5, rank // 2),
        bandwidth=round(width**0.5, 1),
        head='[head]\nname = "rls"\ntask = "classification"  # classification | regression'
        if labelled
        else '# [head]\n# name = "rls"  # learns labels on the features',
    )


def _window(rate: float, windowed: bool) -> str:
    lines = ["[window]  # statistics of raw signals; without it every sample is a row of its own"]
    lines += ['length = "2s"', 'hop = "1s"', f"rate = {rate:g}  # Hz, of the sensor"]
    return "\n".join(lines if windowed else [f"# {line}" for line in lines])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _guess_text(guessed: "Guess") -> str:
    what = f"fields {', '.join(guessed.fields)}" if guessed.fields else f"x = {guessed.x} (list of {guessed.dim})"
    rest = [
        f"{name} {value}"
        for name, value in (("key", guessed.key), ("time", guessed.time), ("label", guessed.label))
        if value
    ]
    rate = [f"{guessed.rate:g} Hz"] if guessed.rate else []
    return "guessed from the sample: " + "; ".join([what, *rest, *rate]) + ". Check it in the file."
