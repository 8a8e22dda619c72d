"""Rows on their way through the stages, and what the stages made of them."""

from typing import NamedTuple

from algorithms.common.protocol import Array, Outputs


class Rows(NamedTuple):
    """Rows on their way through the stages; row n belongs to the key in slots[n] and came with records[owner[n]]."""

    slots: Array  # (n,) int64
    times: Array  # (n,) float64 event time, seconds
    X: Array  # (n, d)
    L: Array  # (n, label width) label codes, NaN unknown
    owner: Array  # (n,) int64
    learn: Array  # (n,) int8


class Said(NamedTuple):
    """The class of each row."""

    chosen: Array  # (n,) its column, -1 none
    smoothed: Array | None  # (n, classes) scores that decided, where they are smoothed
    known: Array  # (n,) how many classes could have been said
    labelled: Array  # (n, classes) int8, 1 for those the key had labelled before the row


class Modelled(NamedTuple):
    """What the stages made of rows, for the encoder."""

    out: Outputs
    drift: Array | None  # (n, 4) statistic, alarm, mean before, mean after
    watched: Array  # (n,) what the detector saw
    share: Array | None  # (n,) of the adapted head in the scores, where a frozen one stands beside it
    said: Said | None  # of a classification
    seq: Array  # (n,)
    seen: Array  # (n,)
