"""How far work travels through the files of the project: one record, one job file, one stored state.

`python -m tests.layers ways` prints the table. All counts are of Python functions defined in `streamjobs` and `algorithms`,
as `sys.setprofile` reports their calls: methods, properties, lambdas, comprehensions, and each step of a generator.
Functions of the standard library and of other packages are not counted, nor what they call in C, nor compiled loops.

calls: number of such calls. changes: a call counts when its function is in another file than the function called before it;
returns do not count. files: number of files that the calls are in.
"""

import gc
import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tests.layers.imports import CHECKOUT, PACKAGES

FIRST = 1_700_000_000.0  # event time of the first record, seconds
PLACES = tuple(f"{CHECKOUT / package}/" for package in PACKAGES)


class Way(NamedTuple):
    """Calls in order: (file, function)."""

    steps: list[tuple[str, str]]

    @property
    def calls(self) -> int:
        return len(self.steps)

    @property
    def files(self) -> int:
        return len({file for file, _ in self.steps})

    @property
    def changes(self) -> int:
        files = [file for file, _ in self.steps]
        return sum(before != after for before, after in pairwise(files))


def walked(work: Callable[[], Any]) -> Way:
    """The calls that `work` makes; what it makes once per process should have happened before.

    The garbage collector would end generators that other code left, which counts as calls of them.
    """
    steps: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PLACES):
            steps.append((file.removeprefix(f"{CHECKOUT}/"), frame.f_code.co_name))

    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return Way(steps)


def plain_job() -> str:
    """The job file of the README without [drift]."""
    (block,) = re.findall(r"```toml\n(.*?)```", (CHECKOUT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return re.sub(r"^\[drift\]\n.*?(?=^\[|\Z)", "", textwrap.dedent(block), flags=re.DOTALL | re.MULTILINE)


def ways() -> dict[str, Way]:
    """By what is done: the way of one record that completes a window, of the job file, and of the state in and out."""
    from streamjobs.core.advance import advance
    from streamjobs.core.live.live import Live
    from streamjobs.core.live.stored import decode_snapshot
    from streamjobs.core.messages import Stored
    from streamjobs.job_files import job_of
    from tests.compiling import one_at_a_time

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.toml"
        path.write_text(plain_job(), encoding="utf-8")
        job = job_of(path)
        job_file = walked(lambda: job_of(path))
    with one_at_a_time():
        job.compile()
    live = Live(job)
    records = []
    for at in range(700):
        time = FIRST + at / 50
        fields = {name: 0.1 * (at % (3 + n)) for n, name in enumerate(job.settings.source.fields or ())}
        value = json.dumps({"ts": time, "activity": "row", **fields}).encode()
        records.append(Stored("imu", 0, at, round(time * 1000), b"p7", value))
    for record in records[:600]:
        advance(job, live, [record])
    live.snapshots()
    each = [walked(lambda record=record: advance(job, live, [record])) for record in records[600:]]  # type: ignore[misc]
    ((_, data),) = live.snapshots()
    decode_snapshot(job, data)  # what a job makes once, at the first state
    advance(job, live, [records[-1]._replace(offset=len(records))])
    return {
        "one record through advance": max(each, key=lambda way: way.calls),
        "job file to Job": job_file,
        "state in (decode_snapshot)": walked(lambda: decode_snapshot(job, data)),
        "state out (snapshots)": walked(live.snapshots),
    }


def table(all_ways: dict[str, Way]) -> str:
    head = f"{'':32}{'files':>8}{'calls':>8}{'changes':>9}"
    return "\n".join([head, *(f"{name:32}{way.files:8}{way.calls:8,}{way.changes:9}" for name, way in all_ways.items())])
