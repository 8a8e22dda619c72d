"""What to type after `init`."""

import shlex
from datetime import UTC, datetime
from pathlib import Path

from streamjobs.recordings import survey
from streamjobs.recordings.guess.result import Guess
from streamjobs.recordings.places import Place

NEEDED = {  # what a job cannot do without, if it was not guessed
    "fields": "[source] still needs fields, or x and dim",
    "time_format": "[source] still needs time_format",
    "time_zone": "[source] still needs time_zone",
    "wait": "[labels] still needs wait",
}


def what_next(
    guessed: Guess,
    file: Path,
    sample: Path | None,
    from_topic: bool,
    *,
    copied: bool = False,
    starter: bool = False,
) -> str:
    """The lines that end `init`: what to type on the sample, and then with a broker.

    from_topic: the sample is of a topic; copied: 'rekey' comes first; starter: the job has a population already, with
    which `replay` scores labels.
    """
    if guessed.preset is not None and "sensors" in guessed.preset.source:
        name = shlex.quote(str(file))
        return f"wrote {file}. Next: streamjobs check {name}; streamjobs topics create {name}; streamjobs run {name}"
    taught = survey.teaches(guessed)
    replay = [
        "streamjobs",
        "fit" if taught else "replay",
        str(file),
        "--input",
        str(sample) if sample is not None else "recording.csv",
    ]
    if from_topic:
        replay[-1] = "topic"  # its records have keys
    elif guessed.key is None and guessed.preset is not None and guessed.preset.export is not None:
        replay += ["--key-from", "file"]
    else:
        replay += _key_words(guessed, sample)
    if not from_topic and guessed.start_time is not None and guessed.rate is not None:
        replay += ["--time", guessed.start_time]
    first = "Next"
    if needed := next((NEEDED[what] for what in NEEDED if what in guessed.choose), None):
        first = f"{needed}: look for 'choose' in it. Then"
    if copied:
        first += f": streamjobs rekey {shlex.quote(str(file))} --once; then"
    more = ""
    if starter:
        more = " --score" if guessed.label is not None and sample is not None else ""
    elif not taught and not from_topic and guessed.rows and guessed.label is not None and guessed.time is not None:
        words = replay[2 : replay.index("--key-is")] if "--key-is" in replay else replay[2:]  # the file's name by itself
        more = f"; {shlex.join(['streamjobs', 'compare', *words, '--learners', 'job,rls,krls'])}"
    check = "" if taught else f"streamjobs check {shlex.quote(str(file))}; "  # which would miss the population's file
    name = shlex.quote(str(file))
    said = f"wrote {file}. {first}: {check}{shlex.join(replay)}{more}"
    if taught:  # `fit` says what follows
        return said
    if from_topic:
        return f"{said}; streamjobs topics create {name}; streamjobs run {name}"
    words = replay[4:]
    if "--time" in words and sample is not None:  # counts from 0, which no topic takes
        words += ["--start", datetime.fromtimestamp(sample.stat().st_mtime, UTC).date().isoformat()]
    produce = shlex.join(["streamjobs", "produce", str(file), *words])
    broker = "then on a broker, yours or that of 'streamjobs broker start'"
    return f"{said}\n{broker}: streamjobs topics create {name}; {produce}; streamjobs run {name}"


def _key_words(guessed: Guess, sample: Path | None) -> list[str]:
    """The column with the key of the rows, or a candidate for it; a recording without any is of one device.

    It has the recording's name, as with --key-from file.
    """
    from streamjobs.recordings.guess.result import key_to_try

    if (key := key_to_try(guessed)) is not None:
        return ["--key", key]
    if guessed.key_from is not None:
        return ["--key-from", guessed.key_from]
    if "key" not in guessed.choose or sample is None:
        return ["--key", "KEY_COLUMN"]
    return ["--key-is", Place(sample, None, (sample.resolve().name,)).stem]
