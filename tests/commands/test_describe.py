"""`describe`: every learner, out of the registry; what it says is what the learner does."""

import dataclasses
import json

import numpy as np
import pytest

from algorithms import LEARNERS, learner_from
from algorithms.drift.report import watches_columns
from streamjobs import learner_reference as source
from streamjobs.commands.describe import tables_of
from tests.checks.examples import examples
from tests.commands.jobs import command
from tests.sizes import first_fast


def described(capsys, *words: object) -> dict:
    assert command("describe", *words, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_says_its_source_cost_state_and_settings(name, capsys):
    told = described(capsys, name)
    assert (told["name"], told["family"]) == (name, LEARNERS.family(name))
    for section in ("title", "meaning", "source", "symbols", "cost_of_a_row", "state"):
        assert len(told[section]) >= 5 and "\n" not in told[section], section
        assert not any(heading + ": " in told[section] for heading in source.HEADINGS), section
    fields = {field.name: field for field in dataclasses.fields(LEARNERS[name])}
    assert [setting["name"] for setting in told["settings"]] == list(fields)
    for setting in told["settings"]:
        field = fields[setting["name"]]
        bare = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        assert setting["needed"] == bare
        assert setting["meaning"] or "|" in setting["type"], f"{setting['name']} of {name} has no comment behind it"
        number = setting["type"] in ("integer", "number") and setting["name"] != "seed"
        assert setting["range"] or setting["meaning"] if number else True


@pytest.mark.parametrize("name", first_fast(LEARNERS, 8))
def test_the_text_names_every_setting_and_is_no_wider_than_a_page(name, capsys):
    assert command("describe", name) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{name} (")
    for field in dataclasses.fields(LEARNERS[name]):
        assert f"\n  {field.name} = " in text
    assert "a key for x of length" in text or "grows with the stream" in text or "give the needed settings" in text
    assert max(map(len, text.splitlines()[1:])) <= 110


@pytest.mark.parametrize("name", first_fast(LEARNERS, 8))
def test_the_size_is_what_a_state_is_bounded_by_and_the_defaults_make_the_same_learner(name, capsys):
    example = examples(name)[-1]
    words = [f"--set={setting}={_toml(value)}" for setting, value in example.settings.items()]
    told = described(capsys, name, "--dim", example.dim, "--targets", example.targets, *words)
    learner = learner_from(name, example.settings)
    drift = learner.kind == "drift"
    dim = 1 if drift and not watches_columns(learner) else example.dim
    targets = 0 if drift else example.targets
    state = learner.init(dim=dim, targets=targets, seed=0)
    assert told["size"]["bounded"] == learner.bounded
    assert told["size"]["state_bytes"] == (learner.bytes_of(state) if learner.bounded else None)
    assert told["size"]["features"] == learner.width_for(dim) and told["size"]["kind"] == learner.kind
    defaults = {s["name"]: s["default"] for s in told["settings"] if s["default"] is not None}
    assert learner_from(name, {**defaults, **example.settings}) == learner


def test_ranges_are_those_with_which_wrong_values_are_refused():
    ranges = {setting.name: setting.range for setting in source.settings("qklms")}
    assert (ranges["step_size"], ranges["budget"]) == ("above 0", "0 or more")
    assert {s.name: s.range for s in source.settings("okfeb")}["rank"] == "1 to budget"
    assert {s.name: s.range for s in source.settings("rff")}["features"] == "1 to 20000; even for pair"
    assert {s.name: s.range for s in source.settings("skegd")}["rank"] == "", "its bound is known only at run time"
    assert {s.name: s.range for s in source.settings("sieve_streaming")}["budget"] == "1 to 10000"


def test_a_size_grows_with_the_budget_and_an_unlimited_one_is_said(capsys):
    small, large = (described(capsys, "klms", "--set", f"budget={b}", "--dim", 9)["size"] for b in (10, 1010))
    assert large["state_bytes"] - small["state_bytes"] == 1000 * 8 * (9 + 1)
    free = described(capsys, "klms")["size"]
    assert (free["bounded"], free["state_bytes"]) == (False, None)
    assert command("describe", "klms") == 0
    assert "a job refuses it" in capsys.readouterr().out


def test_without_a_name_all_learners_are_listed_by_family(capsys):
    listed = described(capsys)
    assert sorted(name for names in listed.values() for name in names) == sorted(LEARNERS)
    assert "klms" in listed["adaptive"] and "rff" in listed["maps"] and "chain" in listed["composition"]
    assert command("describe") == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in LEARNERS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["talyor"], "unknown learner 'talyor'; did you mean 'taylor'?"),
        (["okfeb", "--set", "rnak=3"], "unknown setting 'rnak' for okfeb; did you mean 'rank'?"),
        (["okfeb", "--set", "rank=99"], "rank must be 1 to budget (15); got 99."),
        (["okfeb", "--set", "rank"], "--set must be NAME=VALUE; got 'rank'."),
        (["chain", "--set", "extractor.name=scaling"], "setting 'head' is missing"),
        (["taylor", "--dim", "60"], "635376 features, at most 20000"),
    ],
)
def test_what_is_wrong_is_one_line_and_code_2(words, said, capsys):
    assert command("describe", *words) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and len(err.strip().splitlines()) == 1


def test_settings_are_written_as_in_a_job_file_or_as_bare_texts():
    given = ["kernel.bandwidth=2.5", "kernel.name=laplacian", "role=head", "rank=3", 'head={name="rls", delta=1.0}']
    table = tables_of(given)
    assert table == {
        "kernel": {"bandwidth": 2.5, "name": "laplacian"},
        "role": "head",
        "rank": 3,
        "head": {"name": "rls", "delta": 1.0},
    }


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + "}"
    return json.dumps(value if not isinstance(value, np.generic) else value.item())
