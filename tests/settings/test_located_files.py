"""A job file names files relative to its own folder."""

from pathlib import Path

import pytest

from streamjobs.demo.job import FILE
from streamjobs.job_files import job_of, located, read_job

TABLE = {
    "population": {"file": "p.state", "replaces": ["a"]},
    "state": {"start_from": "s/model", "directory": "state"},
    "broker": {"url": "kafka://host", "ca_file": "/etc/ca.pem", "password_file": "password", "ca_files": "other"},
    "odd": 3,
}


def test_the_demos_job_file_finds_its_population_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert job_of(FILE).population is not None


def test_files_are_relative_to_the_folder_of_the_job_file() -> None:
    assert located(TABLE, "jobs/wrist.toml") == {
        "population": {"file": "jobs/p.state", "replaces": ["a"]},
        "state": {"start_from": "jobs/s/model", "directory": "state"},
        "broker": {
            "url": "kafka://host",
            "ca_file": "/etc/ca.pem",
            "password_file": "jobs/password",
            "ca_files": "other",
        },
        "odd": 3,
    }


def test_in_the_current_folder_names_stay_as_they_are() -> None:
    assert located(TABLE, "wrist.toml") == TABLE


def test_a_file_that_is_only_in_the_current_folder_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.state").touch()
    with pytest.warns(UserWarning, match=r"\[population\] file: jobs/p.state does not exist, p.state in the current folder"):
        assert located({"population": {"file": "p.state"}}, "jobs/job.toml") == {"population": {"file": "p.state"}}
    written = located({"population": {"file": "p.state"}}, "jobs/job.toml", to_write="population")
    assert written == {"population": {"file": "jobs/p.state"}}  # the file there is another job's


def test_a_file_from_the_environment_is_relative_to_the_current_folder(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('[source]\ntopic = "in"\ndim = 2\n[learner]\nname = "scaling"\n', encoding="utf-8")
    assert read_job(path, {"STREAMJOBS_STATE__START_FROM": "model"}).settings.state.start_from == "model"
