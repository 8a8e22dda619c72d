"""A job file's mistakes: all at once, each with its place and the nearest known name."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from algorithms import LEARNERS
from algorithms.chain import Chain
from streamjobs.commands.workbench.settings import without_secrets
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError
from streamjobs.job_files import load_job, table_of
from streamjobs.settings.load import composition_from, settings_from
from streamjobs.settings.notes import notes
from streamjobs.settings.schema import json_schema
from streamjobs.settings.sections import MOST_WAITING, Section, Settings
from streamjobs.settings.sentences import MASK, Places, validated
from tests.commands.jobs import problems, table


def test_three_planted_mistakes_are_found_at_once_with_places_and_suggestions():
    found = problems(
        table(learner={"bugdet": 5}, window={"lenght": "2s"}, source={"late": "lern"}),
    )
    assert found == [
        "job.toml [source]: late must be 'learn', 'predict_only', 'drop' or 'dlq'; got 'lern'; did you mean 'learn'?",
        "job.toml [window]: unknown setting 'lenght'; did you mean 'length'?",
        "job.toml [learner]: unknown setting 'bugdet' for okfeb; did you mean 'budget'?",
    ]


def test_several_mistakes_of_one_learner_are_all_found():
    found = problems(table(learner={"rnak": 3, "budget": "many", "evict": "newest"}, head={"forgeting": 1.0}))
    assert len(found) == 4
    assert "unknown setting 'rnak' for okfeb; did you mean 'rank'?" in found[0]
    assert "budget must be an integer; got 'many'." in "".join(found)
    assert "evict must be" in "".join(found)
    assert "job.toml [head]: unknown setting 'forgeting' for rls; did you mean 'forgetting'?" in found


def test_unknown_sections_learners_and_detectors_are_named_with_the_nearest_known():
    found = problems(
        table(sinsk={}, learner={"name": "last_pionts"}, head={"name": "rsl"}, drift={"detector": "page_hinkly"}),
    )
    assert "job.toml: unknown section [sinsk]; did you mean 'sinks'?" in found
    assert "job.toml [learner]: unknown learner 'last_pionts'; did you mean 'last_points'?" in found
    assert any(sentence.startswith("job.toml [head]: unknown learner 'rsl'; did you mean ") for sentence in found)
    assert "job.toml [drift]: unknown detector 'page_hinkly'; did you mean 'page_hinkley'?" in found
    (sentence,) = problems(table(drift={"detector": "cusum"}))
    assert sentence.startswith("job.toml [drift]: unknown detector 'cusum'; known: adwin, ") and "okfeb" not in sentence


def test_missing_sections_and_settings_are_named():
    assert problems({}) == [
        "job.toml: section [source] is missing; a job needs [source], and [learner] or [forecast].",
        "job.toml: section [learner] is missing; a job needs [source], and [learner] or [forecast].",
    ]
    found = problems({"source": {"fields": ["x"]}, "learner": {}})
    assert found == [
        "job.toml [source]: setting 'topic' is missing (input topic); it has no default.",
        "job.toml [learner]: setting 'name' is missing "
        f"({json_schema()['$defs']['LearnerSection']['properties']['name']['description']}); it has no default.",
    ]


def test_a_refused_dim_has_one_sentence():
    (found,) = problems({"source": {"topic": "imu", "dim": 10_000}, "learner": {"name": "nlms"}})
    assert found == "job.toml [source]: dim must be at most 4096; got 10000."


def test_without_fields_or_dim_the_sentence_says_what_to_state():
    (found,) = problems({"source": {"topic": "imu"}, "learner": {"name": "okfeb"}})
    assert found.startswith("job.toml [source]: the length of x is unknown; name the fields with its numbers")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"source": {"dim": 4}}, "[source]: dim must be the number of fields (3), or absent; got 4."),
        ({"source": {"fields": ["ax", "ax"]}}, "[source]: fields must differ; 'ax' is named 2 times."),
        (
            {"learner": {"kernel": {"name": "overlap"}}},
            "[scaling]: method must be 'none' with the kernel 'overlap', which compares codes; got 'standard'. "
            "Set [scaling] method = 'none'.",
        ),
        ({"source": {"time": "ax"}}, "[source]: time must be a field of its own; 'ax' is already part of x."),
        ({"source": {"time": "activity"}}, "[source]: label must be a field of its own; 'activity' is already the time."),
        ({"window": {"hop": "2s"}}, "[window]: hop must be from one sample period (0.1 s) to the length (1 s); got 2 s."),
        ({"window": {"length": "0.2s", "hop": "100ms"}}, "[window]: length must hold 4 to 100000 samples at 10 Hz; got 2."),
        ({"window": {"gap": "50ms"}}, "[window]: gap must be at least one sample period (0.1 s); got 0.05 s."),
        ({"window": {"rate": 0}}, "[window]: rate must be above 0; got 0."),
        ({"sinks": {"dlq": ""}}, "[sinks]: dlq cannot be off; name a topic for records that cannot be used, or remove it."),
        ({"sinks": {"drift": "imu"}}, "[sinks]: drift must be a topic of its own; 'imu' is already the input topic."),
        (
            {"sinks": {"drift": "out", "features": "out"}},
            "[sinks]: drift must be a topic of its own; 'out' is already the topic of features.",
        ),
        (
            {"head": None, "sinks": {"predictions": "out"}},
            "[sinks]: no predictions would be sent without a [head]. Add one, or remove the setting.",
        ),
        ({"learner": {"task": "regression"}}, "[learner]: task belongs in [head], which makes the predictions."),
        ({"head": {"classes": ["run", "run"]}}, "[head]: classes must be two or more different texts; got ['run', 'run']."),
        (
            {"head": {"task": "regression", "max_classes": 3}},
            "[head]: max_classes has no meaning in a regression; remove it, or set task = 'classification'.",
        ),
        (
            {"head": {"clip_target": 3}},
            "[head]: clip_target has no meaning in a classification; remove it, or set task = 'regression'.",
        ),
        (
            {"job": {"guarantee": "exactly_once"}, "state": {"checkpoint": "2m"}},
            "[state]: with [job] guarantee = 'exactly_once' checkpoint must be 60 s or less, or the broker ends the "
            "transaction; got 120 s.",
        ),
        ({"head": {"name": "okfeb"}}, "[head]: a head must predict; okfeb gives features. Choose a head such as 'rls'."),
        ({"drift": {"detector": "rls"}}, "[drift]: detector must be a drift detector, such as 'page_hinkley'."),
        (
            {"head": None, "drift": {"watch": "loss"}},
            "[drift]: watch = 'loss' needs predictions; add a [head], or watch 'ls_error'.",
        ),
        ({"drift": {"extractor": {"rank": 3}}}, "[drift]: extractor must be a table with a 'name'."),
        ({"drift": {"beside": [{"rank": 3}]}}, "[drift]: each of 'beside' must be a name, or a table with a 'name'."),
        (
            {"drift": {"extractor": {"name": "rls"}}},
            "[drift]: extractor must be a learner with an LS error, such as 'okfeb'; rls has none.",
        ),
        (
            {"drift": {"beside": ["last_points", {"name": "last_points", "rank": 3}]}},
            "[drift]: the controls in 'beside' must differ; 'last_points' is named 2 times.",
        ),
        (
            {"drift": {"beside": ["last_points", "page_hinkley"]}},
            "[drift]: beside must be a learner with an LS error, such as 'okfeb'; page_hinkley has none.",
        ),
        (
            {"drift": {"beside": ["lastpoints"]}},
            "[drift]: unknown learner 'lastpoints'; did you mean 'last_points'?",
        ),
        (
            {"drift": {"watch": "loss", "extractor": {"name": "okfeb"}}},
            "[drift]: watch = 'loss' uses the [learner]'s predictions; remove extractor, or watch 'ls_error'.",
        ),
        (
            {"drift": {"watch": "loss", "beside": ["last_points"]}},
            "[drift]: controls have an LS error but no loss; remove 'beside', or watch 'ls_error'.",
        ),
        (
            {"drift": {"watch": "columns", "detector": "column_chart", "beside": ["last_points"]}},
            "[drift]: watch = 'columns' has no LS error; remove beside, or watch 'ls_error'.",
        ),
        (
            {"drift": {"watch": "columns", "detector": "conformal"}},
            "[drift]: detector: conformal watches one number a row, not watch = 'columns'; change one of the two.",
        ),
        (
            {"drift": {"detector": "column_chart"}},
            "[drift]: detector: column_chart is for watch = 'columns'; change one of the two.",
        ),
        (
            {"drift": {"detector": "conformal", "false_alarms": "1 a day"}},
            "[drift]: false_alarms must be such as '1/day', '6/h' or '1 per 10000 rows'; got '1 a day'.",
        ),
        ({"drift": {"idle": -1}}, "[drift]: idle must be 0 or more; got -1."),
        (
            {"broker": {"url": "localhost:9092"}},
            "[broker]: url must be kafka://host:port[,host:port]; got 'localhost:9092'.",
        ),
        ({"state": {"checkpoint": 0}}, "[state]: checkpoint must be above 0; got 0 s."),
        (
            {"state": {"cache": "12 apples"}},
            "[state]: cache must be a size such as '512KB', '64MB' or '1GB'; got '12 apples'.",
        ),
        ({"job": "imu"}, ": job must be a table, written [job]; got 'imu'."),
        ({"source": {"fields": ["ax", 2]}}, "[source]: fields[1] must be a text; got 2."),
        ({"metrics": {"port": True}}, "[metrics]: port must be an integer; got True."),
    ],
)
def test_a_contradiction_is_one_sentence(changes: dict[str, Any], expected: str):
    (found,) = problems(table(**changes))
    assert found == ("job.toml" + expected if expected.startswith(":") else f"job.toml {expected}")


def test_a_learner_that_predicts_by_itself_takes_no_head():
    plain = {"name": "lms"}
    (found,) = problems({**table(learner=None, drift=None, sinks=None), "learner": plain})
    assert "lms predicts by itself and takes no head" in found
    settings = settings_from(
        {
            **table(learner=None, drift=None, head=None, sinks=None),
            "learner": plain | {"max_classes": 4, "task": "classification"},
        }
    )
    assert settings.head is None


def test_a_learner_that_brings_a_head_leaves_it_for_one_in_the_job_file():
    settings = settings_from(table(learner={"name": "sispeed", "rank": 4, "budget": 9}, head={"name": "rls"}))
    learner = Job.from_settings(settings).learner
    assert isinstance(learner, Chain) and (learner.extractor.kind, learner.head.kind) == ("features", "regression")
    found = problems(table(learner={"name": "sispeed", "rank": 4, "budget": 9, "head": "rls"}, head={"name": "rls"}))
    assert found == ["job.toml [learner]: head has no meaning in a job with a [head] section; remove one of the two."]
    found = problems(table(learner={"name": "sispeed", "rank": 4, "budget": 0}, head={"name": "rls"}))
    assert "stores every sample; a job runs bounded learners only" in found[0]


def test_a_mistyped_name_does_not_also_count_as_missing_numbers():
    made = table()
    made["source"]["feilds"] = made["source"].pop("fields")
    assert problems(made) == ["job.toml [source]: unknown setting 'feilds'; did you mean 'fields'?"]


def test_settings_come_from_the_environment_as_toml_values_or_texts():
    env = {
        "STREAMJOBS_BROKER__URL": "kafka://far:9092",
        "STREAMJOBS_LEARNER__RANK": "4",
        "STREAMJOBS_LEARNER__KERNEL__BANDWIDTH": "1.5",
        "STREAMJOBS_STATE__CHECKPOINT": "250ms",
        "STREAMJOBS_SOURCE__FIELDS": '["gx", "gy", "gz"]',
        "STREAMJOBS_JOB__NAME": "2024",
        "STREAMJOBS_SCALING__UNIT_NORM": "true",
        "STREAMJOBS_CACHE": "/elsewhere",  # not a setting
    }
    settings = settings_from(table(), env)
    assert settings.broker.url == "kafka://far:9092"
    assert settings.learner.model_extra == {"rank": 4, "budget": 5, "kernel": {"bandwidth": 1.5}}
    assert settings.state.checkpoint == 0.25
    assert settings.source.fields == ["gx", "gy", "gz"]
    assert settings.job.name == "2024"
    assert settings.scaling.unit_norm is True


def test_a_mistake_from_the_environment_is_placed_there():
    env = {"STREAMJOBS_LEARNER__RANK": "-1", "STREAMJOBS_LERNER__RANK": "3", "STREAMJOBS_WINDOW__HOP": "soon"}
    found = problems(table(), env)
    assert "environment STREAMJOBS_LERNER__RANK: unknown section 'lerner'; did you mean 'learner'?" in found
    assert any(sentence.startswith("environment STREAMJOBS_LEARNER__RANK: Okfeb: rank must be") for sentence in found)
    assert any(
        sentence.startswith("environment STREAMJOBS_WINDOW__HOP: hop must be a duration such as") for sentence in found
    )
    assert len(found) == 3


def test_a_syntax_error_is_shown_with_its_line(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('[job]\nname = "a"\n[source]\ntopic = imu\n')
    with pytest.raises(ConfigError, match=r"line 4 is not TOML: .*'topic = imu'"):
        load_job(path, {})


def test_a_setting_that_is_true_or_a_duration_names_both():
    (found,) = problems(table() | {"alarms": {"stuck": "10 minutes"}})
    assert "stuck must be true, false or a duration such as '500ms', '2s'," in found and "got '10 minutes'" in found


def test_a_file_of_windows_notepad_is_read_and_another_encoding_is_named_with_its_line():
    assert table_of('\ufeff[job]\r\nname = "é"\r\n'.encode(), "job.toml") == {"job": {"name": "é"}}
    with pytest.raises(ConfigError, match=r"^job\.toml: line 2 is not UTF-8 text; save the file with this encoding\.$"):
        table_of('[job]\nname = "é"\n'.encode("latin-1"), "job.toml")


def test_a_job_without_labels_is_advised_and_runs():
    settings = settings_from(table(source={"label": "activity"}, head=None))
    assert notes(settings) == ["[source]: label 'activity' is read, but nothing learns it; add a [head]."]
    made = table()
    del made["source"]["label"]
    assert any("predictions are never learned and stay null" in sentence for sentence in notes(settings_from(made)))


@pytest.mark.parametrize(("forecast", "said"), [(None, True), ({"ahead": [1]}, False)])
def test_a_job_of_forecasts_alone_is_not_told_that_it_sends_nothing(forecast, said):
    made = table(head=None, sinks=None) | {"learner": {"name": "okfeb"}}
    found = notes(settings_from(made if forecast is None else made | {"forecast": forecast}))
    assert any("the job sends no predictions" in sentence for sentence in found) is said


@pytest.mark.parametrize(
    ("labels", "said"), [({"wait": "1d"}, None), ({"wait": "5d"}, "100000 s"), ({"delay": "2m", "most": 90}, "90 s")]
)
def test_labels_later_than_windows_can_wait_are_named(labels, said):
    window = {"length": "2s", "hop": "1s", "rate": 50.0}
    made = table(source={"label": "activity", "time": "ts"}, window=window, labels=labels)
    found = [sentence for sentence in notes(settings_from(made)) if sentence.startswith("[labels]")]
    assert len(found) == (said is not None) and all(f"windows wait {said} for labels, not" in one for one in found)


def test_a_learner_without_features_is_refused():
    (found,) = problems({**table(learner=None, head=None), "learner": {"name": "running_mean"}})
    assert found == "job.toml [learner]: running_mean gives no features; it belongs in the list [drift] 'beside'."


def test_every_setting_has_a_description_and_every_learner_its_settings_in_the_schema():
    schema = json_schema()
    bare = [
        (section, name)
        for section, model in schema["$defs"].items()
        for name, setting in model["properties"].items()
        if not setting.get("description")
    ]
    assert bare == []
    assert set(schema["properties"]) == set(Settings.model_fields)
    learners = schema["$defs"]["LearnerSection"]
    names = {name for name, learner in LEARNERS.items() if learner.kind != "drift"}
    assert set(learners["properties"]["name"]["enum"]) == names
    described = {rule["if"]["properties"]["name"]["const"]: rule["then"]["properties"] for rule in learners["allOf"]}
    assert set(described) == names and "budget" in described["okfeb"]
    assert '"null"' not in str(schema)


class Secretive(Section):
    password: str = Field(default="", json_schema_extra={"secret": True}, pattern="^[a-z]*$")
    user: str = ""


def test_secrets_are_neither_shown_nor_repeated_in_a_problem():
    assert without_secrets(Secretive(password="word", user="me")) == {"password": MASK, "user": "me"}
    _, found = validated(Secretive, "broker", {"password": "WORD1"}, Places("job.toml", {}))
    assert found and "WORD1" not in found[0][1]
    (sentence,) = problems(table(broker={"url": "kafka://me:wo/rd5@far:9092"}))
    assert "rd5" not in sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = " + "[" * 5000, "nested too deep"),
        ("x = " + "[" * 40 + "]" * 40, "nested more than 32 deep"),
        (".".join(["a"] * 500) + " = 1", "nested more than 32 deep"),
        ("[learner]\nname = 'okfeb'\nrank = 0x" + "f" * 5000, "an integer beyond 64 bits"),
        ("x = " + "9" * 5000, "not TOML"),
        ("x = 2026-02-31", "not TOML"),
    ],
)
def test_a_job_file_made_to_break_its_reader_is_one_sentence(text: str, said: str):
    with pytest.raises(ConfigError, match=said) as raised:
        settings_from(table_of(text.encode(), "job.toml"))
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"source": {"fields": [f"f{i}" for i in range(300_000)]}},
            "[source]: fields has 300,000 values; a list may have 4,096.",
        ),
        ({"source": {"fields": ["f"] * 300_000}}, "[source]: fields has 300,000 values; a list may have 4,096."),
        ({"head": {"classes": ["c"] * 5000}}, "[head]: classes has 5,000 values; a list may have 4,096."),
        (
            {"learner": {f"a{i}": 1 for i in range(300_000)}},
            "[learner]: the section has 300,003 names; a table may have 1,000.",
        ),
        (
            {"window": {"mirror": {"columns": ["x"] * 9999}}},
            "[window]: mirror.columns has 9,999 values; a list may have 4,096.",
        ),
        ({f"s{i}": {} for i in range(2000)}, "as a whole has 2,007 names; a table may have 1,000."),
    ],
)
def test_a_list_longer_than_any_job_reads_is_one_sentence(changes: dict[str, Any], said: str):
    assert problems(table(**changes)) == [f"job.toml {said}"]


def test_as_many_fields_as_x_may_have_numbers_are_checked():
    named = table(source={"fields": [f"f{i}" for i in range(4096)]}, window=None)
    assert composition_from(named).dim == 4096
    named["source"]["fields"] = ["f"] * 4096
    assert problems(named) == ["job.toml [source]: fields must differ; 'f' is named 4096 times."]


def test_a_job_file_of_megabytes_is_refused_before_it_is_parsed(tmp_path: Path):
    path = tmp_path / "job.toml"
    path.write_text("[source]\nfields = [" + '"f", ' * 300_000 + '"g"]\n')
    with pytest.raises(ConfigError, match=r"a job file has at most 512 KB, got 1\.4 MB; x has 4,096 numbers at most\."):
        load_job(path, {})


@pytest.mark.parametrize("name", [".", ".."])
def test_a_job_name_that_is_no_folder_is_refused(name: str):
    assert problems(table(job={"name": name})) == [
        f"job.toml [job]: name must be a valid name of a folder and of a topic; got {name!r}."
    ]


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a\n", "ä", "n" * 101])
def test_a_job_name_of_other_letters_is_refused(name: str):
    (sentence,) = problems(table(job={"name": name}))
    assert sentence.startswith("job.toml [job]: name must be made of letters, digits, '.', '_' and '-' only")


def test_a_topic_whose_outputs_would_have_too_long_names_is_refused():
    assert len(problems(table(source={"topic": "t" * 249}))) == 3
    assert problems(table(source={"topic": "t" * 240})) == [
        f"job.toml [sinks]: predictions must be a topic's name of at most 249 characters; '{'t' * 59}... has 252."
    ]


@pytest.mark.parametrize("name", ["7", "[]", "{}", "['okfeb']"])
def test_a_nested_learner_whose_name_is_no_text_is_one_sentence(name: str):
    tables = tomllib.loads(f"[learner]\nname = 'chain'\nextractor = {{name = {name}}}\nhead = {{name = 'rls'}}")
    found = problems(table(head=None, learner=None, drift=None) | tables)
    assert len(found) == 1 and "a nested learner needs a 'name', a text; got {'name': " in found[0]


def test_a_wait_of_more_windows_than_there_are_numbers_keeps_as_many_rows_as_any():
    windows = {"length": "1ms", "hop": 1e-5, "rate": 100_000.0}
    made = table(window=windows, labels={"wait": 1.7e308})
    assert composition_from(made).waiting.most == MOST_WAITING
    (sentence,) = problems(table(labels={"wait": 1.0, "most": MOST_WAITING + 1}))
    assert f"most must be at most {MOST_WAITING}; got" in sentence


def test_an_environment_made_to_break_its_reader_is_one_sentence():
    for value in ("[" * 40 + "]" * 40, "0x" + "f" * 5000):
        with pytest.raises(ConfigError, match="environment STREAMJOBS_"):
            settings_from({}, {"STREAMJOBS_LEARNER__RANK": value})
    with pytest.raises(ConfigError, match="this names none"):
        settings_from({}, {"STREAMJOBS_LEARNER" + "__A" * 50: "1"})


def test_a_job_file_may_still_state_the_one_version_of_records() -> None:
    sections = {"source": {"topic": "in", "dim": 2}, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}
    assert settings_from({**sections, "sinks": {"version": 2}}) == settings_from(sections)
    with pytest.raises(ConfigError, match=r"\[sinks\]: version 1 is removed. .*predicted_class.*Remove the setting\.$"):
        settings_from({**sections, "sinks": {"version": 1}})
