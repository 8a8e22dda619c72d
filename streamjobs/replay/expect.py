"""Outputs against recorded ones, exactly: every number of every key's outputs, in the key's order.

Keys may be interleaved differently (a worker's partitions are), and where a record lay in its topic (`id`) may differ;
the values may not.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from streamjobs.core.messages import Output
from streamjobs.errors import ConfigError, MismatchError
from streamjobs.replay.writing import line_of


class Expected:
    """Recorded lines of a folder with `<sink>.jsonl` files, or of one such file."""

    def __init__(self, path: Path, sinks: list[str]) -> None:
        files = [path] if path.is_file() else sorted(file for sink in sinks if (file := path / f"{sink}.jsonl").is_file())
        if not files or any(file.stem not in sinks for file in files):
            names = ", ".join(f"{sink}.jsonl" for sink in sinks)
            raise ConfigError(f"--expect {path}: expected one of {names}, or a folder with some of them.")
        self.path = path
        self.lines: dict[str, dict[str | None, list[dict[str, Any]]]] = {}
        for file in files:
            self.lines[file.stem] = _read(file)
        self.taken: dict[tuple[str, str | None], int] = defaultdict(int)
        self.compared = 0
        self.problem: str | None = None  # the first differing place

    def take(self, output: Output) -> None:
        """Compare one output with the next recorded one of its sink and key."""
        if output.sink not in self.lines or self.problem is not None:
            return
        got = json.loads(line_of(output))
        place = output.sink, got["key"]
        index = self.taken[place]
        self.taken[place] += 1
        recorded = self.lines[output.sink].get(got["key"], [])
        where = f"{output.sink} of key {got['key']!r}, output {index + 1} (from {got['id']})"
        if index >= len(recorded):
            self.problem = f"{where}: {self.path} has only {len(recorded)}."
        elif (difference := _difference(recorded[index]["value"], got["value"])) is not None:
            self.problem = f"{where}: {difference}."
        else:
            self.compared += 1

    def finish(self) -> int:
        """How many outputs were compared; raises MismatchError with the first place that differs."""
        if self.problem is None:
            for sink, keys in self.lines.items():
                for key, recorded in keys.items():
                    if self.taken[sink, key] < len(recorded):
                        got = self.taken[sink, key]
                        self.problem = f"{sink} of key {key!r}: {self.path} has {len(recorded)} outputs, got {got}."
                        break
        if self.problem is not None:
            raise MismatchError(f"mismatch: {self.problem}")
        return self.compared


def _read(file: Path) -> dict[str | None, list[dict[str, Any]]]:
    keys: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for number, text in enumerate(file.read_bytes().splitlines(), 1):
        try:
            line = json.loads(text)
            keys[line["key"]].append({"value": line["value"]})
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f'--expect {file} line {number}: expected {{"key": .., "value": ..}} as replay writes.'
            ) from None
    return keys


def _difference(expected: Any, got: Any, place: str = "value") -> str | None:
    """Where two values first differ, and how; numbers must be the same number, not a close one.

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
