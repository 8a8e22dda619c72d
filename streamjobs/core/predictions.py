"""Predictions and bouts as records."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import FAR, BatchRows, Output, Record, Report
from streamjobs.core.output_records import Bout, Minutes, Prediction, encoded_by_name, output_headers
from streamjobs.stages.rows import Choice, Modelled, Rows, count_labels

if TYPE_CHECKING:
    from streamjobs.stages.events import bouts as stage

Column = Iterable[Any]  # a field's value of each row
_NOTHING: Column = repeat(None)


def encoded_predictions(
    job: Job, live: Live, records: Sequence[Record], texts: list[str], rows: Rows, made: Modelled, report: Report
) -> list[bytes]:
    """A record for each row; counts labels and errors in the report."""
    choice = made.choice
    truth = np.empty(len(texts), np.int64)
    chosen = truth[:0] if choice is None else choice.chosen
    labelled, newest, wrong = count_labels(rows.L, chosen, truth)
    if labelled:
        report.labels += labelled
        report.wrong += wrong
        report.label_delay = records[int(rows.owner[newest])].timestamp / 1000.0 - float(rows.times[newest])
    if choice is None:
        y_hats, ys = _numbers(made.out.prediction), _numbers(rows.L)
        with np.errstate(over="ignore"):  # a prediction far out is not a measure either
            squares = ((made.out.prediction - rows.L) ** 2).mean(axis=1)
        apart = squares[squares < FAR]  # NaN: no label, or nothing said yet
        report.measured += len(apart)
        report.squared += float(apart.sum())
    else:
        names = _ClassNames(live, rows.slots.tolist())
        y_hats, ys = names.of(chosen), names.of(truth) if labelled else [None] * len(texts)
        report.unknown += 0 if choice.unknown is None else int(choice.unknown.sum())
    report.batches.append(BatchRows(texts, rows.times, made.out.ls_error, y_hats, ys))
    own = [seen.verdict[:, 1] > 0 for watch, seen in zip(job.watches, made.drift, strict=True) if not watch.control]
    alarmed: Column = np.logical_or.reduce(own).tolist() if own else _NOTHING
    columns: dict[str, Column] = {
        "key": texts,
        "ts": rows.times.tolist(),
        "seq": made.seq.tolist(),
        "model": repeat(job.model),
        "n_seen": made.seen.tolist(),
        "ls_error": made.out.ls_error.tolist(),
        "drift": alarmed,
    }
    if choice is not None:
        columns |= {"predicted_class": y_hats, "true_class": ys, **_of_class(job, names, made, choice)}
    elif rows.L.shape[1] == 1:
        columns |= {"predicted_value": y_hats, "true_value": ys}
    else:
        columns |= {"predicted_values": _whole_lists(y_hats), "true_values": _whole_lists(ys)}
    if made.filled is not None:
        columns["filled"] = made.filled.tolist()
    if choice is not None and choice.unknown is not None:
        columns["unknown"] = choice.unknown.tolist()
    if choice is not None and job.settings.sinks.scores:
        columns |= _scores(job, live, rows.slots, made, choice)
    return encoded_by_name(Prediction, columns)


def bout_of(job: Job, key: str, names: Sequence[str], one: "stage.Bout") -> Bout:
    """names: of the key's classes."""
    days = [Minutes(day, seconds / 60.0) for day, seconds in one.days]
    score = one.score if math.isfinite(one.score) else None
    place = key, one.number, names[one.code], one.start, one.end
    return Bout(*place, score, one.rows, one.labelled, days, job.model)


def encoded_bouts(
    job: Job, live: Live, records: Sequence[Record], rows: Rows, ids: Sequence[bytes], bouts: "Sequence[stage.Bout]"
) -> list[Output]:
    """A record for each bout that the rows of these ids end."""
    outputs = []
    for one in bouts:
        names = live.names[0 if live.pooled else one.slot]
        value = msgspec.json.encode(bout_of(job, live.text_of[one.slot], names, one))
        (headers,) = output_headers("bouts", [b"%s-bout-%d" % (ids[one.row], one.number)])
        key = records[int(rows.owner[one.row])].key
        outputs.append(Output("bouts", key, value, int(np.rint(one.end * 1000.0)), headers))
    return outputs


def _of_class(job: Job, names: "_ClassNames", made: Modelled, choice: Choice) -> dict[str, Column]:
    """What a classification says besides the class."""
    shares: Column = _NOTHING if made.share is None else made.share.tolist()
    heads: Column = _NOTHING if made.share is None else map(_head, made.share.tolist())
    decides, score, smoothed = job.steps.smoothing, choice.score.tolist(), _NOTHING
    if decides is not None and not decides.probabilities:  # what decided is not what the head gave
        score, smoothed = _of_column(made.out.prediction, choice.chosen), score
    labelled, known = names.labelled(choice.labelled), choice.known.tolist()
    return {"score": score, "smoothed": smoothed, "classes": known, "labelled": labelled, "head": heads, "share": shares}


def _scores(job: Job, live: Live, slots: Array, made: Modelled, choice: Choice) -> dict[str, Column]:
    """Of each row the scores that decided, by class, and its two best; null without scores or without a class."""
    scores = made.out.prediction if choice.smoothed is None else choice.smoothed
    given = job.steps.class_counts.given
    scored = np.isfinite(scores).all(axis=1).reshape(-1, 1)
    may_be = ((choice.labelled > 0) | (np.arange(scores.shape[1]) < given)) & scored
    names, pooled = live.names, live.pooled
    by_class: list[dict[str, float] | None] = []
    best: list[list[Any]] = [[], [], [], []]
    for slot, row, which in zip(slots.tolist(), scores.tolist(), may_be.tolist(), strict=True):
        of_row = dict(compress(zip(names[0 if pooled else slot], row, strict=False), which))
        by_class.append(of_row or None)
        first_two = sorted(of_row.items(), key=lambda one: -one[1])[:2]  # stable: of equal ones the first class
        flat = [part for one in first_two for part in one]
        for column, value in zip(best, [*flat, None, None, None, None], strict=False):
            column.append(value)
    return dict(zip(("scores", "first", "first_score", "second", "second_score"), (by_class, *best), strict=True))


class _ClassNames:
    """Names of the classes of rows of keys; most keys of a job have the same ones."""

    def __init__(self, live: Live, slots: list[int]) -> None:
        self._texts: list[str | None] = []
        begins: dict[tuple[str, ...], int] = {}
        of_slot: dict[int, int] = {}
        for slot in set(slots):
            names = live.names[0 if live.pooled else slot]
            if names not in begins:
                begins[names] = len(self._texts)
                self._texts += [*names, None]  # of column -1, also for the first names: behind the last ones
            of_slot[slot] = begins[names]
        self._names = {begin: names for names, begin in begins.items()}
        self._begins = None if len(begins) == 1 else list(map(of_slot.__getitem__, slots))  # of each row; None: all 0
        self._before = None if self._begins is None else np.array(self._begins)

    def of(self, columns: Array) -> list[str | None]:
        """Of each row the class of its column; None for -1."""
        if self._before is not None:
            columns = columns + self._before
        return list(map(self._texts.__getitem__, columns.tolist()))

    def labelled(self, labelled: Array) -> list[Sequence[str]]:
        """Of each row the classes that were labelled so far; labelled (n, classes)."""
        n, width = labelled.shape
        if not width:
            return [()] * n
        data = labelled.tobytes()
        flags = [data[at : at + width] for at in range(0, n * width, width)]
        if self._begins is None:
            known = {of: _classes(self._names[0], of) for of in set(flags)}
            return list(map(known.__getitem__, flags))
        places = list(zip(self._begins, flags, strict=True))
        of_place = {(begin, of): _classes(self._names[begin], of) for begin, of in set(places)}
        return list(map(of_place.__getitem__, places))


@lru_cache(maxsize=4096)
def _classes(names: tuple[str, ...], flags: bytes) -> Sequence[str]:
    """Those of the names that have a flag other than 0; most keys of a job have the same ones."""
    return tuple(compress(names, flags))


def _numbers(rows: Array) -> list[Any]:
    """A regression's number, or numbers, per row; what is unknown is encoded as null."""
    return rows[:, 0].tolist() if rows.shape[1] == 1 else rows.tolist()  # type: ignore[no-any-return]


def _whole_lists(rows: list[list[float]]) -> list[list[float] | None]:
    """Null in place of a list that lacks a number."""
    return [row if all(map(math.isfinite, row)) else None for row in rows]


def _of_column(scores: Array, columns: Array) -> list[Any]:
    """Each row's score of its class; None without one."""
    if not scores.size:
        return [None] * len(columns)
    of_rows: list[Any] = scores[np.arange(len(columns)), columns].tolist()
    for row in (columns < 0).nonzero()[0].tolist():
        of_rows[row] = None
    return of_rows


def _head(share: float | None) -> str | None:
    if share is None or math.isnan(share):
        return None
    return "adapted" if share > 0.5 else "frozen"
