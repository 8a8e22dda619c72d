"""What the worker needs of the core. Any core with this interface can be run; tests run a tiny one."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple, Protocol

from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.live.live_stats import LiveStats
from streamjobs.core.messages import Advanced, Codec, Record
from streamjobs.core.state.snapshot import Offsets

Scan = Callable[[bytes | None, int], list[tuple[bytes, bytes]]]  # after this key, so many: keys with their snapshots
ReadMany = Callable[[Sequence[bytes]], list[bytes | None]]  # keys -> their stored snapshots


class JobLike(Protocol):
    """A job as the worker sees it; see `streamjobs.core.job`."""

    @property
    def fingerprint(self) -> bytes: ...
    @property
    def state_bytes(self) -> int: ...  # upper bound of one key's snapshot
    @property
    def sinks(self) -> Mapping[str, str]: ...  # sink -> topic, those that are on; "dlq" always
    @property
    def model(self) -> str: ...  # its name in outputs and metrics
    def compile(self) -> None: ...
    @property
    def keyed(self) -> Callable[[Sequence[Record]], Sequence[Record]]: ...  # the records with the keys that the job uses
    def time_unit_of(self, record: Record) -> str | None: ...  # that its time must be in; None: it does not tell
    def in_time_unit(self, unit: str) -> "JobLike": ...  # decided, with [source] time_unit = "auto"
    def in_life(self, life: str) -> "JobLike": ...  # of an input topic that was recreated, for the ids of outputs
    @property
    def sections(self) -> Mapping[str, str]: ...  # those that may be added to a job with states: hashes of their settings
    def without(self, sections: Collection[str]) -> "JobLike": ...  # for records from before they were added
    def on_partitions(self, partitions: int) -> "JobLike": ...  # refuses keys inside values on other partitions than theirs


class ParkedLike(Collection[bytes], Protocol):
    """Keys with snapshots that are not stored yet."""

    bytes: int


class LogLike(Protocol):
    """The records that are remembered because snapshots lack them; see `streamjobs.core.live.log`."""

    bytes: int

    def pack(self, codec: Codec | None = None) -> int: ...  # of what was added since the last call
    def trim(self, offset: int) -> None: ...  # records before this offset are in every snapshot


class LiveLike(Protocol):
    """The states of one partition's keys; see `streamjobs.core.live.live`."""

    def snapshots(self, keys: Iterable[bytes] | None = None) -> list[tuple[bytes, bytes]]: ...
    def changed(self) -> Iterable[bytes]: ...  # live keys that `snapshots` is still to give
    @property
    def parked(self) -> ParkedLike: ...  # states that it is still to give, of keys that are not live any more
    @property
    def log(self) -> LogLike: ...
    def owed(self) -> Advanced: ...  # dead letters of keys that `snapshots` has set aside
    @property
    def aside(self) -> Sized: ...  # the keys that are set aside
    @property
    def moment(self) -> str: ...  # what the commit of the next offset as R says of all keys together
    @property
    def reported(self) -> str: ...  # behind it, what the commit of the next offset as P says
    @property
    def dirty_bytes(self) -> int: ...
    @property
    def dirty(self) -> Sized: ...
    @property
    def keys(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def now(self) -> int: ...  # batches so far
    def busy(self, key: bytes, since: int) -> bool: ...  # not stored, or used in a batch after the `since`-th
    def forget(self, key: bytes) -> None: ...
    def stats(self, since: int) -> LiveStats: ...  # of keys with a record in a batch after the `since`-th
    def worst(self, since: int, most: int) -> list[tuple[str, float]]: ...  # of these keys those with the largest LS errors
    def look_up(self, key: bytes) -> tuple[bytes, Any] | None: ...  # its snapshot now, and what it says if it is live
    @property
    def slot_of(self) -> Mapping[bytes, int]: ...  # the live keys


class Core(NamedTuple):
    """The functional core: a job, live states for a partition, and the one function that advances them."""

    job: JobLike
    make_live: Callable[[Any, ReadMany, int], LiveLike]  # job, read_many, most bytes of live states
    advance: Callable[[Any, Any, Sequence[Record]], Advanced]
    last_event: Callable[[Any, bytes], tuple[float, Offsets]]  # job, snapshot: newest event time, applied offsets
    schemas: Schemas | None = None  # of records in a format that has them; filled before the records are advanced
    meet: Callable[[Any, Scan, str, int], str] | None = None  # live states, before the first batch; see `Live.meet`
    read_open: Callable[[Any, Any, Scan], Iterator[bool]] | None = None  # of stored keys, see `core.events.away`
    forecast_plan: tuple[Sequence[str], Sequence[int], Sequence[float]] | None = None  # columns, rows ahead, coverage
