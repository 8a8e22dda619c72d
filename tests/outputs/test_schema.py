"""Every record of a topic fits the schema that `streamjobs schema --outputs` prints, and others do not."""

import json
import math
from collections.abc import Iterator

import fastavro
import pytest
from jsonschema import Draft202012Validator

from streamjobs.core.messages import Output
from streamjobs.outputs.schema import avro_schemas, document, output_schemas
from tests.commands.jobs import command, job_file
from tests.outputs.jobs import JOBS, job_of, outputs_of


def _sampled(outputs: list[Output]) -> Iterator[Output]:
    """The first records of each sink, and every seventh."""
    seen: dict[str, int] = {}
    for one in outputs:
        seen[one.sink] = seen.get(one.sink, 0) + 1
        if seen[one.sink] < 12 or seen[one.sink] % 7 == 0 or one.sink == "alarms":
            yield one


def _value(output: Output) -> dict:
    return json.loads(output.value or b"null")


@pytest.mark.parametrize("name", JOBS)
def test_every_output_fits_the_schema_of_its_topic(name: str) -> None:
    job = job_of(name, scores=name in ("declared", "people"))
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
def test_each_field_has_one_type(name: str) -> None:
    """Beside null; of a list and of a map the elements too."""
    for sink, schema in output_schemas(job_of(name, scores=name in ("declared", "people"))).items():
        for field, of_field in schema.get("properties", {}).items():
            kinds = [one["type"] for one in of_field.get("anyOf", [of_field]) if one["type"] != "null"]
            assert len(kinds) == 1, (sink, field)


def test_what_does_not_fit_is_refused() -> None:
    job = job_of("declared")
    of_predictions = Draft202012Validator(output_schemas(job)["predictions"])
    good = next(_value(one) for one in outputs_of(job) if one.sink == "predictions")
    assert of_predictions.is_valid(good)
    for wrong in (
        {"predicted_class": 1},
        {"ls_error": "0.5"},
        {"predicted_value": 1.0},
        {"seq": 0.5},
    ):
        assert not of_predictions.is_valid(good | wrong), wrong
    for field in good:
        assert not of_predictions.is_valid({name: one for name, one in good.items() if name != field}), field


def test_outputs_name_their_schema() -> None:
    for one in outputs_of(job_of("declared"), 300):
        if one.sink != "dlq":
            assert [name for name, _ in one.headers] == ["streamjobs-id", "streamjobs-schema"]
            assert one.headers[1][1] == b"%s/2" % one.sink.encode()


def test_features_are_sent_where_their_topic_is_named_alone() -> None:
    assert "features" not in JOBS["declared"]({}).sinks
    assert JOBS["declared"]({"features": "z"}).sinks["features"] == "z"


def test_scores_are_those_that_decided_and_the_best_two_of_them() -> None:
    some = 0
    for one in outputs_of(job_of("people", scores=True)):
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


@pytest.mark.parametrize("name", JOBS)
def test_records_become_avro_and_come_back(name: str) -> None:
    job = job_of(name, scores=name in ("declared", "people"))
    parsed = {sink: fastavro.parse_schema(schema) for sink, schema in avro_schemas(job).items()}
    assert set(parsed) == set(job.sinks) - {"dlq"}
    for one in _sampled(outputs_of(job, 400)):
        if one.sink != "dlq":
            assert fastavro.validate(_value(one), parsed[one.sink], strict=False)


def test_the_command_prints_each_form_and_says_what_it_needs(tmp_path, capsys) -> None:
    job = job_file(tmp_path)
    for form, part in (("json", "$defs"), ("avro", "predictions")):
        assert command("schema", job, "--outputs", "--format", form) == 0
        assert part in json.loads(capsys.readouterr().out)
    assert command("schema", "--outputs") == 2
    assert "needs the job file" in capsys.readouterr().err
    assert command("schema", job) == 2
    assert "belong to --outputs" in capsys.readouterr().err
    assert command("schema", job, "--sink", "predictions") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "predictions/2"


def test_no_output_holds_what_is_not_json() -> None:
    def refuse(text: str) -> float:
        raise AssertionError(text)

    for one in outputs_of(job_of("declared", scores=True)):
        if one.sink != "dlq":
            json.loads(one.value or b"", parse_constant=refuse)
    assert math.isnan(json.loads("NaN"))  # which json reads otherwise


def test_an_avro_schema_of_one_output_is_a_file_that_avro_loads(tmp_path, capsys):
    assert command("schema", job_file(tmp_path), "--outputs", "--format", "avro", "--sink", "predictions") == 0
    file = tmp_path / "predictions.avsc"
    file.write_text(capsys.readouterr().out)
    assert fastavro.schema.load_schema(file)["name"] == "streamjobs.predictions"
    assert command("schema", job_file(tmp_path), "--outputs", "--format", "avro", "--sink", "dlq") == 2
    assert "the job has features, predictions" in capsys.readouterr().err
