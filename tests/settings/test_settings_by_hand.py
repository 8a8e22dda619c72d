"""Settings made in Python are checked as those of a job file are."""

from dataclasses import fields

import pytest

from algorithms import Learner, SettingError, learner_from
from streamjobs import Job as NotebookJob
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError
from streamjobs.settings.load import composition_from
from streamjobs.settings.sections import HeadSection, LearnerSection, Settings
from streamjobs.settings.source import SourceSection
from streamjobs.stages.learner import LearnerStage
from tests.checks.examples import EXAMPLES

SOURCE = SourceSection(topic="in", fields=["x"], label="y")
UNBOUNDED = [("klms", {}), ("qklms", {}), ("klms", {"kernel": {"bandwidth": "auto"}})]


def learner_section(name: str, **own: object) -> LearnerSection:
    return LearnerSection(name=name, **own)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "own"), UNBOUNDED)
def test_a_learner_without_a_bound_is_refused_however_its_settings_were_made(name: str, own: dict[str, object]) -> None:
    told = f"settings [learner]: {name} with these settings stores every sample; a job runs bounded learners only. "
    settings = Settings(source=SOURCE, learner=learner_section(name, **own))
    for make in (Job.from_settings, NotebookJob):
        with pytest.raises(ConfigError) as error:
            make(settings)
        assert str(error.value).startswith(told)
    with pytest.raises(SettingError, match="a job runs bounded learners only"):
        LearnerStage(learner=learner_from(name, own))


def test_all_that_contradicts_itself_is_reported_at_once() -> None:
    source = SourceSection(topic="in", fields=["x", "x"], label="x")
    settings = Settings(source=source, learner=learner_section("okfeb"), head=HeadSection(name="nothing"))
    with pytest.raises(ConfigError) as error:
        Job.from_settings(settings)
    assert [sentence.partition(": ")[0] for sentence in error.value.problems] == [
        "settings [head]",
        "settings [source]",
        "settings [source]",
    ]


def test_settings_made_by_hand_give_the_job_of_the_same_file() -> None:
    table = {"source": {"topic": "in", "fields": ["x"], "label": "y"}, "learner": {"name": "pegasos"}}
    of_file = Job.from_composition(composition_from(table))
    by_hand = Job.from_settings(Settings(source=SOURCE, learner=learner_section("pegasos")))
    assert by_hand.fingerprint == of_file.fingerprint and by_hand.task == of_file.task


def test_a_learner_says_of_itself_that_it_is_bounded_where_its_parts_are() -> None:
    def is_bounded(learner: Learner) -> bool:
        parts = [getattr(learner, field.name) for field in fields(learner)]
        own = all(learner.room(field) is not None for field in learner.stored)
        return own and all(is_bounded(part) for part in parts if isinstance(part, Learner))

    made = [learner_from(name, one.settings) for name, examples in EXAMPLES.items() for one in examples]
    assert {one.bounded for one in made} == {True, False}
    assert all(one.bounded == is_bounded(one) for one in made)
