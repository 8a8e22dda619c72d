"""What a job file may ask for, and no key could have."""

from typing import Any

import pytest

from streamjobs.errors import ConfigError
from streamjobs.job_files import job_from
from streamjobs.settings.load import composition_from

BASE = {"source": {"topic": "in", "fields": ["x", "y", "z"], "label": "label"}}


def refusal(**sections: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        job_from(composition_from(BASE | sections), "job.toml")
    return str(caught.value)


def test_a_state_larger_than_a_record_can_be_is_refused_before_anything_runs() -> None:
    said = refusal(learner={"name": "wrkpca", "rank": 10, "budget": 60_000}, head={"name": "rls"})
    assert said.startswith("job.toml: a key's state must fit into a record of the changelog, 2 GB; got 13.4 GB.")


def test_a_state_larger_than_the_memory_is_one_sentence() -> None:
    said = refusal(learner={"name": "okfeb", "rank": 60_000_000, "budget": 60_000_001}, head={"name": "rls"})
    assert said.startswith("job.toml: a key's state must fit into this machine's memory; got one that does not.")


def test_what_a_learner_refuses_of_these_columns_names_the_job_file() -> None:
    learner = {"name": "chain", "extractor": {"name": "klms", "budget": 5}, "head": {"name": "lms"}}
    assert refusal(learner=learner) == "job.toml: Chain: extractor must be a learner that gives features; got 'Klms'."
