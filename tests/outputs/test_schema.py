"""Every record of a topic fits the schema that `streamjobs schema --outputs` prints, and others do not."""

import json
import math
from collections.abc import Iterator

import fastavro
import pytest
from jsonschema import Draft202012Validator

from streamjobs.core.messages import Output
from streamjobs.outputs import asyncapi, avro
from streamjobs.outputs.schema import document, output_schemas
from tests.cli.jobs import command, job_file
from tests.outputs.asyncapi_schema import meta_schema
from tests.outputs.jobs import JOBS, job_of, outputs_of

CASES = [(name, version) for name in JOBS for version in (1, 2)]


def _sampled(outputs: list[Output]) -> Iterator[Output]:
    """The first records of each sink, and every seventh."""
    seen: dict[str, int] = {}
    for one in outputs:
        seen[one.sink] = seen.get(one.sink, 0) + 1
        if seen[one.sink] < 12 or seen[one.sink] % 7 == 0 or one.sink == "alarms":
            yield one


def _value(output: Output) -> dict:
    return json.loads(output.value or b"null")


@pytest.mark.parametrize(("name", "version"), CASES)
def test_every_output_fits_the_schema_of_its_topic(name: str, version: int) -> None:
    job = job_of(name, version=version, scores=name in ("declared", "people"))
    schemas = output_schemas(job)
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    values = {sink: Draft202012Validator(schema) for sink, schema in schemas.items() if sink != "dlq"}
    headers = {sink: Draft202012Validator(schema["x-kafka"]["headers"]) for sink, schema in schemas.items()}
    met = set()
    for output in _sampled(outputs_of(job)):
        met.add(output.sink)
        headers[output.sink].validate({header: text.decode() for header, text in output.headers})
        if output.sink != "dlq":
            values[output.sink].validate(_value(output))
    assert met == set(schemas)
    Draft202012Validator.check_schema(document(job))


@pytest.mark.parametrize("name", JOBS)
def test_each_field_of_version_2_has_one_type(name: str) -> None:
    """Beside null; of a list and of a map the elements too."""
    for sink, schema in output_schemas(job_of(name, version=2, scores=name in ("declared", "people"))).items():
        for field, of_field in schema.get("properties", {}).items():
            kinds = [one["type"] for one in of_field.get("anyOf", [of_field]) if one["type"] != "null"]
            assert len(kinds) == 1, (sink, field)


def test_what_does_not_fit_is_refused() -> None:
    job = job_of("declared", version=2)
    of_predictions = Draft202012Validator(output_schemas(job)["predictions"])
    good = next(_value(one) for one in outputs_of(job) if one.sink == "predictions")
    assert of_predictions.is_valid(good)
    for wrong in (
        {"predicted_class": 1},
        {"predicted_class": "fly"},
        {"ls_error": "0.5"},
        {"predicted_value": 1.0},
        {"seq": 0.5},
    ):
        assert not of_predictions.is_valid(good | wrong), wrong
    for field in good:
        assert not of_predictions.is_valid({name: one for name, one in good.items() if name != field}), field


def test_outputs_of_version_2_name_their_schema_and_those_of_version_1_have_the_id_alone() -> None:
    for version in (1, 2):
        for one in outputs_of(job_of("declared", version=version), 300):
            if one.sink == "dlq":
                continue
            names = [name for name, _ in one.headers]
            assert names == ["streamjobs-id", "streamjobs-schema"][:version]
            assert version == 1 or one.headers[1][1] == b"%s/2" % one.sink.encode()


@pytest.mark.parametrize("name", ["declared", "alarms"])
def test_both_versions_say_the_same(name: str) -> None:
    old, new = ([one for one in outputs_of(job_of(name, version=version)) if one.sink != "dlq"] for version in (1, 2))
    assert len(old) == len(new)
    for a, b in zip(old, new, strict=True):
        before, after = _value(a), _value(b)
        if a.sink == "predictions":
            before["predicted_class"], before["true_class"] = before.pop("y_hat"), before.pop("y")
        if a.sink == "alarms":
            before["open"] = before["end"] == "open"
            before["end"] = None if before["open"] else before["end"]
        assert before == after
        assert (a.key, a.timestamp, a.headers[0]) == (b.key, b.timestamp, b.headers[0])


def test_scores_are_those_that_decided_and_the_best_two_of_them() -> None:
    some = 0
    for one in outputs_of(job_of("people", version=2, scores=True)):
        said = _value(one) if one.sink == "predictions" else {}
        if not said.get("scores"):
            continue
        some += 1
        ranked = sorted(said["scores"], key=lambda name: -said["scores"][name])
        assert [said["first"], said["second"]] == ranked[:2] and said["first"] == said["predicted_class"]
        assert said["first_score"] == said["scores"][ranked[0]] == said["smoothed"]
        assert len(said["scores"]) == said["classes"] == 2
        assert said["second_score"] == said["scores"][ranked[1]]
    assert some > 100


@pytest.mark.parametrize(("name", "version"), [(name, 2) for name in JOBS])
def test_records_become_avro_and_come_back(name: str, version: int) -> None:
    job = job_of(name, version=version, scores=True) if name in ("declared", "people") else job_of(name, version=version)
    parsed = {sink: fastavro.parse_schema(schema) for sink, schema in avro.schemas(job).items()}
    assert set(parsed) == set(job.sinks) - {"dlq"}
    for one in _sampled(outputs_of(job, 400)):
        if one.sink != "dlq":
            assert fastavro.validate(_value(one), parsed[one.sink], strict=False)


def test_the_asyncapi_document_names_every_topic_once() -> None:
    made = asyncapi.document(job_of("alarms", version=2))
    assert made["asyncapi"] == "3.0.0"
    assert [one["address"] for one in made["channels"].values()] == [
        "imu",
        "features",
        "every-row",
        "imu.alarms",
        "imu.dlq",
    ]
    assert {one["action"] for name, one in made["operations"].items() if name != "receive-input"} == {"send"}


@pytest.mark.long
@pytest.mark.parametrize(("name", "version"), CASES)
def test_the_asyncapi_document_fits_the_published_schema_of_asyncapi(name: str, version: int) -> None:
    from jsonschema import Draft7Validator

    of_asyncapi = Draft7Validator(meta_schema())
    made = asyncapi.document(job_of(name, version=version))
    of_asyncapi.validate(made)
    assert not of_asyncapi.is_valid({**made, "channels": 1})
    del made["info"]["title"]
    assert not of_asyncapi.is_valid(made)


def test_the_command_prints_each_form_and_says_what_it_needs(tmp_path, capsys) -> None:
    job = job_file(tmp_path)
    for form, part in (("json", "$defs"), ("asyncapi", "channels"), ("avro", "predictions")):
        assert command("schema", job, "--outputs", "--format", form) == 0
        assert part in json.loads(capsys.readouterr().out)
    assert command("schema", "--outputs") == 2
    assert "needs the job file" in capsys.readouterr().err
    assert command("schema", job) == 2
    assert "belong to --outputs" in capsys.readouterr().err


def test_no_output_of_either_version_holds_what_is_no_json() -> None:
    def refuse(text: str) -> float:
        raise AssertionError(text)

    for version in (1, 2):
        for one in outputs_of(job_of("declared", version=version, scores=True)):
            if one.sink != "dlq":
                json.loads(one.value or b"", parse_constant=refuse)
    assert math.isnan(json.loads("NaN"))  # which json reads otherwise
