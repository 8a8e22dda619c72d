"""What other people taught, in one file for all keys of a job: scale, map, and the head a new person begins with.

Layout, little-endian:

    magic "SP" | version u8 | 0
    header: u32 length, JSON with facts, names, width, people and the three learners' tables (null where there is none), and
        where [head] reject is stated its share and threshold, and whether it has measures, and where [drift] has its
        reference its rows from one false alarm to the next; boost where the job leaves it to the population, and
        where [head] filter is stated its two numbers; where windows have convolutions the samples and channels of one;
        where the head sees directions their number, and how many of them P has the covariances of (absent: all)
    arrays: u16 count, then each as in a snapshot: of labels, scaling, map and head in turn, the measures of reject, what
        [drift] compares with, the convolutions, and the directions
    crc32 of all before it

Version 2 is that of a file with measures, 3 of one with a reference, 4 of one with boost or a filter, 5 of one with
convolutions, 6 of one with directions, 7 of one with changes of a filter, 8 of one with a P of some directions; all others
are of version 1, as earlier releases wrote them. Every setting of a learner is in its table, so that a later release's
defaults change nothing. Never pickle.
"""

import dataclasses
import json
import struct
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from algorithms import Learner
from algorithms.common.kernels import Kernel, table_of
from algorithms.common.protocol import Array, State
from algorithms.scaling import ScalingState
from streamjobs.core.state.snapshot import array_header, flatten
from streamjobs.errors import ConfigError
from streamjobs.settings.composition import Composition
from streamjobs.stages.population.reference import DIRECTIONS, PopulationReference
from streamjobs.stages.population.reject import MEASURES, OF_HEAD, Rejection
from streamjobs.stages.population.units import Norms, norms_of
from streamjobs.stages.smoothing import Transitions
from streamjobs.stages.stage import MOST_COUNTED, check_numbers, halved, lined_up

if TYPE_CHECKING:
    from streamjobs.stages.population.directions import Directions
    from streamjobs.stages.statistics.convolutions import Convolutions

MAGIC, VERSION, MEASURED, WATCHED, BOOSTED, CONVOLVED, DIRECTED, CHANGING, JOINT = b"SP", 1, 2, 3, 4, 5, 6, 7, 8
INPUT = "input"  # the fact of a population that has a head for rows and features
MOST_BOOST = 1e6  # as `gated_rls` takes it
HEAD, _U16, CRC = struct.Struct("<2sBBI"), struct.Struct("<H"), struct.Struct("<I")


class Convolved(NamedTuple):
    """What windows of so many samples and channels are convolved with."""

    samples: int
    dim: int
    learned: "Convolutions"

    def rows(self, X: Array) -> Array:
        """Rows as the windows' stage gives them (n, statistics and samples), as (n, statistics and convolutions)."""
        return self.learned.replaced(X, self.samples, self.dim)


class Taught(NamedTuple):
    """A learner and what it has learned; it stands still from now on."""

    learner: Learner
    state: State


class Population(NamedTuple):
    """Made by `Population.from_composition`, kept by `encode` and `population_reader.decode`."""

    facts: dict[str, str]  # fields, window, mirror: what the windows were made of
    names: list[str]  # classes, in the order of the head's columns
    labels: Array  # (classes,) int64, rows taught of each
    people: int
    width: int  # numbers of a window
    scaling: Taught | None
    map: Taught | None
    head: Taught  # `rls`, with a column per class
    reject: Rejection | None = None  # of [head] reject; no part of the fingerprint: it changes no state
    reference: PopulationReference | None = None  # of [drift]; no part of it either: it changes the detector's state alone
    transitions: Transitions | None = None  # of [head] filter; no part of it, but whether it has changes
    boost: float | None = None  # where the job states none; None: as `gated_rls` has it
    convolutions: "Convolved | None" = None  # where windows have some
    directions: "Directions | None" = None  # where the head sees combinations of what it would see
    joint: int = 0  # directions of which a person's P has the covariances; 0: all, as earlier releases learned

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
        directions: "Directions | None" = None,
    ) -> "Population":
        """What `fit` learned: states of the composition's scaling and map (None where there is none) and of its teacher.

        Raises ValueError where they do not belong together.
        """
        assert composition.teacher is not None, "only a job with [population] has a teacher"
        scale, learned = _taught(composition.scaling, scaling), _taught(composition.map, map)
        counts, taught = np.ascontiguousarray(labels, np.int64), Taught(composition.teacher, head)
        made = cls(dict(composition.facts), list(names), counts, people, composition.width, scale, learned, taught)
        return checked(made._replace(directions=directions))

    @property
    def fingerprint(self) -> bytes:
        """16 bytes that differ when anything does that its keys' states stand on."""
        kept = encode(self._replace(reject=None, reference=None, transitions=None))
        return blake2b(kept + b"changes" if self.has_changes else kept, digest_size=16).digest()

    @property
    def has_changes(self) -> bool:
        """Whether its filter follows how scores move; only then are a key's last scores part of its state."""
        return self.transitions is not None and self.transitions.changes is not None

    @property
    def compared_with(self) -> str | None:
        """What a detector's state stands on, in hex; None without a reference."""
        if self.reference is None:
            return None
        return blake2b(b"".join(array.tobytes() for array in self.reference[1:]), digest_size=16).hexdigest()

    def norms(self, columns: Sequence[str]) -> Norms | None:
        """Lengths of three axes in its windows, which have these columns."""
        if self.scaling is None or not isinstance(state := self.scaling.state, ScalingState):
            return None
        return norms_of(columns, state.mean, state.squares / max(1, state.seen))

    @property
    def rows(self) -> int:
        """Labels that taught the head."""
        return int(self.labels.sum())

    @property
    def nbytes(self) -> int:
        """Of the arrays all keys share, as they are stored."""
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
            **({"reject": _table_of(population.reject)} if population.reject is not None else {}),
            **({"drift": {"rows_between": population.reference.rows_between}} if population.reference is not None else {}),
            **({"filter": population.transitions.table} if population.transitions is not None else {}),
            **({"boost": population.boost} if population.boost is not None else {}),
            **({"convolutions": population.convolutions[:2]} if population.convolutions is not None else {}),
            **({"directions": len(population.directions.offset)} if population.directions is not None else {}),
            **({"joint": population.joint} if population.joint else {}),
        },
        sort_keys=True,
    ).encode()
    arrays = _arrays(population)
    with_measures = population.reject is not None and population.reject.measures is not None
    version = WATCHED if population.reference is not None else MEASURED if with_measures else VERSION
    if population.transitions is not None or population.boost is not None:
        version = BOOSTED
    if population.convolutions is not None:
        version = CONVOLVED
    if population.directions is not None:
        version = DIRECTED
    if population.has_changes:
        version = CHANGING
    if population.joint:
        version = JOINT
    parts = [HEAD.pack(MAGIC, version, 0, len(header)), header, _U16.pack(len(arrays))]
    for array in arrays:
        parts += (array_header(array.dtype, array.shape), array.tobytes())
    body = b"".join(parts)
    return body + CRC.pack(zlib.crc32(body))


def begin_head(population: Population, head: Any, targets: int, boosts: bool = False) -> State:
    """The state of a new person's head; classes beyond the population's begin at zero.

    boosts: whether the population says how much a label weighs, where it can.
    """
    if boosts and population.boost is not None:
        head = dataclasses.replace(head, boost=population.boost)
    state = population.head.state
    more = targets - len(population.names)
    if more > 0:
        weights = np.ascontiguousarray(np.pad(state.weights, ((0, 0), (0, more))))
        state = state._replace(weights=weights, bias=np.pad(state.bias, (0, more)))
    with np.errstate(over="ignore"):
        made = head.from_population(state, population.joint)
    if not all(np.isfinite(array).all() for array in flatten(made)):
        raise ConfigError(f"[head]: boost = {head.boost:g} makes the population's head leave the finite numbers; lower it.")
    return made


def learner_table(learner: Learner) -> dict[str, Any]:
    """A learner as a table with its name and every setting: `learner_from` makes the same one of it.

    >>> from algorithms import learner_from
    >>> learner_table(learner_from("lms", {"step_size": 0.5}))["step_size"]
    0.5
    """
    table: dict[str, Any] = {"name": learner.name}
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
    if population.reject is not None and population.reject.measures is not None:
        arrays += population.reject.measures
    if population.reference is not None:
        arrays += population.reference[1:]
    if population.convolutions is not None:
        arrays += map(_as_stored, population.convolutions.learned)
    if population.directions is not None:
        arrays += map(_as_stored, population.directions)
    return arrays


def _as_stored(array: Array) -> Array:
    """What `halved` made of a stored array may be float32."""
    return np.asarray(array, np.float64)


def _table_of(reject: Rejection) -> dict[str, Any]:
    stated = {"share": reject.share, "above": reject.above}
    return stated if reject.measures is None else stated | {"measures": list(OF_HEAD if reject.of_head else MEASURES)}


def checked(population: Population) -> Population:
    """The same; raises ValueError where its parts do not belong together."""
    names, width = population.names, population.width
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise ValueError(f"a population needs two or more different classes, got {names!r:.200}")
    if population.labels.shape != (len(names),) or population.labels.dtype != np.int64:
        raise ValueError(f"expected a count of labels for each of {len(names)} classes, got {population.labels.shape}")
    counts = population.labels.tolist()
    if min(counts) < 0 or sum(counts) >= MOST_COUNTED:
        raise ValueError(f"expected counts of labels, got {counts!r:.200}")
    if population.reject is not None:
        _check_reject(population.reject, len(names), width)
    if population.reference is not None:
        _check_reference(population.reference, width)
    for part, taught in _parts(population):
        if taught is None:
            continue
        learner, state = taught
        if part == "head" and INPUT in population.facts:
            width += population.width
        if part == "head" and population.directions is not None:
            of, width = width, population.directions.offset.size
            check_numbers("directions", population.directions._asdict(), (of, width), (width,))
            matrix, offset = population.directions
            found = population.directions._replace(matrix=lined_up(halved(matrix)), offset=lined_up(offset))
            found.rows(np.zeros((1, of)))  # compiles the loop
            population = population._replace(directions=found)
            if population.joint and not (0 < population.joint < width - 1 and state.seen > 0):
                raise ValueError(f"expected covariances of fewer directions than {width - 1}, got {population.joint!r:.200}")
        if learner.dim(state) != width:
            raise ValueError(f"{part} takes {learner.dim(state)} numbers, what comes before it gives {width}")
        if part == "head" and learner.targets(state) != len(names):
            raise ValueError(f"the head has {learner.targets(state)} columns for {len(names)} classes")
        learner.load(learner.workspace(state), 0, state)  # refuses fields that contradict each other
        if not all(np.isfinite(array).all() for array in flatten(state)):
            raise ValueError(f"{part} holds numbers that are not finite")
        width = learner.width_for(width)
    return population


def _check_reference(reference: PopulationReference, width: int) -> None:
    """Raises ValueError for what `fit` cannot have learned."""
    if not 1 <= reference.rows_between < np.inf:
        raise ValueError(f"expected rows between false alarms, 1 or more, got {reference.rows_between!r:.200}")
    arrays = {"mean": reference.mean, "spread": reference.spread, "projection": reference.projection}
    check_numbers("drift", arrays, (width,), (width,), (width, DIRECTIONS))
    if not (reference.spread > 0).all():
        raise ValueError("expected a spread above 0 of drift")
    reference.rows(np.zeros((1, width)))  # compiles the loop


def _check_reject(reject: Rejection, classes: int, width: int) -> None:
    """Raises ValueError for what `fit` cannot have learned."""
    least = 0 if reject.measures is None else -np.inf
    if not (0 < reject.share <= 0.5 and least < reject.above < np.inf):
        raise ValueError(f"expected a share up to 0.5 and a threshold above {least:g}, got {reject[:2]!r:.200}")
    if reject.measures is None:
        return
    square, packed = (classes, classes), ((width + 1) * (width + 2) // 2,)
    check_numbers("reject", reject.measures._asdict(), square, square, packed, (len(MEASURES), classes))
    if not (reject.measures.usual > 0).all():
        raise ValueError("expected usual measures above 0")
    reject.unknown(np.zeros((1, classes)), np.zeros(1, np.int64), np.zeros((1, width)))  # compiles the loop
