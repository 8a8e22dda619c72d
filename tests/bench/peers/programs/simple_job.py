"""The job that all peers run: 40 floats of JSON in, a state of 1,024 cells of which a record changes one, 10 floats out.

It is `tests.bench.programs`' simple job without the worker. It needs msgspec alone, because every peer has its own packages.
"""

import struct

import msgspec

CELLS = 1024
cell, counter = struct.Struct("<d"), struct.Struct("<q")
COUNT_AT, SIZE = 8 * CELLS, 8 * CELLS + 16


class Sample(msgspec.Struct):
    x: list[float]
    ts: float


class Answer(msgspec.Struct):
    y: list[float]
    ts: float


decode, encode = msgspec.json.Decoder(Sample).decode, msgspec.json.Encoder().encode
decode_answer = msgspec.json.Decoder(Answer).decode


def apply(state: bytearray, value: bytes) -> tuple[bytes, float]:
    """Change the state of one key in place; gives the answer and its event time in seconds."""
    sample = decode(value)
    count = counter.unpack_from(state, COUNT_AT)[0] + 1
    at = 8 * (count % CELLS)
    total = cell.unpack_from(state, at)[0] + sample.x[0]
    cell.pack_into(state, at, total)
    counter.pack_into(state, COUNT_AT, count)
    return encode(Answer([float(count), total, *sample.x[2:10]], sample.ts)), sample.ts
