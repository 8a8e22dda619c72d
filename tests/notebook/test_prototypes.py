"""Stored samples: which row of the records each was, its share of the rows, pictures; `state show` counts them."""

import builtins
import json
from collections import Counter

import numpy as np
import pytest

from algorithms import learner_from
from streamjobs import Job
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError, SetupError
from streamjobs.job_files import job_of
from streamjobs.maintenance.copies import encode
from streamjobs.notebook.pictures import save
from tests.commands.jobs import JOB, command, job_file, rows
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
def replayed(tmp_path_factory):
    """replayed(name) -> the replay of the table through a job with this learner."""
    known = {}

    def replay(name):
        if name not in known:
            file = job_file(tmp_path_factory.mktemp(name), PLAIN + LEARNERS[name])
            known[name] = Job(file).replay(TABLE, key="person")
        return known[name]

    return replay


@pytest.mark.parametrize("name", ["online_greedy", "okdl", "skegd", "random_prototypes"])
def test_a_sample_is_the_record_it_was_and_shares_are_those_of_the_nearest(replayed, name):
    one = replayed(name).prototypes("p1")[0]
    assert one.columns == ["ax", "ay", "az"]
    assert one.samples.tolist() == [X[number - 1].tolist() for number in one.entered]
    scaling = learner_from("scaling", {})
    _, out = scaling.run(scaling.init(dim=3, targets=0, seed=0), X)
    nearest = Counter(np.square(out.features[:, None] - one.scaled[None]).sum(axis=2).argmin(axis=1).tolist())
    assert one.shares == pytest.approx([nearest[i] / len(X) for i in range(len(one.samples))])
    assert one.shares[0] == max(one.shares)


def test_lengths_that_scaling_took_away_are_not_invented(replayed):
    (one,) = replayed("unit").prototypes("p1")
    assert (one.samples == one.scaled).all()
    assert np.linalg.norm(one.samples, axis=1) == pytest.approx(1)


@pytest.mark.parametrize(("image", "images"), [(None, 2), ((3, 1), 6)])
def test_a_picture_is_drawn_and_drawn_again_the_same(replayed, tmp_path, image, images):
    for name in ("one.svg", "two.svg"):
        save(replayed("online_greedy").plot.prototypes("p1", image=image), tmp_path / name, "path")
    one = (tmp_path / "one.svg").read_bytes()
    assert one == (tmp_path / "two.svg").read_bytes()
    assert b"6 prototypes of online_greedy" in one and one.count(b"<image") == images


@pytest.mark.parametrize(
    ("name", "key", "image", "said"),
    [
        ("rls", "p1", None, "rls stores no samples"),
        ("online_greedy", "p9", None, "expected a key of the replay; got 'p9'"),
        ("online_greedy", "p1", (16, 16), "expected a product of 3, the numbers of a row"),
    ],
)
def test_a_mistake_is_one_sentence(replayed, name, key, image, said):
    with pytest.raises(ConfigError, match=said):
        replayed(name).plot.prototypes(key, image=image)


def test_without_matplotlib_it_says_how_to_get_it(replayed, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    plot = replayed("online_greedy").plot
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SetupError, match=r"pip install .*plots"):
        plot.prototypes("p1")


@pytest.mark.parametrize(("name", "counts"), [("online_greedy", {"learner": 6}), ("rls", {})])
def test_state_show_says_how_many_there_are(tmp_path, capsys, name, counts):
    file = job_file(tmp_path, PLAIN + LEARNERS[name])
    job = job_of(file)
    records = [
        Stored("imu", 0, n, round(row["ts"] * 1000), row["person"].encode(), json.dumps(row).encode())
        for n, row in enumerate(TABLE)
    ]
    (tmp_path / "copy").write_bytes(b"".join(encode(copy_of(job, stored(job, records)))))
    assert command("state", "show", file, "p1", "--copy", tmp_path / "copy", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["prototypes"] == counts
    assert command("state", "show", file, "p1", "--copy", tmp_path / "copy") == 0
    assert ("prototypes 6 of learner" in capsys.readouterr().out) == bool(counts)
