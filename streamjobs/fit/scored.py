"""Scores of a replay's predictions against their labels, as `fit` reports people left out: `streamjobs replay --score`.

A recording of a key is a part with one label and without a long pause, as in `fit` without a column of recordings. An alarm
in its first WITHIN seconds, or in as many before it that have no label, is a true change where the label before was another
one. Neither true nor false is an alarm in the first WITHIN seconds of any other recording, because something else did begin
there, and where labels are missing between recordings. All others are false. A change after more than APART seconds
without a label does not count, because its time is not known. The hours are those in which an alarm would be false.
"""

import itertools
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.messages import LateLabel, Output
from streamjobs.errors import ConfigError
from streamjobs.fit.evaluation import Runs
from streamjobs.fit.reading import LATE_SHARE
from streamjobs.fit.recordings import Recordings, Stream, begins, fresh, late_windows, worth
from streamjobs.fit.reports.report import LAST, MAJORITY, REPLAYED, Evaluated
from streamjobs.recordings.places import natural
from streamjobs.replay.scoring import Row, controls, with_late

WITHIN = 10.0  # seconds
APART = 60.0  # seconds
JOB = "this job"


class Alarmed(NamedTuple):
    """Alarms, by what the labels do."""

    changes: int  # from one label to another
    found: int  # of these, with an alarm within WITHIN seconds
    false: int
    hours: float  # in which an alarm is false
    unknown: int  # changes at a time that is not known


class Scores:
    """Collects a replay's predictions and alarms."""

    def __init__(
        self, delay: float, length: float | None = None, wait: float = 0.0, taught: bool = False, declared: bool = False
    ) -> None:
        """delay: seconds until a label is learned; length: of a window; None: rows are samples.

        wait: seconds that rows wait for labels that come later; then `add_late` before any figure. taught: people of a
        population taught the job, who may be these. declared: the job states its classes.
        """
        self.delay, self.length, self.wait, self.taught, self.declared = delay, length, wait, taught, declared
        self.after = delay  # seconds from a row to its label
        self.rows: dict[str, list[Row]] = {}  # with a label, or waiting for one
        self.known: dict[str, list[bool]] = {}  # of each, whether it has a prediction to score
        self.alarms: dict[str, list[float]] = {}
        self.unlabelled = self.unknown = 0
        self.late = self.samples = 0  # samples that were skipped as late, and all
        self.classless = 0  # dead letters, because the job has no class for their label
        self.hop = 0.0  # seconds between two rows of a key, most often; of `evaluated`

    def take(self, output: Output) -> None:
        if output.value is None:
            return
        if output.sink == "predictions":
            row = json.loads(output.value)
            label, unknown = row["true_class"], row.get("unknown", False)
            if label is None and not self.wait:
                self.unlabelled += 1
                return
            self.unknown += unknown and label is not None
            self.known.setdefault(row["key"], []).append(not unknown)
            self.rows.setdefault(row["key"], []).append(Row(row["key"], row["ts"], row["predicted_class"], label))
        elif output.sink == "alarms":
            alarm = json.loads(output.value)
            if alarm["open"]:
                self.alarms.setdefault(alarm["key"], []).append(alarm["start"])

    def add_late(self, late: Iterable[LateLabel]) -> None:
        """All labels that came in records of their own; the median says how late they are."""
        own, after = defaultdict[str, list[LateLabel]](list), list[float]()
        for one in late:
            own[one.key].append(one)
        for key, rows in self.rows.items():
            there = [at for at in zip(with_late(rows, own[key]), self.known[key], strict=True) if at[0].label is not None]
            self.unlabelled += len(rows) - len(there)
            self.rows[key], self.known[key] = [row for row, _ in there], [known for _, known in there]
            self.unknown += sum(not known for row, known in there if row.known is not None)
            after += [row.known[0] - row.time for row, _ in there if row.known is not None]
        self.after = median(after) if after else self.after

    def evaluated(self) -> Evaluated:
        """Raises ConfigError without a row to score."""
        keys = sorted((key for key, known in self.known.items() if any(known)), key=natural)
        if not keys:
            raise ConfigError("--score: no row has a class and a label to score it by; check [source] label.")
        apart = [b.time - a.time for rows in self.rows.values() for a, b in itertools.pairwise(rows)]
        self.hop = float(median(apart)) if apart else 0.0
        names = sorted({name for rows in self.rows.values() for row in rows for name in (row.label, row.said) if name})
        code: dict[str | None, int] = {None: -1, **{name: n for n, name in enumerate(names)}}
        runs: Runs = {}
        activity: list[Array] = []
        person: list[Array] = []
        recording: list[Array] = []
        late = late_windows(self.after, self.hop)
        for number, key in enumerate(keys, 1):
            rows, known = self.rows[key], np.array(self.known[key])
            part = np.cumsum(self._begins(rows)) + (int(recording[-1][-1]) if recording else 0)
            truth, first = np.array([code[row.label] for row in rows])[known], fresh(part, late)[known]
            stream = Stream(np.empty((len(truth), 0)), truth, part[known], late)
            last, most = controls("classification", rows, self.delay).values()
            for name, said in ((MAJORITY, most), (LAST, last), (JOB, rows)):
                chosen = np.array([code.get(row.said, -1) for row in said])[known]
                runs.setdefault(name, {})[number, 0] = chosen, truth, worth(chosen, stream, first)
            activity.append(truth)
            person.append(np.full(len(truth), number))
            recording.append(part[known])
        true, owner, parts = (np.concatenate(column) for column in (activity, person, recording))
        data = Recordings(np.empty((len(true), 0)), true, owner, parts, names, ["", *keys])
        return Evaluated(REPLAYED, data, runs, [JOB], None, late, 1, more=tuple(self._sentences()), left_out=False)

    def alarmed(self) -> Alarmed:
        """Of all keys with labels."""
        changes = found = false = unknown = 0
        seconds = 0.0
        for key, rows in self.rows.items():
            at, begins = sorted(self.alarms.get(key, [])), np.flatnonzero(self._begins(rows)).tolist()
            for row in begins[1:]:
                before, after = rows[row - 1], rows[row]
                if after.label == before.label:
                    continue
                if after.time - before.time > APART:
                    unknown += 1
                else:
                    since = max(before.time, after.time - WITHIN)  # what comes between has no label
                    first = bisect_right(at, since)
                    changes += 1
                    found += first < len(at) and at[first] <= after.time + WITHIN
            parts = itertools.pairwise([*begins, len(rows)])
            known = [(rows[first].time + WITHIN, rows[last - 1].time) for first, last in parts]
            seconds += sum(max(0.0, until - since) for since, until in known)
            false += sum(any(since < alarm <= until for since, until in known) for alarm in at)
        return Alarmed(changes, found, false, seconds / 3600.0, unknown)

    def _sentences(self) -> list[str]:
        lines = []
        if self.unlabelled or self.unknown:
            lines.append(f"Not scored: {self.unlabelled:,} rows without a label, {self.unknown:,} unknown ones.")
        if self.classless:
            how = (
                "Add the labels to classes, and fit again."
                if self.declared
                else "Raise max_classes, and a worker learns such labels."
            )
            lines.append(
                f"Not scored: {self.classless:,} records with a label that the job has no class for, so the figures are too "
                f"good. {how}"
            )
        if self.late > LATE_SHARE * self.samples:
            lines.append(
                f"Do not rely on these figures: {self.late:,} of {self.samples:,} samples were left out, because they are "
                "older than others of their key. Send each key's samples in order of time. If recordings overlap in time, "
                "'streamjobs fit --test' with this file scores them recording by recording."
            )
        if self.taught:
            lines.append(
                "The population does not contain the names of the people who taught it. If these people did, a new person "
                "is recognised less well: 'streamjobs fit' estimates how well."
            )
        if self.alarms:
            one = self.alarmed()
            also = f" ({one.unknown} more after {APART:g} s without a label are not counted)" if one.unknown else ""
            false = "labels are too rare to recognise false ones"
            if one.hours:
                false = f"{one.false} false, {one.false / one.hours:.1f} an hour of a key within an activity"
            lines.append(f"Alarms: {one.found} of {one.changes} changes of the label within {WITHIN:g} s{also}; {false}.")
        return lines

    def _begins(self, rows: list[Row]) -> Array:
        """(n,) bool: the first rows of recordings."""
        length = self.hop if self.length is None else self.length
        return begins(np.array([row.time for row in rows]), [row.label for row in rows], length)
