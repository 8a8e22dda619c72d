"""Outputs as JSON lines, a file per sink: {"key", "id", "timestamp", "value"}, and for dead letters the error.

They are written, or compared with recorded ones: every number of every key's outputs must be equal, in the key's order.
Keys may be interleaved differently, as a worker's partitions are. What names the place of a record in its topic may differ:
the `id` of an output, and that of an alarm, as long as both records of the alarm have the same.
"""

import json
import re
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from streamjobs.core.messages import Output
from streamjobs.errors import ConfigError, MismatchError, StreamjobsError, unwritable
from streamjobs.settings.broker import BrokerSection

_encode = msgspec.json.Encoder().encode
Recorded = dict[str, dict[str | None, list[Any]]]  # sink -> key -> values in order


def line_of(output: Output) -> bytes:
    """An output as one line. A JSON value keeps the bytes that a worker sends."""
    headers = dict(output.headers)
    key = None if output.key is None else output.key.decode("utf-8", "backslashreplace")
    line: dict[str, Any] = {"key": key, "id": headers["streamjobs-id"].decode(), "timestamp": output.timestamp}
    if output.sink == "dlq":
        line["reason"] = headers["streamjobs-error-reason"].decode()
        line["message"] = headers["streamjobs-error-message"].decode()
        line["value"] = None if output.value is None else output.value.decode("utf-8", "backslashreplace")
    else:
        line["value"] = msgspec.Raw(output.value or b"null")
    return _encode(line)


class Writer(ExitStack):
    """Writes files `<folder>/<sink>.jsonl`, one for every sink of the job; with folder None it writes nothing."""

    def __init__(self, folder: Path | None, sinks: list[str]) -> None:
        super().__init__()
        self.folder = folder
        self.files: dict[str, BinaryIO] = {}
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for sink in sinks:
                self.files[sink] = self.enter_context((folder / f"{sink}.jsonl").open("wb"))
        except OSError as error:
            raise self._unwritable(error) from None

    def take(self, output: Output) -> None:
        file = self.files.get(output.sink)
        if file is not None:
            line = line_of(output) + b"\n"
            try:
                file.write(line)
            except OSError as error:
                raise self._unwritable(error) from None

    def __exit__(self, *details: Any) -> bool | None:
        try:
            return super().__exit__(*details)  # writes what is buffered
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> StreamjobsError:
        return unwritable(f"--output-dir {self.folder}", error)


class Expected:
    """Recorded outputs to compare with; `origin` tells where they were recorded, for messages."""

    def __init__(self, recorded: Recorded, origin: str) -> None:
        self.recorded, self.origin = recorded, origin
        self.taken: dict[tuple[str, str | None], int] = defaultdict(int)
        self.compared = 0
        self.alarms: dict[str, str] = {}  # recorded id -> id here
        self.problem: str | None = None  # the first difference

    def take(self, output: Output) -> None:
        """Compare an output with the next recorded one of its sink and key."""
        if output.sink not in self.recorded or self.problem is not None:
            return
        got = json.loads(line_of(output))
        place = output.sink, got["key"]
        index = self.taken[place]
        self.taken[place] += 1
        recorded = self.recorded[output.sink].get(got["key"], [])
        where = f"{output.sink} of key {got['key']!r}, output {index + 1} (from {got['id']})"
        if index >= len(recorded):
            self.problem = f"{where}: expected {len(recorded)} outputs at most, as in {self.origin}."
            return
        expected = self._as_here(output.sink, recorded[index], got["value"])
        if (difference := _difference(expected, got["value"])) is not None:
            self.problem = f"{where}: {difference}."
        else:
            self.compared += 1

    def _as_here(self, sink: str, recorded: Any, got: Any) -> Any:
        """A recorded value, an alarm with its id here: that is made of the place of a record in its topic."""
        if sink != "alarms" or not all(isinstance(one, dict) and isinstance(one.get("id"), str) for one in (recorded, got)):
            return recorded
        return recorded | {"id": self.alarms.setdefault(recorded["id"], got["id"])}

    def finish(self) -> int:
        """The number of outputs compared; raises MismatchError with the first difference."""
        for sink, keys in self.recorded.items():
            for key, recorded in keys.items():
                wanted = f"{len(recorded)} outputs, as in {self.origin}"
                if self.problem is None and (got := self.taken[sink, key]) < len(recorded):
                    self.problem = f"{sink} of key {key!r}: expected {wanted}, got {got}."
        if self.problem is not None:
            raise MismatchError(f"mismatch: {self.problem}")
        return self.compared


def from_files(path: Path, sinks: list[str]) -> Expected:
    """Outputs that replay wrote: a folder with `<sink>.jsonl` files, or one such file. Raises ConfigError."""
    files = [path] if path.is_file() else sorted(file for sink in sinks if (file := path / f"{sink}.jsonl").is_file())
    if not files or any(file.stem not in sinks for file in files):
        names = ", ".join(f"{sink}.jsonl" for sink in sinks)
        raise ConfigError(f"--expect {path}: expected one of {names}, or a folder with some of them.")
    recorded: Recorded = {}
    for file in files:
        recorded[file.stem] = keys = defaultdict(list)
        for number, text in enumerate(file.read_bytes().splitlines(), 1):
            try:
                line = json.loads(text)
                keys[line["key"]].append(line["value"])
            except (ValueError, KeyError, TypeError):
                place = f"--expect {file} line {number}"
                raise ConfigError(f'{place}: expected {{"key": .., "value": ..}} as replay writes it.') from None
    return Expected(recorded, str(path))


def from_topics(broker: BrokerSection, topics: dict[str, str], source: str) -> Expected:
    """Outputs that a worker sent to its topics (sink -> topic), without repeats after a crash. Raises SetupError.

    source: the input. Records of jobs with another input, and of no job, are left out.
    """
    from streamjobs.kafka.reader import topic_records

    recorded: Recorded = {}
    of_source = re.compile(re.escape(source.encode()) + rb"(-\d+){2,3}(-[a-z_]+(-[0-9a-f]+)?)?(-end)?")  # alarms: more
    for sink, topic in topics.items():
        recorded[sink] = keys = defaultdict(list)
        seen = set()  # ids
        for record in topic_records(broker, topic):
            if not of_source.fullmatch(dict(record.headers).get("streamjobs-id", b"")):
                continue
            line = json.loads(line_of(Output(sink, record.key, record.value, record.timestamp, list(record.headers))))
            if line["id"] not in seen:
                seen.add(line["id"])
                keys[line["key"]].append(line["value"])
    return Expected(recorded, "the topics")


def _difference(expected: Any, got: Any, place: str = "value") -> str | None:
    """Where and how two values first differ, None if they are equal; numbers must be exactly equal.

    >>> _difference({"y_hat": "sit", "z": [1.0, 2.0]}, {"y_hat": "sit", "z": [1.0, 2.5]})
    'z[1] is 2.5, expected 2.0'
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        for name in [*expected, *(name for name in got if name not in expected)]:
            if name not in got:
                return f"{name} is absent, expected {expected[name]!r:.60}"
            if name not in expected:
                return f"{name} is {got[name]!r:.60}, expected none"
            inner = _difference(expected[name], got[name], name)
            if inner is not None:
                return inner
        return None
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for i, pair in enumerate(zip(expected, got, strict=True)):
            inner = _difference(*pair, f"{place}[{i}]")
            if inner is not None:
                return inner
        return None
    same = expected == got and isinstance(expected, bool) == isinstance(got, bool)
    return None if same else f"{place} is {got!r:.60}, expected {expected!r:.60}"
