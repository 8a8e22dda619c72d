"""Random convolutions of windows: against a slow one, what is learned of them, and what a file may not say of them."""

import itertools

import numpy as np
import pytest

from algorithms.common import eigen
from streamjobs.core.state.population import encode
from streamjobs.core.state.population_reader import decode
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.fit.learning import Convolving, convolved
from streamjobs.fit.recordings import Recordings
from streamjobs.job_files import job_of, load_job
from streamjobs.stages.statistics import convolutions
from streamjobs.stages.windows import Windows
from tests.core.driving import fresh
from tests.fit.people import JOB, as_csv, command, job_file, rows

CONVOLVED = JOB.replace("rate = 10.0", "rate = 10.0\nconvolutions = 12")


def _slow(window, plan, centre, spread, biases):
    """The shares of a window (T, dim), one convolution after the other, as MiniRocket has them."""
    up = window[:, :3].mean(axis=0)
    up = up / max(np.linalg.norm(up), 1e-6)
    made = [*window.T]
    for a in range(0, window.shape[1] - 2, 3):
        part = window[:, a : a + 3]
        along = part @ up
        made += [along, np.linalg.norm(part - along[:, None] * up, axis=1), np.linalg.norm(part, axis=1)]
    channels = (np.array(made) - centre[:, None]) / spread[:, None]
    length, shares = len(window), []
    for n, d in enumerate(plan.dilation.tolist()):
        signal = channels[plan.channels[n]].sum(axis=0)
        for kernel, heavy in enumerate(plan.heavy[n].tolist()):
            weights = [2.0 if j in heavy else -1.0 for j in range(9)]
            edge = 0 if plan.beyond[n] else 4 * d
            out = []
            for i in range(edge, length - edge):
                taps = [signal[i + (j - 4) * d] if 0 <= i + (j - 4) * d < length else 0.0 for j in range(9)]
                out.append(sum(w * x for w, x in zip(weights, taps, strict=True)))
            shares += [np.mean(np.array(out) > bias) for bias in biases[n * convolutions.PER_SET + kernel]]
    return np.array(shares)


def _columns(learned, samples):
    return learned.replaced(samples.reshape(len(samples), -1), *samples.shape[1:])


@pytest.mark.parametrize(("length", "dim"), [(33, 7), (64, 3)])
def test_the_columns_are_those_of_slow_convolutions(length, dim):
    samples = np.random.default_rng(3).normal(size=(40, length, dim)).cumsum(axis=1)
    learned = convolutions.learn(samples, 5)
    plan = convolutions.plan_of(length, dim)
    every = sorted(tuple(heavy) for heavy in plan.heavy[plan.dilation == plan.dilation.max()].reshape(-1, 3).tolist())
    assert every == list(itertools.combinations(range(9), 3)) and plan.channels.sum(axis=1).min() >= 1
    for k in (0, 17):
        shares = _slow(samples[k], plan, *learned[:3])
        expected = (shares - learned.mean) @ learned.components
        np.testing.assert_allclose(
            _columns(learned, samples[k : k + 1])[0], expected, atol=0.02
        )  # few at a bias to the digit


def test_any_split_of_windows_gives_the_same_bits_and_learning_is_repeatable():
    samples = np.random.default_rng(4).normal(size=(30, 20, 2))
    learned = convolutions.learn(samples, 4)
    whole = _columns(learned, samples)
    np.testing.assert_array_equal(np.vstack([_columns(learned, samples[:11]), _columns(learned, samples[11:])]), whole)
    for one, other in zip(learned, convolutions.learn(samples, 4), strict=True):
        np.testing.assert_array_equal(one, other)
    shares = _columns(learned._replace(components=np.eye(len(learned.mean))), samples)
    variances, vectors = eigen.leading(np.cov(shares.T), 4)
    np.testing.assert_allclose(np.cov((shares @ vectors).T), np.diag(variances), atol=1e-10)
    assert learned.components.dtype == np.float32
    np.testing.assert_allclose(learned.components, vectors, atol=6e-8)  # half of the last digit


def test_the_person_left_out_teaches_no_convolutions():
    random = np.random.default_rng(5)
    person = np.repeat(np.arange(3), 20)
    X = random.normal(size=(60, 2 + 20 * 3))
    data = Recordings(X, person, person, person, ["a", "b", "c"])
    other = data._replace(X=np.where(person[:, None] == 1, 9 * X, X))
    one, two = (convolved(each, each.person != 1, Convolving(4, 20, 3))[0] for each in (data, other))
    np.testing.assert_array_equal(one.X[person != 1], two.X[person != 1])
    assert one.X.shape == (60, 2 + 4) and (one.X[:, :2] == X[:, :2]).all()


def test_a_window_without_some_samples_ends_with_the_last_one():
    stage = Windows(length=2.0, hop=2.0, rate=10.0, convolutions=4)
    work = stage.workspace(fresh(stage, 1, 1))
    stage.load(work, 0, fresh(stage, 1, 1))
    times = np.r_[np.arange(18) / 10, 2.0]  # two are missing
    n, values = len(times), np.arange(19.0).reshape(19, 1)
    made = stage.advance(work, np.zeros(n, int), times, values, values, np.arange(n), np.ones(n, np.int8))
    np.testing.assert_array_equal(made.X[0, 8:], np.r_[np.arange(18.0), 17, 17])
    none = stage.advance(
        work, np.zeros(1, int), times[-1:] + 0.1, values[:1], values[:1], np.zeros(1, int), np.ones(1, np.int8)
    )
    assert none.X.shape == (0, 8 + 20)  # such as when a worker compiles its loops


def test_a_file_keeps_them_and_refuses_others(tmp_path):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    path = job_file(tmp_path, CONVOLVED)
    assert command("fit", path, "--input", recordings, "--no-report") == 0
    stored = (tmp_path / "population.state").read_bytes()
    population = decode(stored)
    assert stored[2] == 5 and encode(population) == stored and population.convolutions is not None
    assert population.width == 24 + 12 == len(job_of(path).composition.columns)
    learned = population.convolutions.learned
    for wrong in (
        learned._replace(spread=0 * learned.spread),
        learned._replace(mean=learned.mean[:-1]),
        learned._replace(biases=learned.biases * np.nan),
    ):
        with pytest.raises(SnapshotError, match="convolutions"):
            decode(encode(population._replace(convolutions=population.convolutions._replace(learned=wrong))))
    with pytest.raises(SnapshotError, match="convolutions"):
        decode(encode(population._replace(convolutions=population.convolutions._replace(samples=90))))
    with pytest.raises(ConfigError, match="convolutions"):
        job_of(job_file(tmp_path, JOB))


def test_components_that_float32_cannot_keep_stay_as_an_earlier_release_learned_them(tmp_path):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    assert command("fit", job_file(tmp_path, CONVOLVED), "--input", recordings, "--no-report") == 0
    population = decode((tmp_path / "population.state").read_bytes())
    assert population.convolutions is not None
    learned, X = population.convolutions.learned, np.random.default_rng(6).normal(size=(3, 20 * 3))
    of_doubles = learned._replace(components=learned.components.astype(np.float64))
    earlier = learned._replace(components=of_doubles.components * (1 + 1e-12))
    for one, kind in ((of_doubles, np.float32), (earlier, np.float64)):
        stored = encode(population._replace(convolutions=population.convolutions._replace(learned=one)))
        again = decode(stored)
        assert again.convolutions is not None and again.convolutions.learned.components.dtype == kind
        assert encode(again) == stored
        np.testing.assert_array_equal(again.convolutions.rows(X), one.replaced(X, 20, 3))


def test_what_does_not_fit_is_refused(tmp_path):
    without = CONVOLVED.replace('[population]\nfile = "{file}"\n', "")
    for text, said in (
        (without, "convolutions need a \\[population\\]"),
        (CONVOLVED.replace("rate = 10.0", "rate = 5.0"), "need windows of 17 to 1000 samples"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_job(job_file(tmp_path, text), {})
