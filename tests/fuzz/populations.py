"""Populations, which all keys of a job share: nothing but a SnapshotError or a ConfigError may come of any bytes.

Who reads one gets the same one back from its own bytes, and a job that stands on it goes on with good records.
"""

import json
import struct
from random import Random
from typing import Any

import numpy as np

from algorithms import LEARNERS
from streamjobs.core.job import Job
from streamjobs.core.state.population import Population, begin_head, encode
from streamjobs.core.state.population_reader import decode
from streamjobs.core.state.snapshot import Snapshot
from streamjobs.core.state.snapshot import decode as decode_snapshot
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.fit.rejection import factor_of
from streamjobs.settings.composition import composition_of
from streamjobs.stages.population.reference import DIRECTIONS, PopulationReference
from streamjobs.stages.population.reject import MEASURES, Measures, Rejection
from tests.core.people import FILE, of_people, population_of
from tests.fuzz.bytes import EDGES, REALS, bent
from tests.fuzz.case import Case, Family, chance, must
from tests.fuzz.grammar import LONG, TEXTS, near, value
from tests.fuzz.jobs import good
from tests.fuzz.live_pool import LivePool
from tests.fuzz.mutation import mutate_arrays
from tests.fuzz.states import go_on, sealed

MADE, LEARNED = 8, 64  # one of so many that were read becomes a job, or one that learns
ODD = (*EDGES, *REALS, -1, *TEXTS, *LEARNERS, None, [], {}, True)
_HEAD = struct.Struct("<2sBBI")


class Populations(Family):
    name = "population"

    def __init__(self) -> None:
        self.settings = [
            of_people(labels={"wait": "30s"}),
            of_people(learner={"name": "rff", "features": 16, "freeze": True}, scaling={"method": "none"}),
        ]
        self.parts = [composition_of(one) for one in self.settings]
        self.valid = [encode(population_of(one)) for one in self.settings]
        head = {"name": "rls", "boost": 10.0}
        rejecting = of_people(head={**head, "reject": 0.05})
        self.settings.append(rejecting)
        self.parts.append(composition_of(rejecting))
        self.valid.append(encode(_with_measures(population_of(of_people(head=head)))))
        filtering = of_people(head={"name": "rls", "filter": "hmm"})
        self.settings.append(filtering)
        self.parts.append(composition_of(filtering))
        self.valid.append(encode(population_of(filtering)))
        watching = of_people(drift={"watch": "columns", "reference": "population", "false_alarms": "6/h"})
        self.settings.append(watching)
        self.parts.append(composition_of(watching))
        self.valid.append(encode(_with_reference(population_of(of_people()))))
        self.after = [good(Job.from_settings(self.settings[0], population=self.valid[0]), 0, 14)] * len(self.settings)

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(len(self.settings))
        data = self.valid[which]
        kind = rnd.random()
        if kind < 0.05:
            return Case(which, bent(data, rnd))
        if kind < 0.35:
            return Case(which, sealed(bent(data[:-4], rnd, rnd.choice(self.valid)[:-4])))
        *_, length = _HEAD.unpack_from(data)
        said, arrays = data[_HEAD.size : _HEAD.size + length], data[_HEAD.size + length : -4]
        if kind < 0.65:
            said = _said(json.loads(said), rnd)
        if kind > 0.6:
            arrays = _arrays(arrays, rnd)
        return Case(which, sealed(data[:4] + len(said).to_bytes(4, "little") + said + arrays))

    def attempt(self, case: Case) -> str:
        settings, parts, picked = self.settings[case.which], self.parts[case.which], chance(case.data)
        try:
            held = decode(case.data, parts, FILE)
            assert parts.learner.begins_from_population
            begin_head(held, parts.learner, parts.max_classes or len(held.names))
        except ConfigError as error:
            str(error).encode()
            return "ConfigError"
        except SnapshotError:
            return "SnapshotError"
        again = encode(held)
        must(encode(decode(again)) == again, "it comes back otherwise")
        if picked % MADE == 0:
            job = Job.from_settings(settings, population=case.data)
            must(bool(job.init(b"p0")) and job.population is not None, "no population")
            if picked % LEARNED == 0:
                go_on(LivePool(), job, None, self.after[case.which])
        return "decoded"


def _with_measures(population: Population) -> Population:
    """With those of [head] reject."""
    random, classes = np.random.default_rng(0), len(population.names)
    usual, taught = np.ones((len(MEASURES), classes)), random.normal(size=(200, population.width))
    measures = Measures(np.eye(classes), np.eye(classes), factor_of(taught), usual)
    return population._replace(reject=Rejection(0.05, 1.0, measures))


def _with_reference(population: Population) -> Population:
    """With that of [drift]; windows come every half second, six alarms an hour are one in 1200."""
    width = population.width
    projection = np.random.default_rng(0).normal(size=(width, DIRECTIONS))
    return population._replace(reference=PopulationReference(1200.0, np.zeros(width), np.ones(width), projection))


def _said(table: dict[str, Any], rnd: Random) -> bytes:
    for _ in range(rnd.choice((1, 1, 2))):
        inside = table
        while True:
            name = rnd.choice(list(inside))
            if isinstance(inside[name], dict) and inside[name] and rnd.random() < 0.8:
                inside = inside[name]
                continue
            break
        kind = rnd.randrange(8)
        if kind == 0:
            del inside[name]
        elif kind == 1:
            inside[rnd.choice(TEXTS)] = value(rnd)
        elif kind < 5:
            inside[name] = rnd.choice(ODD)
        else:
            inside[name] = near(rnd, value(rnd))
        if not table:
            break
    text = json.dumps(table)
    if rnd.random() < 0.03:
        text = text.replace(rnd.choice(("null", "{", '"')), rnd.choice(LONG), 1)
    return text.encode()


def _arrays(held: bytes, rnd: Random) -> bytes:
    """The arrays of a population, changed like those of a snapshot."""
    empty = Snapshot(bytes(16), "", {}, [], [])
    before = len(bytes(_as_snapshot(b"\x00\x00"))) - 4 - 2
    stored = decode_snapshot(_as_snapshot(held))._replace(fingerprint=empty.fingerprint)
    return mutate_arrays(stored, rnd, kinds=9)[before:-4]


def _as_snapshot(arrays: bytes) -> bytes:
    return sealed(b"SJ\x01\x00" + bytes(16) + b"\x00\x00" + b"\x00\x00" + b"\x00\x00" + arrays)
