"""Lines of progress of a replay."""

import io
from pathlib import Path

import pytest

from streamjobs.recordings.places import places
from streamjobs.replay.engine import Tally
from streamjobs.replay.progress import Progress


@pytest.mark.parametrize("read, said", [(5 << 20, True), (-1, False)])
def test_a_line_says_how_much_of_the_file_is_read(tmp_path: Path, read: int, said: bool) -> None:
    file, out = tmp_path / "a.csv", io.StringIO()
    file.write_bytes(b"1,2,3\n" * (10 << 20))
    progress = Progress("classification", out)
    (place,) = places(file)
    with place.open() as opened:
        progress.opened(opened, file.stat().st_size)
        opened.read(read)
        progress.line(Tally(samples=1))
    assert ("8% read, 0:00:0" in out.getvalue()) is said
