"""Keys that are set aside: a state that cannot be read or written stops its key, and no other key.

The records of such a key become dead letters with the reason `state`. Its stored bytes stay unchanged until a command resets
or restores the state.
"""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from streamjobs.core.live.log import Log
from streamjobs.core.messages import ASIDE, BACK, Advanced, Record, Report, SetAside, add_letter
from streamjobs.core.state.snapshot import Offsets
from streamjobs.errors import RecordError

MOST = 10_000  # keys that are remembered; the state of any other key is read again with its next record
READ, WRITTEN = BACK
SHOWN = 100  # characters of a key in a message


class Verdict(NamedTuple):
    """Why a key is set aside."""

    what: str  # the state cannot be READ, or cannot be WRITTEN
    why: str  # a sentence
    applied: Offsets  # offsets up to which records need no letter: what its stored state has applied, then what has letters


class Aside:
    """The keys of a partition that are set aside.

    met: the keys among them that have records in the present batch. new: the keys since the last call of `owed`.
    """

    def __init__(self) -> None:
        self.verdicts: dict[bytes, Verdict] = {}
        self.met: dict[bytes, Verdict] = {}
        self.new: list[SetAside] = []
        self._owed: list[tuple[Record, RecordError]] = []  # records that keys had applied since their last stored states

    def __len__(self) -> int:
        return len(self.verdicts)

    def __contains__(self, key: bytes) -> bool:
        return key in self.verdicts

    def add(self, key: bytes, verdict: Verdict, log: Log | None) -> None:
        """Set the key aside. log: the records applied since its last stored state; None if there are none."""
        if key not in self.verdicts and len(self.verdicts) >= MOST:
            del self.verdicts[next(iter(self.verdicts))]
        self.verdicts[key] = self.met[key] = verdict
        self.new.append(SetAside(blake2b(key, digest_size=8).hexdigest(), verdict.what, verdict.why))
        if log is not None:
            applied = {record.offset: record for record in log.of_key(key) if _is_new(record, verdict)}
            self._owed += [(record, _error(record, verdict)) for record in applied.values()]
            self.pass_by(list(applied.values()))

    def meet(self, records: Sequence[Record]) -> list[bool] | None:
        """Which records of a new batch are of keys that are set aside; None if no record is."""
        self.met.clear()
        keys = {record.key for record in records if record.key is not None}
        self.met |= {key: self.verdicts[key] for key in keys if key in self.verdicts}
        return [record.key in self.met for record in records] if self.met else None

    def pass_by(self, records: Sequence[Record]) -> None:
        """Note that these records, in order, have their letters: if they are read again, they get no second letter."""
        for record in records:
            verdict = self.verdicts.get(record.key or b"")
            if verdict is not None and _is_new(record, verdict):
                verdict.applied[record.topic, record.partition] = record.offset

    def letters(
        self, records: Sequence[Record], decoded: Iterable[int], lettered: Collection[int], report: Report
    ) -> list[tuple[int, RecordError]]:
        """Dead letters of the batch's records of keys that are set aside, by index; counts records that were applied before.

        decoded: indices of the records that gave samples. lettered: indices of the records that are dead letters already.
        """
        letters = []
        for index in decoded:
            record = records[index]
            verdict = self.met.get(record.key or b"")
            if verdict is None or index in lettered:
                continue
            if _is_new(record, verdict):
                letters.append((index, _error(record, verdict)))
            else:
                report.redelivered += 1
        return letters

    def owed(self, life: str) -> Advanced:
        """Dead letters of records that keys had applied before they were set aside; the report names the keys' hashes.

        life: of the input topic, see `topic_of_life`.
        """
        advanced = Advanced([], Report(set_aside=self.new))
        for record, error in self._owed:
            add_letter(record, error, life, *advanced)
        self.new, self._owed = [], []
        return advanced

    def with_owed(self, advanced: Advanced, life: str) -> Advanced:
        """`advanced` behind the letters that are owed, because these are older."""
        outputs, report = self.owed(life)
        report.add(advanced.report)
        return Advanced([*outputs, *advanced.outputs], report)


def _is_new(record: Record, verdict: Verdict) -> bool:
    return record.offset > verdict.applied.get((record.topic, record.partition), -1)


def _error(record: Record, verdict: Verdict) -> RecordError:
    key = f"{(record.key or b'').decode('utf-8', 'backslashreplace')!r:.{SHOWN}}"
    return RecordError(
        ASIDE,
        f"topic {record.topic}[{record.partition}] offset {record.offset}: expected a state of key {key} that can be "
        f"{verdict.what}, got a state that cannot ({verdict.why.rstrip('.')}); {BACK[verdict.what]}. Then 'streamjobs dlq "
        "redrive JOB --reason state' sends its records again.",
        ASIDE,
    )
