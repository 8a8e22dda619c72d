"""Rows on their way through the stages, and what the stages made of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from algorithms.common.protocol import Array, Outputs
from streamjobs.stages.alarms import Event

if TYPE_CHECKING:
    from streamjobs.stages.events.bouts import Bout


class Rows(NamedTuple):
    """Rows on their way through the stages; row n belongs to the key in slots[n] and came with records[owner[n]]."""

    slots: Array  # (n,) int64
    times: Array  # (n,) float64 event time, seconds
    X: Array  # (n, d)
    L: Array  # (n, label width) label codes, NaN unknown
    owner: Array  # (n,) int64
    learn: Array  # (n,) int8
    awake: Array | None = None  # (n,) bool: not of an idle sensor; None where no one asks


class Watched(NamedTuple):
    """What a drift detector watched, and its verdicts."""

    value: Array  # (n,) NaN: not watched, or columns are
    verdict: Array  # (n, 4 or more) statistic, alarm, mean before, mean after, and what `algorithms.drift.report` names


def picked(rows: Rows, which: Array | slice) -> Rows:
    """Those where `which (n,)` bool is true, or of a slice."""
    awake = None if rows.awake is None else rows.awake[which]
    slots, times, X, L, owner, learn, _ = rows
    return Rows(slots[which], times[which], X[which], L[which], owner[which], learn[which], awake)


class Choice(NamedTuple):
    """The class of each row."""

    chosen: Array  # (n,) its column, -1 none
    smoothed: Array | None  # (n, classes) scores that decided, where they are smoothed
    known: Array  # (n,) how many classes could have been chosen
    labelled: Array  # (n, classes) int8, 1 for those the key had labelled before the row
    unknown: Array | None = None  # (n,) bool: its scores resemble no known activity; None where nothing is rejected

    def of(self, which: Array) -> "Choice":
        smoothed, unknown = (None if one is None else one[which] for one in (self.smoothed, self.unknown))
        return Choice(self.chosen[which], smoothed, self.known[which], self.labelled[which], unknown)


class Modelled(NamedTuple):
    """What the stages made of rows, for the encoder."""

    out: Outputs
    drift: list[Watched]  # first what the job uses, then the controls; none without a detector
    share: Array | None  # (n,) of the adapted head in the scores, where a frozen one stands next to it
    choice: Choice | None  # of a classification
    seq: Array  # (n,)
    seen: Array  # (n,)
    ids: list[bytes]  # n, of the rows: `core.identities`
    events: list[Event]  # alarms that are raised, or end
    bouts: "Sequence[Bout]" = ()  # that the rows end
    filled: Array | None = None  # (n,) missing numbers filled since the key's row before; None where none may be
    forecasts: Array | None = None  # (n, columns, horizons, fields), as `Forecast.table` has them
