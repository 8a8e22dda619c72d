"""Parts of the job file that `init` writes: the `[source]` section, and those of a population.

What the latter set was measured in `python -m papers activity_choice`, and on the same sets with 200 directions.
"""

import math
from collections.abc import Iterator

from streamjobs.recordings import survey
from streamjobs.recordings.guess.result import Guess, windowed
from streamjobs.recordings.guess.rows import STEADY_APART
from streamjobs.settings.presets import preset_of
from streamjobs.settings.source import PERIODS
from streamjobs.settings.times import example_of
from streamjobs.settings.types import UNIT_NAMES, quoted, toml_line
from streamjobs.stages.statistics import CONVOLVED

MOST_LEFT_OUT = 40  # columns that are listed with the reason why they are not part of x
SLOW = 1.0  # seconds between two samples of a key; a fifth of the pause later is nothing
MOST_LINGER = 1000.0  # milliseconds, the largest [source] linger
_NO_CONTROLS = {code: "?" for code in (*range(32), 127, 0x85, 0x2028, 0x2029)}  # of a text that stays in one line
LENGTH = 2.0  # seconds of a window
OF_POPULATION = """\
[population]  # learned from {count} people: 'streamjobs fit' writes the file, and new people start with it
file = "population.state"{directions}

[scaling]
clip = 5.0  # in standard deviations of the population

{map}name = "rls"  # a linear head: the population's at first, adapted to a key by its labels where that helps
unlabelled = 0.0  # labels do not lower the scores of activities that a key has not labelled yet
filter = "hmm"  # scores are probabilities, given the windows before: an activity usually continues{lasts}
{room}max_classes = {classes}  # allows labels of activities that the population does not have; absent: dead letters
# reject = 0.05  # rows unlike all known activities are unknown, and at most this share of the known ones; absent: none"""
LASTS = '\n# lasts = "60s"  # an activity, on average; absent: as in the recordings'  # of windows: samples have no hop
LINEAR = "[learner]  # 'streamjobs fit --choose' compares this with other statistics, maps and filters on your recordings\n"
PROTOTYPES = """\
[learner]  # 'streamjobs fit --choose' compares this with other maps and filters on your recordings
name = "random_prototypes"  # similarities to rows of the population
budget = 300
input = true  # the head also sees the numbers of the row

[head]
"""

DRIFT_OF_POPULATION = """

# [drift]  # alarms when people change what they do; 'streamjobs fit' learns the limit from the same recordings
# watch = "columns"
# false_alarms = "20/h"
# reference = "population"  # a window is normal if it is like the windows before it"""

OF_STARTER = """\
[population]  # of the package: {made_from}
file = {file}  # 'streamjobs fit' makes a population from your own recordings

[scaling]
clip = 5.0  # in standard deviations of the population

[learner]
name = "rls"  # a linear head: the population's at first, adapted to a key by its labels where that helps
filter = "hmm"  # scores are probabilities, given the windows before: an activity usually continues
# lasts = "10m"  # an activity, on average; absent: as in the population's recordings
# max_classes = {classes}  # allows labels of activities that the population does not have; absent: dead letters"""

ROOM = 4  # classes of a person, in addition to the population's
DIRECTIONS = "\ndirections = {}  # combinations of a row's numbers that a head learns on: smaller states"
FEWEST = "\nfewest = 0.4  # least share of a window's samples; other rates are interpolated"
CONVOLUTIONS = "\nconvolutions = 200  # more numbers for each window, which 'fit' learns; 0: none"


def lines_of_source(guessed: Guess, partitions: int, zone: str | None, missing: str | None) -> tuple[int, dict[str, str]]:
    """How many numbers x has, and the lines by their places in the template.

    partitions: of a topic with records without keys, else 0. zone, missing: the settings, None where they are not known.
    """
    dim, x = _x(guessed)
    return dim, {
        "key": _key(guessed, partitions),
        "preset": _preset(guessed),
        "x": x,
        "time": _time(guessed, zone),
        "label": _label(guessed),
        "missing": "".join(_more(guessed, missing)),
        "left_out": _left_out(guessed),
        "sensors": _sensors(guessed),
    }


def _why(guessed: Guess, what: str) -> str:
    """Why it was guessed, after a colon; empty for the example."""
    return f": {one_line(guessed.because[what])}" if what in guessed.because else ""


def _key(guessed: Guess, partitions: int) -> str:
    """The lines after the topic. partitions: of a topic with records without keys, else 0."""
    if partitions and guessed.key is not None:
        why = f"the topic's records have no keys; {one_line(guessed.because['key'])}"
        copied = "\nrekeyed = true  # 'streamjobs rekey' copies the topic's partitions by this key" if partitions > 1 else ""
        return f"\nkey = {quoted(guessed.key)}  # {why}{copied}"
    if guessed.key is not None:
        return f"; in the sample: column {quoted(guessed.key)} ({one_line(guessed.because['key'])})"
    if guessed.key_from is not None:
        return f"; in the sample: the name of the {guessed.key_from}, with --key-from {guessed.key_from}"
    if "key" not in guessed.choose:
        return ""
    return f"\n# key: choose the column to send as the key of records: {one_line(guessed.choose['key'])}"


def _preset(guessed: Guess) -> str:
    if guessed.preset is None:
        return ""
    notes = "".join(f"# {one_line(note)}\n" for note in guessed.preset.notes)
    return f"preset = {quoted(guessed.preset.name)}  # {guessed.preset.tool}\n{notes}"


def _x(guessed: Guess) -> tuple[int, str]:
    """Numbers of x, and the lines that name them; commented out where the user has to choose."""
    fields = [*guessed.fields, *guessed.categories]
    listed = "fields = [" + ", ".join(map(quoted, fields)) + "]"
    if "fields" in guessed.choose:
        return len(fields) or 3, f"# {listed}  # choose: {one_line(guessed.choose['fields'])}"
    if guessed.x is not None:
        assert guessed.dim is not None
        return guessed.dim, f"x = {quoted(guessed.x)}  # the field that holds x as a list\ndim = {guessed.dim}"
    if guessed.narrow is not None:
        return len(fields), f"# [source.sensors] below{_why(guessed, 'fields')}"
    if guessed.preset is not None and "sensors" in guessed.preset.source:
        if (sensors := guessed.preset.source["sensors"]) != preset_of(guessed.preset.name).source["sensors"]:
            return len(fields), toml_line("sensors", sensors)
        each = ", ".join(guessed.preset.source["sensors"]["each"])
        return len(fields), f"# [source.sensors]: {each}, as the preset sets them: {', '.join(fields)}"
    if guessed.preset is not None and fields == guessed.preset.source["fields"]:
        return len(fields), f"# {listed}  # as the preset sets them"
    lines = f"{listed}  # the numbers that make x, in this order{_why(guessed, 'fields')}"
    if guessed.categories:
        lines += f"; and texts\n{toml_line('categories', guessed.categories)}  # a column of 0 or 1 for each text"
        lines += '\nunseen = "other"  # a text that is not listed gives 0 in all columns'
    return len(guessed.fields) + len(guessed.angles) + sum(map(len, guessed.categories.values())), lines


def _sensors(guessed: Guess) -> str:
    """The section of sensors, for records that have one sample of one of them."""
    if guessed.narrow is None:
        return ""
    narrow, kept = guessed.narrow, guessed.narrow.kept(guessed.fields)
    pauses = {name: narrow.pauses[name] for name in kept}
    in_windows = windowed(guessed.rate)
    hold, slowest = "" if in_windows else ', between = "hold"', max(pause.slowest for pause in pauses.values())
    lines = [
        "[source.sensors]  # a row has the newest number of each of them",
        f"name = {quoted(narrow.name)}  # the field with the name of the record's sensor",
        *(['other = "skip"  # records of sensors that are left out'] if len(kept) < len(narrow.pauses) else []),
        *([] if in_windows else [f"rate = {1.0 / slowest!r}  # rows a second: that of the slowest of them"]),
    ]
    for name, columns in kept.items():
        fields = ", ".join(map(quoted, columns))
        pause = pauses[name]
        gap = f', gap = "{math.ceil(PERIODS * pause.slowest)}s"' if pause.slowest > STEADY_APART * pause.fastest else ""
        lines.append(f"each.{quoted(name)} = {{ fields = [{fields}], rate = {1.0 / pause.fastest!r}{hold}{gap} }}")
    return "\n".join(lines) + "\n\n"


def _time(guessed: Guess, zone: str | None) -> str:
    why = _why(guessed, "time")
    if guessed.preset is not None and guessed.time == guessed.preset.source["time"]:
        return f"# time = {quoted(guessed.time or '')}  # event time, as the preset sets it"
    if guessed.written:
        line = f"time = {quoted(guessed.time or '')}  # event time{'' if guessed.time_format else ', ISO 8601'}{why}"
        if (form := guessed.time_format) is not None:
            open_ = f"choose: {one_line(guessed.choose['time_format'])}" if "time_format" in guessed.choose else ""
            line += f"\n{'# ' if open_ else ''}time_format = {quoted(form)}  # {open_ or 'such as ' + example_of(form)}"
        if zone is not None:
            line += f"\ntime_zone = {quoted(zone)}  # of times without a zone"
        elif "time_zone" in guessed.choose:
            line += f'\n# time_zone = "UTC"  # choose: {one_line(guessed.choose["time_zone"])}'
        return line
    if guessed.time is not None:
        unit = f'time_unit = "{guessed.time_unit}"  # {UNIT_NAMES[guessed.time_unit]} since 1970'
        return f"time = {quoted(guessed.time or 'ts')}  # event time{why}\n{unit}"
    line = f'# time = "ts"  # choose: {one_line(guessed.choose["time"])}'
    if guessed.start_time is not None and guessed.time_unit != "s":
        line += f'\ntime_unit = "{guessed.time_unit}"  # of {quoted(guessed.start_time)}, for replay --time'
    return line


def _label(guessed: Guess) -> str:
    if guessed.label is not None:
        return f"label = {quoted(guessed.label)}  # may be absent or null in a record{_why(guessed, 'label')}"
    return f'# label = "activity"  # needed by a [head]; choose: {one_line(guessed.choose["label"])}'


def _more(guessed: Guess, policy: str | None) -> Iterator[str]:
    """Lines that only some inputs need. policy: of missing numbers, None where it is not known."""
    if policy is not None:
        gaps = guessed.gaps
        why = f"; {gaps.lacking:,} of {gaps.rows:,} rows lack a number" if gaps.lacking else ""
        yield f'missing = "{policy}"  # dlq | skip | hold | mean{why}\n'
    if guessed.repeats:
        yield 'duplicates = "learn"  # many rows of a key have the same time, but different numbers\n'
    elif guessed.turns:
        yield 'duplicates = "learn"  # records of one key and time have the numbers of different sensors\n'
    if guessed.counters:
        names = ", ".join(map(quoted, guessed.counters))
        yield f"counters = [{names}]  # readings that only rise or start over: x has their rise per second\n"
    if guessed.angles:
        turns = ", ".join(f"{quoted(name)} = {turn:.16g}" for name, turn in guessed.angles.items())
        yield f"angles = {{ {turns} }}  # the full turn; x has cosine and sine\n"
    if codes := {name: found for name, found in guessed.codes.items() if name in guessed.fields}:
        lists = {name: f"[{', '.join(f'{code:.10g}' for code in found)}]" for name, found in codes.items()}
        value = "{ " + ", ".join(f"{quoted(name)} = {found}" for name, found in lists.items()) + " }"
        if len(codes) == len(guessed.fields) and len(set(lists.values())) == 1:
            value = next(iter(lists.values()))
        yield f"missing_values = {value}  # numbers that stand for a missing one\n"
    if guessed.lenient:
        names = one_line(", ".join(map(quoted, guessed.lenient)))
        yield f'numbers = "lenient"  # texts such as "21.5" are numbers too, here in {names}\n'
    if largest := max(guessed.largest.values(), default=0.0):  # which would make dead letters
        limit = 10.0 ** min(math.ceil(math.log10(largest)) + 2, 308)
        yield f"max_abs = {limit:g}  # numbers beyond it are errors; the sample has some up to {largest:.3g}\n"
    if guessed.key is not None and guessed.pause is not None and guessed.pause >= SLOW:
        why = f"a key sends every {guessed.pause:g} s: if records of keys wait for each other, they need less processor"
        yield f'linger = "{round(min(200.0 * guessed.pause, MOST_LINGER))}ms"  # {why}\n'


def _left_out(guessed: Guess) -> str:
    """Comments with the columns that are not part of x, and what else should be known."""
    lines = [one_line(remark) for remark in guessed.remarks]
    if guessed.left_out:
        lines.append("left out of x:")
        lines += [f"  {quoted(name)}: {one_line(why)}" for name, why in list(guessed.left_out.items())[:MOST_LEFT_OUT]]
        if len(guessed.left_out) > MOST_LEFT_OUT:
            lines.append(f"  and {len(guessed.left_out) - MOST_LEFT_OUT} more")
    return "".join(f"# {line}\n" for line in lines)


def one_line(text: str) -> str:
    return text.translate(_NO_CONTROLS)


def of_population(guessed: Guess) -> str:
    """[population], [scaling], and [learner] with [head]."""
    few = 200 if convolutions(guessed) else 128 if not windowed(guessed.rate) else 0
    return OF_POPULATION.format(
        count=guessed.people,
        directions=DIRECTIONS.format(few) if few else "",
        map=LINEAR if windowed(guessed.rate) else PROTOTYPES,
        lasts=LASTS if windowed(guessed.rate) else "",
        room="" if guessed.classes > survey.MOST_UNSTATED else "# ",
        classes=guessed.classes + ROOM,
    )


def convolutions(guessed: Guess) -> str:
    """The line of [window] for windows that convolutions can be made of."""
    least, most = CONVOLVED
    return CONVOLUTIONS if least <= LENGTH * (guessed.rate or 0.0) <= most else ""
