"""A fetch handed over in portions: packed it is bounded by the broker, unpacked by nothing in aiokafka 0.14.0.

A portion ends with the batch that fills it (`foreign.PORTION`), over all partitions of one call; the rest stays packed.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from aiokafka.consumer.fetcher import Fetcher, FetchResult

from streamjobs.shell.unpacking import here

_fetched = Fetcher.fetched_records


def _getall(self: Any, max_records: int | None = None) -> list[Any]:
    """As aiokafka's own, which knows no portions; what raises is fetched again."""
    if not self.has_more() or not self.check_assignment(self._topic_partition):
        return []
    records, self._partition_records = self._partition_records, None
    records._records.portioned = True
    found = list(islice(records._records_iterator, max_records))
    self._partition_records = records
    self._update_position()
    if len(found) != max_records:  # the iterator has ended: what is left needs another one
        if records._records.has_more():
            records._records_iterator = records._unpack_records()
        else:
            self._partition_records = None
    return found


async def _fetched_records(self: Any, *arguments: Any, **named: Any) -> Mapping[Any, list[Any]]:
    here.unpacked = 0
    found: Mapping[Any, list[Any]] = await _fetched(self, *arguments, **named)
    return found


def apply() -> None:
    FetchResult.getall = _getall
    Fetcher.fetched_records = _fetched_records
