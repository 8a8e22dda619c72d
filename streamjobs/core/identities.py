"""The id of every row: which record caused it, and which of that record's rows it is. Readers drop repeats by it."""

import operator
from collections.abc import Sequence

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.messages import Record, topic_of_life


def identities(records: Sequence[Record], owner: Array, life: str = "") -> list[bytes]:
    """Topic-partition-offset of records[owner[n]]; where it gave several rows, with -i behind it, the place among them.

    owner (n,); records are of one topic and partition; life: of the topic, see `topic_of_life`.
    """
    owners = owner.tolist()
    if not owners:
        return []
    first = records[owners[0]]
    topic = topic_of_life(first.topic, life) if life else first.topic
    base = f"{topic}-{first.partition}-".encode()
    different = set(owners)
    if len(different) == len(owners):
        return [b"%s%d" % (base, records[index].offset) for index in owners]
    times = np.bincount(owner)
    of_record = {index: b"%s%d" % (base, records[index].offset) for index in different}
    if (owner[1:] >= owner[:-1]).all():
        running = np.arange(len(owner)) - np.searchsorted(owner, owner)
    else:
        running = np.empty(len(owner), np.int64)
        order = np.argsort(owner, kind="stable")
        running[order] = np.arange(len(owner)) - np.searchsorted(owner[order], owner[order])
    behind = [b"", *[b"-%d" % number for number in range(int(times.max()))]]
    places = np.where(times[owner] > 1, running + 1, 0).tolist()
    return list(map(operator.add, map(of_record.__getitem__, owners), map(behind.__getitem__, places)))
