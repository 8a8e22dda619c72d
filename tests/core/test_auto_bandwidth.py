"""A width that each key chooses from its first rows, in a job: outputs, stored states, what commands tell of it."""

import json

import numpy as np
import pytest

from streamjobs.core.messages import Stored
from streamjobs.job_files import job_of
from streamjobs.maintenance.copies import encode
from tests.commands.jobs import JOB, command, job_file, jsonl, rows
from tests.maintenance.copying import copy_of, stored

AUTO = 'kernel = { bandwidth = "auto", bandwidth_rows = 8 }\n'
CHAIN = JOB.replace("budget = 5\n", "budget = 5\n" + AUTO)
ALONE = (
    JOB.partition("[learner]")[0] + '[learner]\nname = "knlms"\ntask = "classification"\nloss = "hinge"\nbudget = 9\n' + AUTO
)


@pytest.mark.slow
def test_a_job_waits_then_predicts_and_its_stored_states_give_the_same_bytes(tmp_path, monkeypatch):
    """States are stored after every few records, while rows wait and after the choice."""
    for number, text in enumerate((CHAIN, ALONE)):
        job = job_file(tmp_path, text)
        recording = jsonl(tmp_path / "samples.jsonl", rows(1900, keys=17))
        words = ("replay", job, "--input", recording, "--key", "person")
        assert command(*words, "--output-dir", tmp_path / str(number)) == 0
        lines = (tmp_path / str(number) / "predictions.jsonl").read_text().splitlines()
        said = [json.loads(line)["value"] for line in lines]
        assert {one["predicted_class"] for one in said if one["seq"] < 8} == {None}
        assert {one["predicted_class"] for one in said if one["seq"] > 9} == {"sit", "run"}
        with monkeypatch.context() as patch:
            patch.setenv("STREAMJOBS_STATE__CACHE", "1B")
            patch.setenv("STREAMJOBS_STATE__CHECKPOINT_BYTES", "1B")
            assert command(*words, "--expect", tmp_path / str(number)) == 0


def test_state_show_and_describe_tell_it(tmp_path, capsys):
    file = job_file(tmp_path, CHAIN)
    job = job_of(file)
    records = [
        Stored("imu", 0, n, round(row["ts"] * 1000), row["person"].encode(), json.dumps(row).encode())
        for n, row in enumerate(rows(400, keys=3))
        if row["person"] != "p2" or n < 60
    ]
    copy = tmp_path / "copy"
    copy.write_bytes(b"".join(encode(copy_of(job, stored(job, records), 0))))
    told = {}
    for key in ("p0", "p2"):
        assert command("state", "show", file, key, "--copy", copy, "--json") == 0
        told[key] = json.loads(capsys.readouterr().out)[0]["bandwidths"]
    assert told["p2"] == {"learner.extractor": None} and 0.1 < told["p0"]["learner.extractor"] < 100
    assert command("state", "show", file, "p0", "--copy", copy) == 0
    out = capsys.readouterr().out
    assert f"bandwidth  of learner.extractor: {told['p0']['learner.extractor']:.4g}, chosen" in out
    assert command("state", "show", file, "p2", "--copy", copy) == 0
    assert "not chosen yet: rows wait" in capsys.readouterr().out
    assert command("describe", "okfeb", "--set", "kernel.bandwidth=auto") == 0
    assert 'bandwidth = "auto" chooses it by kernel alignment' in " ".join(capsys.readouterr().out.split())
    assert np.isfinite(told["p0"]["learner.extractor"])


def test_a_wrong_word_is_one_sentence(tmp_path, capsys):
    assert command("check", job_file(tmp_path, CHAIN.replace('"auto"', '"Auto"'))) == 2
    assert "kernel: bandwidth must be a number or 'auto'; got 'Auto'." in capsys.readouterr().err
