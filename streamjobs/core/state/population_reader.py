"""Reads a population's file, for the job that names it; `population` has the layout."""

import json
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

from algorithms import Learner, SettingError, learner_from
from algorithms.common.protocol import Array
from streamjobs.core.state import population
from streamjobs.core.state.snapshot import Reader, flatten, unflatten
from streamjobs.core.state.valid import StateCheck
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.composition import Composition
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.population.reference import PopulationReference
from streamjobs.stages.population.reject import MEASURES, OF_HEAD, Measures, Rejection
from streamjobs.stages.smoothing import Transitions
from streamjobs.stages.stage import describe

_UNREADABLE = (
    *(struct.error, IndexError, ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError),
)


class _Header(NamedTuple):
    """What a file says of itself, read before any of its arrays."""

    facts: dict[str, str]
    names: list[str]
    width: int
    people: int
    learners: dict[str, Learner | None]
    reject: Rejection | None  # without its measures
    measured: bool
    between: float | None  # rows, of a reference
    transitions: Transitions | None
    boost: float | None
    convolved: tuple[int, int] | None  # samples and channels of a window
    directions: int | None
    joint: int


def decode(data: bytes, composition: Composition | None = None, file: str = "") -> population.Population:
    """Raises SnapshotError for anything that `encode` of this or an older version did not write.

    composition: of the job it is for; ConfigError names what the job has otherwise than the population had, found before any
    array is made, so that a file cannot ask for more memory than the job itself.
    """
    if len(data) < population.HEAD.size + 4 or data[:2] != population.MAGIC:
        raise SnapshotError(f"expected a population of 'streamjobs fit', got {len(data)} bytes that begin otherwise.")
    if not population.VERSION <= data[2] <= population.JOINT:
        raise SnapshotError(
            f"population version {data[2]} is unknown to this release, which reads versions {population.VERSION} to "
            f"{population.JOINT}."
        )
    if zlib.crc32(data[:-4]) != population.CRC.unpack_from(data, len(data) - 4)[0]:
        raise SnapshotError("the population is damaged: its checksum does not fit its bytes.")
    try:
        length = population.HEAD.unpack_from(data)[3]
        header = _read_header(json.loads(data[population.HEAD.size : population.HEAD.size + length]))
        if composition is not None:
            _fitting(header, composition, file)
        return population.checked(_population(header, Reader(data, population.HEAD.size + length).arrays()))
    except ConfigError:
        raise
    except SettingError as problem:
        raise SnapshotError(f"the population names a learner as this release does not have it: {problem}") from None
    except _UNREADABLE as problem:
        raise SnapshotError(f"the population is damaged although its checksum fits: {problem}.") from problem


def _settings_that_differ(before: Learner | None, now: Learner | None) -> tuple[str, str]:
    """Of the population's and the job's learner as text: all, or of one kind only the settings that differ."""
    if before is None or now is None or type(before) is not type(now):
        return tuple("none" if one is None else describe(one) for one in (before, now))  # type: ignore[return-value]
    tables = population.learner_table(before), population.learner_table(now)
    differ = [name for name in tables[0] if tables[0][name] != tables[1][name]]
    first, second = (", ".join(f"{name}={table[name]}" for name in differ) for table in tables)
    return f"{type(now).__name__}({first})", f"{type(now).__name__}({second})"


def _names_that_differ(before: str, now: str) -> tuple[str, str]:
    """Of the columns of x: those that only one of the two has, or all in their order."""
    first, second = before.split(","), now.split(",")
    if set(first) == set(second):
        return before, now
    own = [[name for name in one if name not in other] for one, other in ((first, second), (second, first))]
    return tuple(f"with {', '.join(names)}" if names else f"without {', '.join(more)}" for names, more in (own, own[::-1]))  # type: ignore[return-value]


def _fitting(header: _Header, composition: Composition, file: str) -> None:
    """Raises ConfigError that names what the job has otherwise than the population had."""
    assert composition.teacher is not None
    theirs, ours = dict(header.facts), dict(composition.facts)
    parts = {"scaling": composition.scaling, "map": composition.map, "head": composition.teacher}
    for part, before in header.learners.items():
        theirs[part], ours[part] = _settings_that_differ(before, parts[part])
    if theirs.get("x") == ours["x"]:
        theirs["width"], ours["width"] = str(header.width), str(composition.width)
    else:
        theirs["x"], ours["x"] = _names_that_differ(theirs.get("x", ""), ours["x"])
    differ = [part for part in {**theirs, **ours} if theirs.get(part) != ours.get(part)]
    if composition.classes is not None and composition.classes != header.names:
        differ.append("classes")
        theirs["classes"], ours["classes"] = str(header.names), str(composition.classes)
    most = composition.max_classes
    if most is not None and most < len(header.names):
        differ.append("max_classes")
        theirs["max_classes"], ours["max_classes"] = f"{len(header.names)} classes", str(most)
    if differ:
        was = "; ".join(f"{part} {theirs.get(part, 'none')}" for part in differ)
        now = "; ".join(f"{part} {ours.get(part, 'none')}" for part in differ)
        raise ConfigError(
            f"[population] file {file!r} was learned with {was}; this job has {now}. "
            "Make the job file agree, or learn it again with 'streamjobs fit'."
        )
    if composition.reject not in (None, header.reject and header.reject.share):
        had = "without it" if header.reject is None else f"with reject = {header.reject.share:g}"
        raise ConfigError(
            f"[head] reject = {composition.reject:g} needs a threshold; [population] file {file!r} was learned {had}. "
            "Remove the setting, or learn the file again with 'streamjobs fit': if all else is the same, no state changes."
        )
    smoothing = composition.smoothing
    if smoothing is not None and smoothing.probabilities and header.transitions is None:
        raise ConfigError(
            f"[head] filter = 'hmm' needs what 'streamjobs fit' learns for it; [population] file {file!r} was learned "
            "without it. Set smooth instead, or learn the file again with 'streamjobs fit': if all else is the same, no "
            "state changes."
        )
    if composition.between not in (None, header.between):
        had = "without it" if header.between is None else f"for 1 per {header.between:g} rows"
        stated = f"false_alarms = {composition.settings.drift and composition.settings.drift.false_alarms!r}"
        raise ConfigError(
            f"[drift] reference = 'population' with {stated} (1 per {composition.between:g} rows) needs a limit for it; "
            f"[population] file {file!r} was learned {had}. Learn the file again with 'streamjobs fit': if all else is "
            "the same, only the detector's states change."
        )


def _read_header(table: dict[str, Any]) -> _Header:
    learners: dict[str, Learner | None] = {}
    for part in ("scaling", "map", "head"):
        own = table[part]
        learners[part] = None
        if own is not None:
            learners[part] = learner_from(own["name"], {name: value for name, value in own.items() if name != "name"})
    facts = {str(name): str(value) for name, value in table["facts"].items()}
    names, stated, reject, measured = [str(name) for name in table["names"]], table.get("reject"), None, False
    if stated is not None:
        reject, measured = Rejection(float(stated["share"]), float(stated["above"])), "measures" in stated
        if measured and stated["measures"] not in (list(MEASURES), list(OF_HEAD)):
            raise ValueError(f"its reject has measures that this release does not have: {stated['measures']!r:.200}")
        reject = reject._replace(of_head=measured and stated["measures"] == list(OF_HEAD))
    between = float(table["drift"]["rows_between"]) if "drift" in table else None
    people, transitions, boost = int(table["people"]), None, None
    if "filter" in table:
        transitions = Transitions.from_table(table["filter"], len(names))
    if "boost" in table and not 0 < (boost := float(table["boost"])) <= population.MOST_BOOST:
        raise ValueError(f"expected a boost above 0, at most {population.MOST_BOOST:g}, got {boost!r:.200}")
    convolved = None
    if "convolutions" in table:
        samples, dim = table["convolutions"]
        convolved = int(samples), int(dim)
    numbers = int(table["width"]), people, learners, reject, measured, between, transitions, boost, convolved
    few = int(table["directions"]) if "directions" in table else None, int(table.get("joint", 0))
    return _Header(facts, names, *numbers, *few)


def _population(header: _Header, arrays: list[Array]) -> population.Population:
    dim, at = header.width, 1
    parts: dict[str, population.Taught | None] = {}
    for part, learner in header.learners.items():
        if learner is None:
            parts[part] = None
            continue
        if part == "head" and population.INPUT in header.facts:
            dim += header.width
        if part == "head" and header.directions is not None:
            dim = header.directions
        like = learner.init(dim=dim, targets=len(header.names) if part == "head" else 0, seed=0)
        count = len(flatten(like))
        state = unflatten(like, arrays[at : at + count])
        StateCheck({part: LearnerStage(learner=learner)}, {part: like})({part: state}, None)
        parts[part] = population.Taught(learner, state)
        at += count
        dim = learner.width_for(dim)
    head, reject = parts["head"], header.reject
    if header.measured and reject is not None:
        own = [np.ascontiguousarray(array) for array in arrays[at : at + len(Measures._fields)]]
        reject, at = reject._replace(measures=Measures(*own)), at + len(own)
    reference = None
    if header.between is not None:
        of_drift = [np.ascontiguousarray(array) for array in arrays[at : at + len(PopulationReference._fields) - 1]]
        reference, at = PopulationReference(header.between, *of_drift), at + len(of_drift)
    convolutions = None
    if header.convolved is not None:
        from streamjobs.stages.statistics.convolutions import checked as valid

        convolutions, at = population.Convolved(*header.convolved, valid(arrays[at : at + 5], *header.convolved)), at + 5
    directions = None
    if header.directions is not None:
        from streamjobs.stages.population.directions import Directions

        directions = Directions(*arrays[at : at + len(Directions._fields)])
        at += len(directions)
    if at != len(arrays) or head is None:
        raise ValueError(f"it holds {len(arrays)} arrays, expected {at} with those of a head")
    return population.Population(
        header.facts,
        header.names,
        arrays[0],
        header.people,
        header.width,
        parts["scaling"],
        parts["map"],
        head,
        reject,
        reference,
        header.transitions,
        header.boost,
        convolutions,
        directions,
        header.joint,
    )
