"""A worker that stands on the fitted population gives a new person the decisions of the report."""

import json
from dataclasses import replace

import numpy as np
import pytest

from streamjobs.fit.fitting import recipe_of
from streamjobs.fit.inputs import Columns, inputs_of
from streamjobs.fit.learning import Learned, decided, features
from streamjobs.fit.reading import read
from streamjobs.fit.recordings import Stream, arriving
from streamjobs.job_files import job_of
from streamjobs.recordings.files import records_of
from streamjobs.replay.engine import Replay
from tests.fit.people import JOB, command, job_file, jsonl, rows
from tests.sizes import first_fast

LINEAR = JOB.replace('name = "ald"\nbudget = 20\n[head]\nname = "rls"\n', 'name = "rls"\n')
BOTH = JOB.replace("budget = 20", "budget = 20\ninput = true")
CONVOLVED = LINEAR.replace("rate = 10.0", "rate = 10.0\nconvolutions = 12")
DIRECTED = LINEAR.replace('file = "{file}"', 'file = "{file}"\ndirections = 5')
FILTER = LINEAR.replace("smooth = 0.3", 'filter = "hmm"')

SAMPLES = LINEAR.replace('[window]\nlength = "2s"\nhop = "1s"\nrate = 10.0\n', "")  # rows are features already


@pytest.mark.parametrize("text", first_fast([FILTER, SAMPLES, DIRECTED, CONVOLVED, JOB, LINEAR, BOTH]))
def test_the_worker_decides_as_the_report_does(tmp_path, text):
    """The label of a window comes with it here, which the protocol calls 0 windows late."""
    table = list(rows())
    new = jsonl(tmp_path / "new.jsonl", [row for row in table if row["person"] == "p13"])
    others = jsonl(tmp_path / "others.jsonl", [row for row in table if row["person"] != "p13"])
    path = job_file(tmp_path, text)
    assert command("fit", path, "--input", others, "--no-report") == 0

    job = job_of(path)
    said = []
    Replay(job).run(records_of(new, job.settings.source, "person"), said.append, lambda tally: None)
    predictions = [json.loads(output.value) for output in said if output.sink == "predictions"]

    inputs = inputs_of(job.settings, [str(new)], Columns(None, None, None, False))
    data = read(job.settings, inputs.sources, pause=10.0, column=inputs.recording).data
    population, recipe = job.population, recipe_of(job.composition)
    assert population is not None
    learned = Learned(
        population.scaling.state,
        population.map.state if population.map is not None else None,
        population.head.state,
        population.people,
        population.directions,
    )
    if recipe.filter is not None:
        recipe = replace(recipe, filter=population.transitions)
    if population.convolutions is not None:
        data = data._replace(X=population.convolutions.rows(data.X))
    assert data.X.shape[1] == job.width == (3 if text is SAMPLES else 24 + 12 * (text is CONVOLVED))
    codes = np.array([population.names.index(data.names[c]) for c in data.activity])
    hops = np.array([value["ts"] for value in predictions])  # 20 s pass between two recordings
    stream = Stream(data.X, codes, data.recording, late=0, times=hops)
    found = decided(recipe, "gated", learned, stream, features(learned, recipe, stream.X), arriving(len(codes), 0))
    assert [value["predicted_class"] for value in predictions] == [population.names[c] for c in found.chosen]
    assert len(predictions) == 6 * (400 if text is SAMPLES else 39)
    assert text is SAMPLES or predictions[0]["predicted_class"] == predictions[0]["true_class"]
    assert len({value["predicted_class"] for value in predictions}) == 3
    if text is FILTER:
        plain = decided(recipe, "gated", learned, stream._replace(times=None), features(learned, recipe, stream.X))
        assert (plain.scores != found.scores).any(axis=1).sum() > 5
        chances = found.scores[np.arange(len(found.chosen)), found.chosen]
        assert [value["score"] for value in predictions] == chances.tolist() and 1 / 3 < chances.min() < chances.max() <= 1
        assert all(value["smoothed"] is None for value in predictions)
