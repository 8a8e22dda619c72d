"""What other people taught, in one file for all keys of a job: scale, map, and the head a new person begins with.

Layout, little-endian:

    magic "SP" | version u8 | 0
    header: u32 length, JSON with facts, names, width, people and the three learners' tables (null where there is none), and
        where [head] reject is stated its share and threshold
    arrays: u16 count, then each as in a snapshot: of labels, scaling, map and head in turn
    crc32 of all before it

Every setting of a learner is in its table, so that a later release's defaults change nothing. Never pickle.
"""

import dataclasses
import json
import struct
import zlib
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from algorithms import LEARNERS, Learner, SettingError, learner_from
from algorithms.common.kernels import Kernel, table_of
from algorithms.common.protocol import Array, State
from streamjobs.core.state.snapshot import Reader, array_header, flatten, unflatten
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.composition import Composition
from streamjobs.stages.reject import Rejection
from streamjobs.stages.stage import MOST_COUNTED, check_fields, describe

MAGIC, VERSION = b"SP", 1
MOST_BYTES = 1 << 30  # of a file
_HEAD, _U16, _CRC = struct.Struct("<2sBBI"), struct.Struct("<H"), struct.Struct("<I")
_UNREADABLE = (
    *(struct.error, IndexError, ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError),
)
_NAMES = {made: name for name, made in LEARNERS.items()}


class Taught(NamedTuple):
    """A learner and what it has learned; it stands still from now on."""

    learner: Learner
    state: State


class Population(NamedTuple):
    """Made by `Population.from_composition`, kept by `encode` and `decode`."""

    facts: dict[str, str]  # fields, window, mirror: what the windows were made of
    names: list[str]  # classes, in the order of the head's columns
    labels: Array  # (classes,) int64, rows taught of each
    people: int
    width: int  # numbers of a window
    scaling: Taught | None
    map: Taught | None
    head: Taught  # `rls`, with a column per class
    reject: Rejection | None = None  # of [head] reject; no part of the fingerprint: it changes no state

    @classmethod
    def from_composition(
        cls,
        composition: Composition,
        *,
        names: list[str],
        labels: Array,
        people: int,
        scaling: State,
        map: State,
        head: State,
        reject: Rejection | None = None,
    ) -> "Population":
        """What `fit` learned: states of the composition's scaling and map (None where there is none) and of its teacher.

        Raises ValueError where they do not belong together.
        """
        assert composition.teacher is not None, "only a job with [population] has a teacher"
        scale, learned = _taught(composition.scaling, scaling), _taught(composition.map, map)
        counts, taught = np.ascontiguousarray(labels, np.int64), Taught(composition.teacher, head)
        made = cls(dict(composition.facts), list(names), counts, people, composition.width, scale, learned, taught)
        return _checked(made._replace(reject=reject))

    @property
    def fingerprint(self) -> bytes:
        """16 bytes that differ when anything does that its keys' states stand on."""
        return blake2b(encode(self._replace(reject=None)), digest_size=16).digest()

    @property
    def rows(self) -> int:
        """Labels that taught the head."""
        return int(self.labels.sum())

    @property
    def nbytes(self) -> int:
        """Of the arrays all keys share."""
        return sum(array.nbytes for array in _arrays(self))


def encode(population: Population) -> bytes:
    """The file's bytes; the same population gives the same ones."""
    header = json.dumps(
        {
            "facts": population.facts,
            "names": population.names,
            "width": population.width,
            "people": population.people,
            **{part: learner_table(taught.learner) if taught else None for part, taught in _parts(population)},
            **({"reject": population.reject._asdict()} if population.reject is not None else {}),
        },
        sort_keys=True,
    ).encode()
    arrays = _arrays(population)
    parts = [_HEAD.pack(MAGIC, VERSION, 0, len(header)), header, _U16.pack(len(arrays))]
    for array in arrays:
        parts += (array_header(array.dtype, array.shape), array.tobytes())
    body = b"".join(parts)
    return body + _CRC.pack(zlib.crc32(body))


class _Header(NamedTuple):
    """What a file says of itself, read before any of its arrays."""

    facts: dict[str, str]
    names: list[str]
    width: int
    people: int
    learners: dict[str, Learner | None]
    reject: Rejection | None


def decode(data: bytes, composition: Composition | None = None, file: str = "") -> Population:
    """Raises SnapshotError for anything that `encode` of this or an older version did not write.

    composition: of the job it is for; ConfigError names what the job has otherwise than the population had, found before any
    array is made, so that a file cannot ask for more memory than the job itself.
    """
    if len(data) < _HEAD.size + 4 or data[:2] != MAGIC:
        raise SnapshotError(f"expected a population of 'streamjobs fit', got {len(data)} bytes that begin otherwise.")
    if data[2] != VERSION:
        raise SnapshotError(f"population version {data[2]} is unknown to this release, which reads version {VERSION}.")
    if zlib.crc32(data[:-4]) != _CRC.unpack_from(data, len(data) - 4)[0]:
        raise SnapshotError("the population is damaged: its checksum does not fit its bytes.")
    try:
        length = _HEAD.unpack_from(data)[3]
        header = _read_header(json.loads(data[_HEAD.size : _HEAD.size + length]))
        if composition is not None:
            _fitting(header, composition, file)
        return _checked(_population(header, Reader(data, _HEAD.size + length).arrays()))
    except ConfigError:
        raise
    except SettingError as problem:
        raise SnapshotError(f"the population names a learner as this release does not have it: {problem}") from None
    except _UNREADABLE as problem:
        raise SnapshotError(f"the population is damaged although its checksum fits: {problem}.") from problem


def _fitting(header: _Header, composition: Composition, file: str) -> None:
    """Raises ConfigError that names what the job has otherwise than the population had."""
    assert composition.teacher is not None
    theirs, ours = dict(header.facts), dict(composition.facts)
    for part, learner in header.learners.items():
        theirs[part] = describe(learner) if learner is not None else "none"
    for part, learner in (("scaling", composition.scaling), ("map", composition.map), ("head", composition.teacher)):
        ours[part] = describe(learner) if learner is not None else "none"
    theirs["width"], ours["width"] = str(header.width), str(composition.width)
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
            "Learn it again with 'streamjobs fit', which changes no state where all else is the same, or remove the setting."
        )


def begin_head(population: Population, head: Any, targets: int) -> State:
    """The state of a new person's head; classes beyond the population's begin at zero."""
    state = population.head.state
    more = targets - len(population.names)
    if more > 0:
        weights = np.ascontiguousarray(np.pad(state.weights, ((0, 0), (0, more))))
        state = state._replace(weights=weights, bias=np.pad(state.bias, (0, more)))
    with np.errstate(over="ignore"):
        made = head.from_population(state)
    if not all(np.isfinite(array).all() for array in flatten(made)):
        raise ConfigError(f"[head]: boost = {head.boost:g} makes the population's head leave the finite numbers; lower it.")
    return made


def learner_table(learner: Learner) -> dict[str, Any]:
    """A learner as a table with its name and every setting: `learner_from` makes the same one of it.

    >>> learner_table(learner_from("lms", {"step_size": 0.5}))["step_size"]
    0.5
    """
    table: dict[str, Any] = {"name": _NAMES[type(learner)]}
    for field in dataclasses.fields(learner):  # type: ignore[arg-type]
        value = getattr(learner, field.name)
        if isinstance(value, Kernel):
            value = table_of(value)
        table[field.name] = learner_table(value) if isinstance(value, Learner) else value
    return table


def _taught(learner: Learner | None, state: State) -> Taught | None:
    return None if learner is None else Taught(learner, state)


def _parts(population: Population) -> list[tuple[str, Taught | None]]:
    return [("scaling", population.scaling), ("map", population.map), ("head", population.head)]


def _arrays(population: Population) -> list[Array]:
    arrays = [population.labels]
    for _, taught in _parts(population):
        arrays += flatten(taught.state) if taught is not None else []
    return arrays


def _read_header(table: dict[str, Any]) -> _Header:
    learners: dict[str, Learner | None] = {}
    for part in ("scaling", "map", "head"):
        own = table[part]
        learners[part] = None
        if own is not None:
            learners[part] = learner_from(own["name"], {name: value for name, value in own.items() if name != "name"})
    facts = {str(name): str(value) for name, value in table["facts"].items()}
    names, stated = [str(name) for name in table["names"]], table.get("reject")
    reject = None if stated is None else Rejection(float(stated["share"]), float(stated["above"]))
    return _Header(facts, names, int(table["width"]), int(table["people"]), learners, reject)


def _population(header: _Header, arrays: list[Array]) -> Population:
    dim, at = header.width, 1
    parts: dict[str, Taught | None] = {}
    for part, learner in header.learners.items():
        if learner is None:
            parts[part] = None
            continue
        like = learner.init(dim=dim, targets=len(header.names) if part == "head" else 0, seed=0)
        count = len(flatten(like))
        state = unflatten(like, arrays[at : at + count])
        check_fields(part, learner, like, state, finite=True)
        parts[part] = Taught(learner, state)
        at += count
        dim = learner.width_for(dim)
    head = parts["head"]
    if at != len(arrays) or head is None:
        raise ValueError(f"it holds {len(arrays)} arrays, expected {at} with those of a head")
    return Population(
        header.facts,
        header.names,
        arrays[0],
        header.people,
        header.width,
        parts["scaling"],
        parts["map"],
        head,
        header.reject,
    )


def _checked(population: Population) -> Population:
    """The same; raises ValueError where its parts do not belong together."""
    names, width = population.names, population.width
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise ValueError(f"a population needs two or more different classes, got {names!r:.200}")
    if population.labels.shape != (len(names),) or population.labels.dtype != np.int64:
        raise ValueError(f"expected a count of labels for each of {len(names)} classes, got {population.labels.shape}")
    counts = population.labels.tolist()
    if min(counts) < 0 or sum(counts) >= MOST_COUNTED:
        raise ValueError(f"expected counts of labels, got {counts!r:.200}")
    reject = population.reject
    if reject is not None and not (0 < reject.share <= 0.5 and 0 < reject.above < np.inf):
        raise ValueError(f"expected a share up to 0.5 and a threshold above 0, got {reject!r:.200}")
    for part, taught in _parts(population):
        if taught is None:
            continue
        learner, state = taught
        if learner.dim(state) != width:
            raise ValueError(f"{part} takes {learner.dim(state)} numbers, what comes before it gives {width}")
        if part == "head" and learner.targets(state) != len(names):
            raise ValueError(f"the head has {learner.targets(state)} columns for {len(names)} classes")
        learner.load(learner.workspace(state), 0, state)  # refuses fields that contradict each other
        if not all(np.isfinite(array).all() for array in flatten(state)):
            raise ValueError(f"{part} holds numbers that are not finite")
        width = learner.width_for(width)
    return population
