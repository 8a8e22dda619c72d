"""Snapshots straight from the workspaces: the bytes `snapshot.encode` gives for the saved states, without saving them.

A checkpoint of thousands of keys spends its time here. A stage that keeps its state in another form than it stores
(it has its own `save`) is saved first. A test holds that both ways give the same bytes.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from algorithms.common.protocol import Array, Stage
from streamjobs.core.snapshot import array_header, flatten

Pack = Callable[[list[bytes], int], None]  # appends headers and data of one slot


def packers(stage: Any, work: Any, like: Any) -> Iterator[Pack]:
    """One per array of the stage's state, in snapshot order. They hold the arrays until the workspace grows: use at once."""
    if all(hasattr(value, "_fields") for value in like):  # a composite: its parts carry the names of its state's fields
        for field, value in zip(like._fields, like, strict=True):
            yield from packers(getattr(stage, field), getattr(work, field), value)
    elif type(stage).save is not Stage.save:
        yield _saved(stage, work, like)
    else:
        for index, field in enumerate(like._fields):
            if field in stage.stored:
                yield _stored(work.arrays[index], work.arrays[len(like)][:, stage.stored.index(field)])
            else:
                yield _fixed(work.arrays[index])


def _fixed(array: Array) -> Pack:
    header = array_header(array.dtype, array.shape[1:])

    def pack(parts: list[bytes], slot: int) -> None:
        parts += (header, array[slot].tobytes())

    return pack


def _stored(array: Array, counts: Array) -> Pack:
    shape = array.shape[2:]
    code, dimensions = array_header(array.dtype, (0, *shape))[:2]
    header = struct.Struct(f"<BB{dimensions}I").pack

    def pack(parts: list[bytes], slot: int) -> None:
        count = int(counts[slot])
        parts += (header(code, dimensions, count, *shape), array[slot, :count].tobytes())

    return pack


def _saved(stage: Any, work: Any, like: Any) -> Pack:
    def pack(parts: list[bytes], slot: int) -> None:
        for array in flatten(stage.save(work, slot, like)):
            parts += (array_header(array.dtype, array.shape), array.tobytes())

    return pack
