"""`state show --prototypes`: stored samples in the units of the records, when each entered, what it stands for, pictures."""

import builtins
import json
from collections import Counter

import numpy as np
import pytest

from algorithms import learner_from
from streamjobs.commands.prototypes.show import half_blocks
from streamjobs.core.messages import Stored
from streamjobs.job_files import job_of
from streamjobs.maintenance.copies import encode
from tests.cli.jobs import JOB, command, job_file, jsonl, rows
from tests.maintenance.copying import copy_of, stored

PLAIN = JOB.partition("[window]")[0]
LEARNERS = {
    "online_greedy": '[learner]\nname = "online_greedy"\nbudget = 6\n',
    "okdl": '[learner]\nname = "okdl"\natoms = 3\nbudget = 6\n[head]\nname = "rls"\n',
    "skegd": '[learner]\nname = "one_vs_rest"\nlearner = { name = "skegd", budget = 8, refresh_every = 20 }\n',
    "random_prototypes": '[learner]\nname = "random_prototypes"\nbudget = 5\n',
    "rls": '[learner]\nname = "rls"\ntask = "classification"\n',
    "unit": '[scaling]\nunit_norm = true\n[learner]\nname = "random_prototypes"\nbudget = 5\n',
}
TABLE = list(rows(240))
X = np.array([[row["ax"], row["ay"], row["az"]] for row in TABLE if row["person"] == "p1"])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """made(name) -> (job file, copy of the states, recording)."""
    known = {}

    def make(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            file = job_file(folder, PLAIN + LEARNERS[name])
            job = job_of(file)
            records = [
                Stored("imu", 0, n, round(row["ts"] * 1000), row["person"].encode(), json.dumps(row).encode())
                for n, row in enumerate(TABLE)
            ]
            (folder / "copy").write_bytes(b"".join(encode(copy_of(job, stored(job, records)))))
            known[name] = file, folder / "copy", jsonl(folder / "recording.jsonl", TABLE)
        return known[name]

    return make


def shown(made, capsys, name, *words, recording=True):
    """The first set of p1's samples as JSON."""
    file, copy, source = made(name)
    given = ("--input", source, "--key", "person") if recording else ()
    assert command("state", "show", file, "p1", "--copy", copy, "--prototypes", "--json", *given, *words) == 0
    return json.loads(capsys.readouterr().out)[0]


@pytest.mark.parametrize("name", ["online_greedy", "okdl", "skegd"])
def test_a_sample_is_the_record_it_was_and_shares_are_those_of_the_nearest(made, capsys, name):
    found = shown(made, capsys, name)
    assert found["columns"] == ["ax", "ay", "az"] and found["original"]
    samples = found["samples"]
    for one in samples:
        assert one["x"] == X[one["entered"] - 1].tolist()
    scaling = learner_from("scaling", {})
    _, out = scaling.run(scaling.init(dim=3, targets=0, seed=0), X)
    kept = np.array([one["scaled"] for one in samples])
    nearest = Counter(np.square(out.features[:, None] - kept[None]).sum(axis=2).argmin(axis=1).tolist())
    assert [one["share"] for one in samples] == pytest.approx([nearest[i] / len(X) for i in range(len(samples))])
    assert samples[0]["share"] == max(one["share"] for one in samples)


def test_without_records_it_says_what_the_state_does_not_hold(made, capsys):
    selected = shown(made, capsys, "online_greedy", recording=False)
    assert sorted(one["entered"] for one in selected["samples"]) == sorted(
        one["entered"] for one in shown(made, capsys, "online_greedy")["samples"]
    )
    assert all(one["share"] is None for one in selected["samples"])
    assert any("does not count the rows" in text for text in selected["notes"])
    for one in selected["samples"]:  # by the scale of now: near where the scale had settled
        assert one["entered"] < 60 or np.abs(np.array(one["x"]) - X[one["entered"] - 1]).max() < 0.5
    atoms = shown(made, capsys, "okdl", recording=False)
    assert all(one["entered"] is None for one in atoms["samples"])
    assert [one["later"] for one in atoms["samples"]] == [5, 4, 3, 2, 1, 0]
    assert any("which row a sample was" in text for text in atoms["notes"])
    reservoir = shown(made, capsys, "random_prototypes", recording=False)
    assert [one["share"] for one in reservoir["samples"]] == [0.2] * 5


def test_lengths_that_scaling_took_away_are_not_invented(made, capsys):
    found = shown(made, capsys, "unit", recording=False)
    assert not found["original"] and any("length 1" in text for text in found["notes"])
    assert all(one["x"] == one["scaled"] for one in found["samples"])


def test_the_table_names_columns_and_rows(made, capsys):
    file, copy, source = made("online_greedy")
    words = ("--prototypes", "--input", source, "--key", "person")
    assert command("state", "show", file, "p1", "--copy", copy, *words) == 0
    out = capsys.readouterr().out
    assert "6 prototypes of online_greedy, 80 rows seen" in out
    assert out.splitlines()[1].split()[-4:] == ["share", "ax", "ay", "az"] and "%" in out


@pytest.mark.parametrize(("image", "images"), [((), 2), (("--image", "3x1"), 6)])
def test_a_picture_is_drawn_and_drawn_again_the_same(made, capsys, tmp_path, image, images):
    for name in ("one.svg", "two.svg", "one.png"):
        shown(made, capsys, "online_greedy", "--picture", tmp_path / name, *image, recording=name != "one.png")
    one = (tmp_path / "one.svg").read_bytes()
    assert one == (tmp_path / "two.svg").read_bytes()
    assert b"6 prototypes of online_greedy" in one and one.count(b"<image") == images
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_half_blocks_have_two_rows_of_pixels_in_a_line():
    image = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    lines = half_blocks([image, image])
    assert [line.plain for line in lines] == ["▀▀  ▀▀"] * 2
    assert [str(span.style) for span in lines[0].spans[:2]] == ["color(232) on color(255)", "color(255) on color(232)"]
    assert str(lines[1].spans[0].style) == "color(244)"


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("rls", ["--prototypes"], "rls stores no samples"),
        ("online_greedy", ["--image", "16x16"], "belong to --prototypes"),
        ("online_greedy", ["--prototypes", "--image", "16x16"], "expected a product of 3, the numbers of a row, got 256"),
        ("online_greedy", ["--prototypes", "--image", "big"], "expected HEIGHTxWIDTH such as 16x16, got 'big'"),
        ("online_greedy", ["--prototypes", "--picture", "x.gif"], "ends in .svg or .png"),
        ("online_greedy", ["--prototypes", "--picture", "no/folder/x.svg"], "cannot be written"),
        ("online_greedy", ["--prototypes", "--input", "x.jsonl"], "--input and --key belong together"),
        ("online_greedy", ["--prototypes", "--input", "RECORDING", "--key", "activity"], "no rows of key 'p1'"),
    ],
)
def test_a_mistake_is_one_sentence(made, capsys, tmp_path, monkeypatch, name, words, said):
    file, copy, source = made(name)
    monkeypatch.chdir(tmp_path)
    words = [source if word == "RECORDING" else word for word in words]
    assert command("state", "show", file, "p1", "--copy", copy, *words) == 2
    err = capsys.readouterr().err.strip()
    assert said in err and len(err.splitlines()) == 1


def test_without_matplotlib_it_says_how_to_get_it(made, capsys, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    file, copy, _ = made("online_greedy")
    monkeypatch.setattr(builtins, "__import__", without)
    words = ("--prototypes", "--picture", tmp_path / "x.svg")
    assert command("state", "show", file, "p1", "--copy", copy, *words) == 3
    assert "pip install 'streamjobs[plots]'" in capsys.readouterr().err
