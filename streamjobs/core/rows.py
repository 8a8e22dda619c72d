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


class Modelled(NamedTuple):
    """What the stages made of rows, for the encoder."""

    out: Outputs
    drift: Array | None  # (n, 4) statistic, alarm, mean before, mean after
    watched: Array  # (n,) what the detector saw
    chosen: Array | None  # (n,) predicted class columns, -1 none
    known: Array  # (n,) how many classes had been labelled before the row
    seq: Array
    seen: Array
