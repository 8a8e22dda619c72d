"""The usual batch: a sample of JSON in every record, all in order. What is unusual is left to the reading one by one."""

import operator
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from streamjobs.config import MirrorSection, SourceSection
from streamjobs.core.formats import UNDECODABLE, structs, values_of
from streamjobs.core.samples import MAX_LABEL, Singles

ParseAll = Callable[[list[bytes]], Singles | None]

_USUAL_LABELS = {str, type(None)}


def batch_parser(source: SourceSection, dim: int, mirror: MirrorSection | None = None) -> ParseAll | None:
    """The function that reads values of one sample each, all at once; None where that gains nothing.

    It gives None where a value is anything else: then each of them is read by itself, which also says what is wrong.
    """
    if source.format != "json" or mirror is not None:
        return None
    decode = msgspec.json.Decoder(structs(source, False, None)[0]).decode
    number_of = values_of(dim) if source.fields is not None else operator.attrgetter("x")
    time_of, label_of = operator.attrgetter("time"), operator.attrgetter("label")
    timed, labelled = source.time is not None, source.label is not None
    pack = struct.Struct(f"{dim}d").pack

    def parse(values: list[bytes]) -> Singles | None:
        try:
            messages = list(map(decode, values))
            rows = bytearray().join([pack(*numbers) for numbers in map(number_of, messages)])
            times = np.array(list(map(time_of, messages)), dtype=np.float64) if timed else None
        except (*UNDECODABLE, struct.error):
            return None
        labels: list[Any] = list(map(label_of, messages)) if labelled else [None] * len(values)
        if not set(map(type, labels)) <= _USUAL_LABELS or max(map(len, filter(None, labels)), default=0) > MAX_LABEL:
            return None
        return Singles(np.frombuffer(rows, np.float64).reshape(len(values), dim), times, labels)

    return parse
