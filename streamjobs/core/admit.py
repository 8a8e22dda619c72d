"""Which samples of a batch are new to their keys and usable, in which slots, with which label codes.

Usually every record's key is live, and its offset and labels are in order. Then the batch is admitted as a whole. Other
batches are admitted record by record, with the same result.
"""

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, repeat

import numpy as np

from algorithms.common.protocol import Array, unknown
from streamjobs.core.decoding.records import Decoded
from streamjobs.core.decoding.values import Code, class_code, number_code
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.slots import shared
from streamjobs.core.messages import Record, Report, record_key
from streamjobs.errors import RecordError
from streamjobs.stages.rows import Rows, picked


class Ttl:
    """Keys idle longer than [state] ttl start over: by their own event times, so a replay and a worker do the same.

    Decides about the records of one batch. Their rows pass the stages together, after all were admitted. A worker also
    removes the states of idle keys when its partition's time has moved on (`worker.idle_keys`). The removal changes outputs
    only if a later record is more than ttl older than the newest time of its partition.
    """

    def __init__(self, live: Live, seconds: float) -> None:
        self._live, self._seconds = live, seconds
        self._since: dict[int, float] = {}  # slot -> lower bound of its newest event time after the batch

    @classmethod
    def of(cls, job: Job, live: Live) -> "Ttl | None":
        """None if nothing expires: no ttl, or a pooled model, which all keys share."""
        seconds = job.settings.state.ttl
        return cls(live, seconds) if seconds is not None and not live.pooled else None

    def may_expire(self, slots: list[int], times: Array) -> bool:
        """Whether one of these keys may have expired by one of these times (n,). True is sometimes wrong, False never."""
        newest = self._live.newest(slots)
        known = np.isfinite(newest)
        oldest = [self._live.oldest_held(slots[at]) for at in np.flatnonzero(~known).tolist()]
        lowest = min(float(times.min()), *oldest, *newest[known].tolist())
        return float(times.max()) - lowest > self._seconds

    def must_split(self, slot: int, time: float) -> bool:
        """Start the slot's key over if a new record of this time finds it expired.

        True: this depends on its rows in this batch, so the batch must end before this record.
        """
        since = self._since.get(slot)
        if since is None:
            newest = float(self._live.newest([slot])[0])
            if math.isfinite(newest) and time - newest > self._seconds:
                self._live.start_over(slot)
                newest = -math.inf
            self._since[slot] = min(time, newest if math.isfinite(newest) else self._live.oldest_held(slot))
            return False
        if time - since > self._seconds:
            return True
        self._since[slot] = min(since, time)
        return False


_offset = operator.attrgetter("offset")


def admit(
    job: Job,
    live: Live,
    records: Sequence[Record],
    decoded: Decoded,
    at: int,
    letters: list[tuple[int, RecordError]],
    report: Report,
) -> tuple[int, Rows, Array | None]:
    """Samples from `at` on with their keys' slots and label codes, as many as the live states have room for.

    Gives where it stopped, the samples of records that are new to their key and usable, and which are labels alone.
    """
    owner = decoded.owner
    if decoded.single:
        firsts = list(range(at, len(owner)))  # where each record begins
    elif owner[at] == owner[-1]:
        firsts = [at]
    else:
        firsts = [at, *(at + 1 + (owner[at + 1 :] != owner[at:-1]).nonzero()[0]).tolist()]
    came = records if len(firsts) == len(records) else [records[index] for index in owner[firsts].tolist()]
    keys = list(map(record_key, came))
    different, end = list(dict.fromkeys(keys)), len(owner)
    if not live.slot_of.keys() >= set(different):
        if len(different) > live.most_keys:
            fitting = keys.index(different[live.most_keys])
            came, keys, different, end = came[:fitting], keys[:fitting], different[: live.most_keys], firsts[fitting]
        # The states of keys that are not live come together: one by one costs far more.
        live.touch([live.slot_of[key] for key in different if key in live.slot_of])
        live.enter([key for key in different if key not in live.slot_of])
    rows = _as_a_whole(job, live, came, keys, decoded, firsts[: len(came)], end)
    if rows is not None:
        return end, rows, None if decoded.alone is None else decoded.alone[at:end]
    return _one_by_one(job, live, records, decoded, firsts, letters, report)


def _as_a_whole(
    job: Job, live: Live, records: Sequence[Record], keys: list[bytes], decoded: Decoded, firsts: list[int], end: int
) -> Rows | None:
    """All samples up to `end`; None, with nothing changed, if a record must be admitted by itself. keys: of the records."""
    live_slots, offsets = list(map(live.slot_of.get, keys)), list(map(_offset, records))
    if None in live_slots or any(map(operator.ge, offsets, islice(offsets, 1, None))):
        return None
    slots: list[int] = live_slots  # type: ignore[assignment]
    of_records = of_samples = np.array(slots, np.int64)
    applied, last = live.offsets.of((records[0].topic, records[0].partition)), np.array(offsets, np.int64)
    if np.count_nonzero(last <= applied[of_records]):
        return None
    part, distinct, ttl = slice(firsts[0], end), set(slots), Ttl.of(job, live)
    times, labels = decoded.times[part], decoded.labels[part]
    if ttl is not None and ttl.may_expire(list(distinct), times):
        return None
    if len(times) > len(slots):
        of_samples = np.repeat(of_records, list(map(operator.sub, [*firsts[1:], end], firsts)))
    L = _all_codes(job, live, of_samples, distinct, labels)
    if L is None:
        return None
    applied[of_records] = last  # of each key the last one
    live.dirty |= distinct
    live.touch(of_records)
    return Rows(of_samples, times, decoded.X[part], L, decoded.owner[part], np.zeros(len(times), np.int8))


def _all_codes(job: Job, live: Live, slots: Array, keys: Iterable[int], labels: list[object]) -> Array | None:
    """Label codes of samples of these keys; None if a label is refused, new to its key, or not the text of a class."""
    if job.task == "none" or labels.count(None) == len(labels):
        return unknown((len(labels), job.label_width))
    try:
        if job.task == "regression":
            return np.array([number_code(label, job.label_width) for label in labels])
        if live.pooled:
            columns = repeat(_columns(live.names[0]))
            return np.array([[of[label]] for of, label in zip(columns, labels, strict=False)])  # type: ignore[index]
        of_key = {slot: _columns(live.names[slot]) for slot in keys}
        codes: Iterator[float] = map(operator.getitem, map(of_key.__getitem__, slots.tolist()), labels)  # type: ignore[arg-type]
        return np.fromiter(codes, np.float64, len(labels)).reshape(-1, 1)
    except (RecordError, KeyError, TypeError):
        return None


@lru_cache(maxsize=4096)
def _columns(names: tuple[str, ...]) -> Mapping[str | None, float]:
    """The code of each class; most keys of a job have the same ones."""
    return dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True)) | {None: math.nan}


def _one_by_one(
    job: Job,
    live: Live,
    records: Sequence[Record],
    decoded: Decoded,
    firsts: list[int],
    letters: list[tuple[int, RecordError]],
    report: Report,
) -> tuple[int, Rows, Array | None]:
    owner, labels = decoded.owner, decoded.labels
    slots: list[int] = []
    lengths: list[int] = []
    taken: list[bool] = []
    coded: list[tuple[int, list[Code]]] = []  # (first sample, codes), of records with labels
    at = begin = firsts[0]
    touching: list[int] = []
    source, ttl = (records[0].topic, records[0].partition), Ttl.of(job, live)
    for index, first, end in zip(owner[firsts].tolist(), firsts, [*firsts[1:], len(owner)], strict=True):
        record = records[index]
        key = record.key
        assert key is not None  # the decoder refuses records without a key
        slot = live.slot_of.get(key)
        if slot is None and key not in live.aside.met:
            live.touch(touching)
            touching.clear()
            if not live.room():
                break
            slot = live.slot(key)
        if slot is None:  # the key is set aside
            slots.append(0)
            lengths.append(end - first)
            taken.append(False)
            at = end
            continue
        good = record.offset > live.offsets.of(source)[slot]
        if ttl is not None and good and ttl.must_split(slot, decoded.times[first]):
            break
        if not good:
            report.redelivered += 1
            report.applied_before.append(record.offset)
            if live.silence is not None:
                _pass(job, live, slot, record, decoded, slice(first, end), report)
        else:
            try:
                codes = _codes(job, live, slot, labels[first:end])
            except RecordError as error:
                letters.append((index, error))
                good = False
            else:
                live.offsets.of(source)[slot] = record.offset
                live.dirty.add(slot)
                if codes is not None:
                    coded.append((first - begin, codes))
        slots.append(slot)
        touching.append(slot)
        lengths.append(end - first)
        taken.append(good)
        at = end
    live.touch(touching)
    L = unknown((at - begin, job.label_width))
    for first, codes in coded:
        L[first : first + len(codes)] = codes
    of_records = np.array(slots, np.int64)
    rows = Rows(
        of_records if len(slots) == at - begin else np.repeat(of_records, lengths),  # usually a record is one sample
        decoded.times[begin:at],
        decoded.X[begin:at],
        L,
        owner[begin:at],
        np.zeros(at - begin, np.int8),  # who learns is decided by the order stage
    )
    alone = decoded.alone[begin:at] if decoded.alone is not None else None
    if not all(taken):
        keep = np.repeat(np.array(taken, bool), lengths)
        rows, alone = picked(rows, keep), None if alone is None else alone[keep]
    return at, rows, alone


def _pass(job: Job, live: Live, slot: int, record: Record, decoded: Decoded, part: slice, report: Report) -> None:
    """Report the samples of a record that its key has applied; none if its labels were refused."""
    names = live.names[slot]
    try:
        _codes(job, live, slot, decoded.labels[part])
    except RecordError:
        return
    finally:
        live.names[slot] = names
    times = decoded.times[part] if decoded.alone is None else decoded.times[part][~decoded.alone[part]]
    report.heard += [(record, time, True) for time in times.tolist()]


def _codes(job: Job, live: Live, slot: int, labels: list[object]) -> list[Code] | None:
    """Label codes of one record's samples, None without any. A refused record adds no class."""
    if job.task == "none" or labels.count(None) == len(labels):
        return None
    if job.task == "regression":
        return [number_code(label, job.label_width) for label in labels]
    slot = 0 if live.pooled else slot
    names = live.names[slot]
    try:
        return [(math.nan if label is None else float(names.index(label)),) for label in labels]  # type: ignore[arg-type]
    except ValueError:  # a label that is new, or not the text of a class
        trial = list(names)
    codes: list[Code] = [(class_code(label, trial, job.targets, job.classes is not None),) for label in labels]
    live.names[slot] = shared(trial)
    return codes
