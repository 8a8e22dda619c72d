"""A job: the stages a key's rows pass, made once from the settings, and what identifies its snapshots."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from algorithms import LEARNERS, Learner, learner_from
from algorithms.common.protocol import Stage
from streamjobs.config import HeadSection, Settings
from streamjobs.core import snapshot
from streamjobs.core.books import Books
from streamjobs.core.messages import Record
from streamjobs.core.order import Order
from streamjobs.core.records import Decoded, decoder
from streamjobs.core.snapshot import Snapshot
from streamjobs.core.warmup import warm_up
from streamjobs.core.windows import Windows
from streamjobs.errors import SnapshotError

SIGNAL = ("order", "windows")  # stages that belong to a key's signal: fresh for a new key, also after a warm start


class Job(NamedTuple):
    """Stages by name in the order rows pass them, and the facts around them; made by `Job.from_settings`."""

    settings: Settings
    stages: dict[str, Stage]  # order, windows?, scaling?, learner, drift?, books
    learner: Learner
    detector: Learner | None
    dim: int  # of a sample
    width: int  # of what the learner sees: dim, or the features of a window
    targets: int
    task: str  # classification | regression | none (the learner predicts nothing)
    classes: list[str] | None  # declared ones
    label_width: int  # numbers in a label's code
    model: str  # how outputs name it
    sinks: dict[str, str]  # sink -> topic, those that are on
    decode: Callable[[Sequence[Record]], Decoded]
    fingerprint: bytes
    described: dict[str, str]
    start: dict[str, Any] | None  # states a new key begins from, and `names`

    @classmethod
    def from_settings(cls, settings: Settings, start: bytes | None = None) -> "Job":
        """Raises SettingError for what the learners refuse, SnapshotError when `start` belongs to another job."""
        source = settings.source
        dim = len(source.fields) if source.fields else source.dim
        if dim is None:
            raise ValueError("[source]: state `fields = [...]`, or `dim` beside `x`.")
        learner = _learner(settings)
        predicts = learner.kind in ("regression", "classification")
        head = settings.head or HeadSection(name="none", **_task_of(settings))
        task = head.task if predicts else "none"
        targets = {"classification": len(head.classes or ()) or head.max_classes, "regression": head.targets}.get(task, 0)
        label_width = head.targets if task == "regression" else 1

        stages: dict[str, Stage] = {
            "order": Order(policy=source.late, lateness=source.lateness, duplicates=source.duplicates)
        }
        width = dim
        if settings.window:
            window = settings.window
            windows = Windows(
                length=window.length,
                hop=window.hop or window.length,
                label="mean" if task == "regression" else "majority",
                rate=window.rate,
                gap=window.gap,
                statistics=window.statistics,
            )
            stages["windows"], width = windows, windows.width_for(dim)
        mirror = settings.window.mirror if settings.window else None
        scaling = settings.scaling
        if scaling.method != "none" or scaling.unit_norm or scaling.clip:
            stages["scaling"] = learner_from("scaling", scaling.model_dump())
        stages["learner"] = learner
        detector = _detector(settings)
        if detector is not None:
            stages["drift"] = detector
        stages["books"] = Books(classes=targets if task == "classification" else 0)

        described = {"dim": str(dim), "labels": str(targets)}
        described |= {name: describe(stage) for name, stage in stages.items() if name not in ("order", "books")}
        if mirror is not None:
            described["mirror"] = f"{','.join(mirror.columns)} where {mirror.field} = {mirror.when!r}"
        if head.classes and task == "classification":
            described["classes"] = ",".join(head.classes)
        job = cls(
            settings=settings,
            stages=stages,
            learner=learner,
            detector=detector,
            dim=dim,
            width=width,
            targets=targets,
            task=task,
            classes=list(head.classes) if head.classes and task == "classification" else None,
            label_width=label_width,
            model=settings.learner.name + (f"+{settings.head.name}" if settings.head else ""),
            sinks=_sinks(settings, learner, predicts),
            decode=decoder(source, dim, mirror),
            fingerprint=blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16).digest(),
            described=described,
            start=None,
        )
        return job._replace(start=_started(job, start)) if start is not None else job

    def init(self, key: bytes) -> dict[str, Any]:
        """The stages' states of a new key, from the warm start where there is one."""
        seed = int.from_bytes(
            blake2b(key, digest_size=6, salt=self.settings.job.seed.to_bytes(8, "little", signed=True)).digest()
        )
        states = self._empty(seed)
        if self.start is not None:
            states |= {name: state for name, state in self.start["states"].items() if name not in SIGNAL}
        return states

    def names(self) -> list[str]:
        """Class names a new key begins with, in the order of their columns."""
        if self.start is not None:
            return list(self.start["names"])
        return list(self.classes or ())

    def _empty(self, seed: int) -> dict[str, Any]:
        states: dict[str, Any] = {}
        for name, stage in self.stages.items():
            if isinstance(stage, (Order, Windows)):
                states[name] = stage.init(self.dim, self.label_width)
            elif isinstance(stage, Books):
                states[name] = stage.init()
            else:
                assert isinstance(stage, Learner)
                dim = 1 if name == "drift" else self.width
                states[name] = stage.init(dim=dim, targets=self.targets if name == "learner" else 0, seed=seed)
        return states

    @property
    def state_bytes(self) -> int:
        """Upper bound of a key's snapshot in bytes, without its class names."""
        states = self._empty(0)
        arrays = sum(len(snapshot.flatten(state)) for state in states.values())
        heads = 256 + 20 * arrays + len(json.dumps(self.described))
        return heads + sum(stage.bytes_of(states[name]) for name, stage in self.stages.items())

    def encode(self, states: dict[str, Any], names: list[str], offsets: snapshot.Offsets) -> bytes:
        arrays = [array for name in self.stages for array in snapshot.flatten(states[name])]
        return snapshot.encode(Snapshot(self.fingerprint, _text(self.described), offsets, names, arrays))

    @property
    def snapshot_head(self) -> bytes:
        """What all this job's snapshots begin with."""
        return snapshot.head(self.fingerprint, _text(self.described))

    def decode_snapshot(self, data: bytes) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """Raises SnapshotError when the bytes are damaged or another job wrote them; the message says what differs."""
        held = snapshot.decode(data)
        if held.fingerprint != self.fingerprint:
            raise SnapshotError(snapshot.difference(_table(held.description), self.described))
        states, at = {}, 0
        for name, like in self._empty(0).items():
            count = len(snapshot.flatten(like))
            states[name] = snapshot.unflatten(like, held.arrays[at : at + count])
            at += count
        if at != len(held.arrays):
            raise SnapshotError(f"snapshot holds {len(held.arrays)} arrays, this job expects {at}.")
        return states, held.names, held.offsets

    def compile(self) -> None:
        """Run every compiled loop once, so that the first record does not wait for the compiler."""
        warm_up(self.stages, self._empty(0), self.dim, self.label_width)


def describe(stage: Stage) -> str:
    """A stage as people write it: its name and the settings that are not their defaults.

    >>> from algorithms import learner_from
    >>> describe(learner_from("lms", {"step_size": 0.5}))
    'Lms(step_size=0.5)'
    """
    assert dataclasses.is_dataclass(stage)
    shown = []
    for field in dataclasses.fields(stage):
        value = getattr(stage, field.name)
        if value != field.default:
            shown.append(f"{field.name}={describe(value) if isinstance(value, Stage) else value!r}")
    return f"{type(stage).__name__}({', '.join(shown)})"


def _text(described: dict[str, str]) -> str:
    return json.dumps(described, separators=(",", ":"))


def _table(text: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


_TASK = ("task", "classes", "max_classes", "targets")  # settings of a head that a predicting learner may carry itself


def _task_of(settings: Settings) -> dict[str, Any]:
    extra = settings.learner.model_extra or {}
    return {"task": "regression", **{name: extra[name] for name in _TASK if name in extra}}


def _learner(settings: Settings) -> Learner:
    own = {k: v for k, v in (settings.learner.model_extra or {}).items() if k not in _TASK}
    if settings.head is None:
        return learner_from(settings.learner.name, own)
    head = {"name": settings.head.name, **(settings.head.model_extra or {})}
    made = LEARNERS.get(settings.head.name)
    if made is not None and any(field.name == "intercept" for field in dataclasses.fields(made)):  # type: ignore[arg-type]
        head.setdefault("intercept", True)  # features have no constant column of their own
    return learner_from("chain", {"extractor": {"name": settings.learner.name, **own}, "head": head})


def _detector(settings: Settings) -> Learner | None:
    if settings.drift is None:
        return None
    table = settings.drift.detector
    if isinstance(table, str):
        return learner_from(table, {})
    return learner_from(str(table.get("name")), {k: v for k, v in table.items() if k != "name"})


def _sinks(settings: Settings, learner: Learner, predicts: bool) -> dict[str, str]:
    base, chosen = settings.source.topic, settings.sinks
    gives_features = learner.kind == "features" or settings.head is not None
    wanted = {
        "features": gives_features,
        "predictions": predicts,
        "drift": settings.drift is not None,
        "dlq": True,
    }
    sinks = {}
    for sink, on in wanted.items():
        topic = getattr(chosen, sink)
        if on and (topic != "" or sink == "dlq"):
            sinks[sink] = topic or f"{base}.{sink}"
    return sinks


def _started(job: Job, data: bytes) -> dict[str, Any]:
    states, names, _ = job.decode_snapshot(data)
    books = states["books"]
    states["books"] = books._replace(seen=books.seen + books.rows, rows=0)
    if "drift" in states:
        states["drift"] = job._empty(0)["drift"]
    if job.classes is not None and names != job.classes:
        raise SnapshotError(f"the exported state knows the classes {names}, this job declares {job.classes}.")
    return {"states": states, "names": names}
