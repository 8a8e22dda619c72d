"""Writes outputs as JSON lines, a file per sink: {"key", "id", "timestamp", "value"}, and for dead letters the error."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from streamjobs.core.messages import Output
from streamjobs.errors import StreamjobsError, unwritable

_encode = msgspec.json.Encoder().encode


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
