"""From recordings to a population's file: what `streamjobs fit` does."""

import contextlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from algorithms import Learner
from algorithms.drift.glr_chart import GlrChart
from algorithms.heads.gated_rls import GatedRls
from streamjobs.core.state.population import Population, encode, learner_table
from streamjobs.errors import ConfigError, unwritable
from streamjobs.fit import alarms, rejection
from streamjobs.fit.alarms import Alarms, learn_reference
from streamjobs.fit.evaluation import Protocol, filter_learned, leave_one_out, runs_of_new_people
from streamjobs.fit.inputs import Columns, inputs_of
from streamjobs.fit.learning import BOOST, Convolving, Learned, Recipe, Way, convolved, learned_from
from streamjobs.fit.progress import Progress
from streamjobs.fit.reading import Read, read
from streamjobs.fit.recordings import LATE, PAUSE, Recordings, joined, late_windows, shuffled
from streamjobs.fit.rejection import Judged, learn_rejection
from streamjobs.fit.reports import findings, report
from streamjobs.fit.reports.findings import SIZES, learning_curve
from streamjobs.fit.reports.report import Evaluated
from streamjobs.job_files import located, read_table
from streamjobs.recordings.tables import HOW, How
from streamjobs.schema_registry.descriptors import definition_of
from streamjobs.settings.composition import Composition
from streamjobs.settings.load import composition_from
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import many, seconds
from streamjobs.stages.smoothing import Smoothing, Transitions

SEED = 0  # of the order in which recordings teach, and of who is left out
LABEL_DELAY = 20.0  # seconds, of windows, where neither the command nor the job states it
MOST_SAID = 5  # people
MOST_LEFT_OUT = 50  # people, one after the other, where the command states no number


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The command's arguments."""

    job: Path
    sources: list[str]
    output: Path | None = None
    key: str | None = None
    time: str | None = None
    recording: str | None = None
    pause: str | None = None
    folds: int | None = None
    shuffles: int = 0  # random orders of each person's recordings; 0: their own order
    label_delay: str | None = None  # None: that of the job, or LABEL_DELAY
    test: tuple[str, ...] = ()  # recordings of people who do not teach
    report: bool = True
    force: bool = False
    how: How = HOW


class Fitted(NamedTuple):
    read: Read
    evaluated: Evaluated | None  # by leaving people out
    tested: Evaluated | None  # on people who do not teach
    population: Population
    output: Path
    nbytes: int  # of the file
    page: Path | None  # of the report
    stated: bool  # the job itself names a population
    judged: Judged | None  # with [head] reject
    alarms: Alarms | None  # with [drift] reference = "population"


def ready(asked: Asked) -> tuple[Composition, Path, Path | None, bool]:
    """What the job is composed of, the files for population and report, and whether the job names a population itself.

    Raises ConfigError where the job cannot be fitted or a file exists.
    """
    composition, output, stated = _composition(asked)
    page = Path(f"{output}.html") if asked.report or asked.test else None
    for path in (output, page):
        if path is not None:
            _refuse_taken(path, asked.force)
    return composition, output, page, stated


def fit_job(
    asked: Asked, say: Callable[[str], None], doubt: Callable[[str], None], windows: tuple[Read, int] | None = None
) -> Fitted:
    """Everything, with `say` and `doubt` called as things become known; nothing is written before the end.

    windows: what `read_recordings` gives for this job, if the inputs are read. Raises ConfigError and SetupError, one
    sentence each, for what cannot work.
    """
    composition, output, page, stated = ready(asked)
    settings = composition.settings
    recipe, numbers = recipe_of(composition), len(composition.columns)
    with Progress() as progress:
        data_read, late = windows or read_recordings(asked, settings, say, doubt, progress)
        recipe = timed(recipe, settings, data_read, asked)
        ways = report.ways_of(recipe, settings.learner.name, numbers)
        refuse_too_little(data_read.data)
        new = _read_new(asked, settings, data_read.data, say, doubt, progress)
        say(described(recipe))
        statistics = composition.columns[: numbers - (settings.window.convolutions if settings.window is not None else 0)]
        for line in report.doubts(data_read, recipe, statistics):
            doubt(line)
        for doubts in (findings.other_units, findings.turned) if new is not None else ():
            for line in doubts(data_read.data, statistics, new):
                doubt(line)
        evaluated = None
        if asked.report:
            evaluated = _evaluate(data_read, ways, asked, late, progress)
        progress.stage("learning from everybody")
        data, convolutions = convolved(data_read.data, np.ones(len(data_read.data.X), bool), recipe.convolving)
        learned = _from_everybody(data, recipe)
        recipe = filter_learned(data, recipe, learned, late)
        if evaluated is not None:
            progress.stage("learning from fewer people", SIZES)
            curve = learning_curve(data, recipe, learned, late, progress.step)
            others = findings.ByOthers(data, recipe, learned)
            bad = findings.suspicious(data, others.decided(), others.with_own)
            evaluated = evaluated._replace(curve=curve, suspicious=bad)
        judged = _judge(data, recipe, composition.reject, asked, late, progress)
        watched = _watch(data, composition, progress)
        tested = None
        if new is not None:
            tested = _test(data_read.data, new, ways, asked, late, progress)
        progress.stage("learning from everybody")
        population = population_of(data, composition, recipe, learned)._replace(convolutions=convolutions)
        if judged is not None:
            population = population._replace(reject=judged.rejection)
        if watched is not None:
            population = population._replace(reference=watched.reference)
    for one in (evaluated, tested):
        if one is not None:
            say("\n" + report.as_text(one) + "\n")
    if evaluated is not None and tested is not None and (line := report.compared(evaluated, tested)):
        say(line + "\n")
    if judged is not None:
        say(rejection.as_text(judged) + "\n")
    if watched is not None:
        assert settings.drift is not None and settings.drift.false_alarms is not None
        say(alarms.as_text(watched, settings.drift.false_alarms) + "\n")
    stored = encode(population)
    write(output, stored)
    return Fitted(data_read, evaluated, tested, population, output, len(stored), page, stated, judged, watched)


def read_recordings(
    asked: Asked, settings: Settings, say: Callable[[str], None], doubt: Callable[[str], None], progress: Progress
) -> tuple[Read, int]:
    """The windows of the inputs, and how many windows late labels arrive; raises ConfigError for too little."""
    pause = PAUSE if asked.pause is None else _duration("--pause", asked.pause)
    delay = settings.labels.delay if asked.label_delay is None else _duration("--label-delay", asked.label_delay)
    if asked.recording is not None and asked.pause is not None:
        raise ConfigError("--recording and --pause both tell recordings apart; give one of them.")
    columns = Columns(asked.key, asked.time, asked.recording, asked.pause is not None, asked.how)
    inputs = inputs_of(settings, asked.sources, columns)
    for line in inputs.said:
        say(line)
    progress.stage("reading samples")
    found = read(
        settings,
        inputs.sources,
        pause=pause,
        column=inputs.recording,
        schema=definition_of(settings.source),
        by_file=inputs.by_file,
        lived=asked.report or bool(asked.test),
        progress=lambda tally: progress.at(tally.samples),
    )
    window, numbers = settings.window, found.data.X.shape[1]
    if window is not None and window.convolutions:  # in the place of the samples
        numbers += window.convolutions - round(window.length * window.rate) * (settings.source.width or 0)
    for line in report.described(found, numbers):
        say(line)
    for line in found.doubts:
        doubt(line)
    return found._replace(key=inputs.key), late_windows(delay or usual_delay(settings, found), found.hop)


def usual_delay(settings: Settings, read: Read) -> float:
    """Seconds until a label arrives, if they are not stated: without windows those of LATE rows."""
    return LABEL_DELAY if settings.window is not None else LATE * read.hop


def _read_new(
    asked: Asked,
    settings: Settings,
    taught: Recordings,
    say: Callable[[str], None],
    doubt: Callable[[str], None],
    progress: Progress,
) -> Recordings | None:
    """The recordings of --test; None without any."""
    if not asked.test:
        return None
    say("--test:")
    found = read_recordings(replace(asked, sources=list(asked.test)), settings, say, doubt, progress)[0]
    data = found.lived or found.data
    both = sorted(set(data.people[1:]) & set(taught.people[1:]))
    if both:
        some = f"{', '.join(both[:MOST_SAID])} {'is' if len(both) == 1 else 'are'}"
        doubt(f"{some} in --input and in --test: of people who taught, the figures are too good.")
    new = [name for name in data.names if name not in taught.names]
    for name in new:
        doubt(f"no one teaches {name!r} of --test: its windows can only be wrong, or unknown with [head] reject.")
    if new:
        section, most = "head" if settings.head else "learner", len(taught.names) + len(new)
        doubt(f"a worker learns such labels from a person if [{section}] max_classes = {most}; else they are dead letters.")
    return data


def _composition(asked: Asked) -> tuple[Composition, Path, bool]:
    """What the job is composed of, the file its population goes to, and whether the job names a population itself."""
    table, output, stated = table_of(asked)
    composition = composition_from(table, os.environ, str(asked.job))
    settings = composition.settings
    assert settings.population is not None
    if settings.source.label is None and settings.source.format != "raw":
        raise _no_label(asked.job)
    return composition, output or Path(settings.population.file), stated


def table_of(asked: Asked) -> tuple[dict[str, Any], Path | None, bool]:
    """The job file's contents, the file to write where the command names one, and whether the job names a population.

    A job without [population] is fitted as if it named the output.
    """
    path, output = asked.job, asked.output
    table = located(read_table(path), path, to_write="population")
    stated = "population" in table
    if not stated:
        source = table.get("source", {})
        if output is None and "label" not in source and source.get("format") != "raw":  # what `init` writes without labels
            raise _no_label(path)
        if output is None:
            raise ConfigError(f"{path}: name the file with --output, or in the job as [population] file.")
        table["population"] = {"file": str(output)}
    return table, output, stated


def _no_label(job: Path) -> ConfigError:
    return ConfigError(f"{job} [source]: fit needs the field with the label; state it as label, or use init --label COLUMN.")


def _duration(option: str, text: str) -> float:
    try:
        length = float(seconds(text))
    except (ValueError, TypeError):
        length = -1.0
    if not 0 < length < float("inf"):
        raise ConfigError(f"{option} must be a duration such as '20s' or '500ms'; got {text!r}.")
    return length


def _refuse_taken(path: Path, force: bool) -> None:
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"{path}: cannot be written there; name a file in a folder that exists.")
    if path.exists() and not force:
        raise ConfigError(f"{path}: the file already exists; --force replaces it.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ConfigError(f"{path}: cannot be written, because its folder is read-only; name a file in another folder.")


def refuse_too_little(data: Recordings) -> None:
    """Raises ConfigError without people to learn from, or with fewer than two classes."""
    people = [data.people[person] for person in np.unique(data.person)]
    if len(people) < 2:
        raise ConfigError(
            f"--input: all labelled windows are of one person ({people[0]!r}); a population needs two or more. "
            "Name the column with the person with --key."
        )
    done = [data.names[c] for c in np.unique(data.activity)]
    if len(done) < 2:
        raise ConfigError(f"--input: every window has the same label ({done[0]!r}); a population needs two or more.")


def recipe_of(composition: Composition) -> Recipe:
    """The stages of a job with [population] behind its windows."""
    smoothing, head = composition.smoothing, cast(GatedRls, composition.learner)  # [population] allows no other head
    windows, dim, population = composition.windows, composition.dim, composition.settings.population
    recipe = Recipe(
        composition.scaling,
        composition.map,
        head,
        input=composition.keeps_input,
        boosts=composition.boosts,
        directions=(population.directions if population is not None else None) or 0,
        convolving=Convolving(windows.convolutions, windows.nominal, dim) if windows and windows.convolutions else None,
    )
    if smoothing is None:
        return recipe
    if smoothing.probabilities:
        return replace(recipe, filter=cast(Transitions, smoothing))
    return replace(recipe, smooth=cast(Smoothing, smoothing).smooth)


def timed(recipe: Recipe, settings: Settings, read: Read, asked: Asked) -> Recipe:
    """The recipe with the time between two rows, by which a filter of a job without windows knows how long they last."""
    if recipe.filter is None or settings.window is not None:
        return recipe
    lasts, has_times = recipe.filter.lasts, settings.source.time is not None or asked.time is not None
    if lasts and not (has_times or settings.source.format == "raw"):
        raise ConfigError("lasts needs the times of rows: set [source] time, or name their column with --time.")
    if lasts and lasts <= read.hop:
        raise ConfigError(f"lasts must be longer than the usual time between two rows ({read.hop:g} s); got {lasts:g} s.")
    return replace(recipe, filter=replace(recipe.filter, hop=read.hop if has_times else 0.0))


def described(recipe: Recipe) -> str:
    """Which map and head are learned."""
    head = recipe.head
    boost = f"{BOOST:g} times the people" if recipe.boosts else f"{head.boost:g}"
    gate = f"gated (boost {boost}, rate {head.rate:g}, discount {head.discount:g})" if head.gate else "not gated"
    clip = getattr(recipe.scaling, "clip", 0.0)
    also = ", with the scaled windows before it" if recipe.input else ""
    scale = "none" if recipe.scaling is None else f"everybody's{f', cut at +-{clip:g}' if clip else ''}"
    return (
        f"scale: {scale}; map: {_with_numbers(recipe.map)}{also}; head: RLS, delta {head.delta:g}, "
        f"forgetting {head.forgetting:g}, {gate}; "
        + (f"scores smoothed by {recipe.smooth:g}" if recipe.filter is None else "probabilities by a filter of transitions")
    )


def _with_numbers(mapping: Learner | None) -> str:
    """ "ald (above 0.1, budget 300, ridge 1e-06)"."""
    if mapping is None:
        return "none"
    table = learner_table(mapping)
    settings = [f"{name} {value:g}" for name, value in table.items() if isinstance(value, (int, float))]
    return f"{table['name']} ({', '.join(settings)})"


def _evaluate(read: Read, ways: list[Way], asked: Asked, late: int, progress: Progress) -> Evaluated:
    """People left out in turn: all, or some of them, drawn by a fixed seed."""
    data = read.data
    people = np.unique(data.person)
    folds, every = asked.folds or MOST_LEFT_OUT, len(people)
    if folds < every:
        people = np.sort(np.random.default_rng(SEED).permutation(people)[:folds])
    progress.stage("leaving each person out", len(people) * max(1, asked.shuffles))
    runs = leave_one_out(
        data, ways, shuffles=asked.shuffles, people=people.tolist(), late=late, progress=progress.step, lived=read.lived
    )
    who = f"{folds} of {every} people" if folds < every else "each person"
    title = f"{who} left out in turn, {_order(asked)}"
    return Evaluated(title, read.lived or data, runs, [way.name for way in ways], ways[1].name, late, asked.shuffles)


def _order(asked: Asked) -> str:
    return many(asked.shuffles, "shuffle") if asked.shuffles else "recordings in their own order"


def _test(taught: Recordings, new: Recordings, ways: list[Way], asked: Asked, late: int, progress: Progress) -> Evaluated:
    """People who do not teach, served by all who do."""
    data = joined(taught, new)
    teaches = np.arange(len(data.X)) < len(taught.X)
    progress.stage("people of --test", (len(new.people) - 1) * max(1, asked.shuffles))
    protocol = Protocol(asked.shuffles, late, progress.step, len(taught.names))
    runs = runs_of_new_people(data, teaches, ways, protocol)
    title, names = f"people of --test, {_order(asked)}", [way.name for way in ways]
    tested = Evaluated(title, data.of(~teaches), runs, names, ways[1].name, late, asked.shuffles, left_out=False)
    return tested._replace(taught=len(taught.names))


def _judge(
    data: Recordings, recipe: Recipe, share: float | None, asked: Asked, late: int, progress: Progress
) -> Judged | None:
    """The threshold of [head] reject, and with a report what it is worth; None where the job states none."""
    if share is None:
        return None
    progress.stage("learning what is unknown", rejection.steps(data, activities=asked.report))
    return learn_rejection(data, recipe, share, late=late, activities=asked.report, progress=progress.step)


def _watch(data: Recordings, composition: Composition, progress: Progress) -> Alarms | None:
    """What [drift] reference = "population" compares with; None where the job states none."""
    if composition.between is None:
        return None
    detector = cast(GlrChart, composition.watches[0].detector)  # this reference allows no other
    progress.stage("learning what alarms", alarms.steps(data))
    return learn_reference(data, detector, composition.between, progress=progress.step)


def _from_everybody(data: Recordings, recipe: Recipe) -> Learned:
    return learned_from(shuffled(data, np.ones(len(data.person), bool), [SEED]), recipe, len(data.names))


def population_of(data: Recordings, composition: Composition, recipe: Recipe, learned: Learned | None = None) -> Population:
    """What everybody teaches; learned: the same, where it is known already."""
    learned = learned or _from_everybody(data, recipe)
    made = Population.from_composition(
        composition,
        names=data.names,
        labels=np.bincount(data.activity, minlength=len(data.names)),
        people=len(np.unique(data.person)),
        scaling=learned.scaling,
        map=learned.map,
        head=learned.head,
        directions=learned.directions,
    )
    boost = BOOST * learned.people if recipe.boosts else None
    return made._replace(transitions=recipe.filter, boost=boost, joint=learned.joint)


def write(path: Path, data: bytes) -> None:
    """The whole file or nothing; raises ConfigError where it cannot be written."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise unwritable(str(path), error) from None
    finally:
        with contextlib.suppress(OSError):  # such as of a folder that is read-only
            beside.unlink(missing_ok=True)
