"""A job that mirrors reads its side from every kind of file."""

import pytest

from tests.commands.jobs import JOB, as_csv, as_parquet, command, job_file, jsonl, rows

MIRROR = 'mirror = { field = "arm", when = "left", columns = ["ax"] }\n'


def recorded():
    """The same motion of three people, one of them with the sensor on the left arm."""
    for row in rows(600):
        left = row["person"] == "p1"
        yield {**row, "ax": -row["ax"] if left else row["ax"], "arm": "left" if left else "right"}


@pytest.mark.parametrize(("ending", "write"), [("csv", as_csv), ("parquet", as_parquet)])
def test_a_mirrored_recording_gives_the_numbers_of_one_arm(tmp_path, ending, write):
    plain = job_file(tmp_path)
    assert command("replay", plain, "--input", jsonl(tmp_path / "all-right.jsonl", rows(600)), "--key", "person",
                   "--output-dir", tmp_path / "out") == 0  # fmt: skip
    job_file(tmp_path, JOB.replace("rate = 10.0\n", "rate = 10.0\n" + MIRROR))
    for source in (jsonl(tmp_path / "both.jsonl", recorded()), write(tmp_path / f"both.{ending}", list(recorded()))):
        assert command("replay", plain, "--input", source, "--key", "person", "--expect", tmp_path / "out") == 0
    assert (tmp_path / "out" / "dlq.jsonl").read_bytes() == b""
