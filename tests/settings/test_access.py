"""[broker]'s credentials: where secrets may stand, what contradicts what, and that nothing shows them."""

import json
import os
from typing import Any

import pytest

from streamjobs.errors import ConfigError
from streamjobs.kafka.secrets import exposed, secret_of, unreadable
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.load import settings_from
from streamjobs.settings.sections import MetricsSection
from tests.commands.jobs import JOB, command, job_file, problems, table

WORD = "s3cret-Word,=#"
ENV = {"STREAMJOBS_BROKER__PASSWORD": WORD}


@pytest.mark.parametrize("name", ["password", "key_password", "token", "client_secret"])
def test_a_secret_in_the_job_file_is_refused_with_the_place_for_it(name: str) -> None:
    (sentence, *_) = problems(table(broker={"username": "me", name: WORD}))
    assert sentence == (
        f"job.toml [broker]: {name} must not be in a job file; put it in a file of its own, named by {name}_file, or "
        f"in the environment as STREAMJOBS_BROKER__{name.upper()}."
    )
    assert WORD not in "".join(problems(table(broker={name: WORD}), {f"STREAMJOBS_BROKER__{name.upper()}": "other"}))


@pytest.mark.parametrize(
    "url", [f"kafka://me:{WORD}@far:9092", f"me:{WORD}@far", f"kafka://a:9092,me:{WORD}@far", f"kafka://me:x/{WORD}@far"]
)
def test_credentials_in_the_url_are_refused_and_not_repeated(url: str) -> None:
    (sentence,) = problems(table(broker={"url": url}))
    assert "url must not hold credentials" in sentence and "password_file" in sentence and WORD not in sentence
    (sentence,) = problems(table(broker=url))  # not even a table
    assert WORD not in sentence


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({"protocol": "sasl_plaintext", "username": "me"}, "'sasl_plaintext' is refused: others on the network could read"),
        ({"protocol": "plaintext", "username": "me"}, "username over protocol = 'plaintext' is refused"),
        ({"protocol": "plaintext", "token_file": "t", "password": None}, "token over protocol = 'plaintext' is refused"),
        ({"protocol": "plaintext", "ca_file": "ca", "password": None}, "ca_file has no meaning with protocol = 'plaintext'"),
        ({"protocol": "ssl", "username": "me"}, "protocol = 'ssl' sends no username; set 'sasl_ssl'"),
        ({"protocol": "sasl_ssl", "password": None}, "protocol = 'sasl_ssl' needs credentials"),
        ({"username": "me", "password": None}, "username 'me' needs its password"),
        ({}, "password needs a username; set username"),
        ({"username": "me", "password_file": "p"}, "password_file and password both give the same secret; remove one"),
        ({"mechanism": "OAUTHBEARER", "password": None}, "OAUTHBEARER needs a token"),
        ({"username": "me", "token_file": "t"}, "token_file belongs to mechanism = 'OAUTHBEARER'"),
        ({"key_file": "k", "password": None}, "key_file needs its certificate; set certificate_file"),
        ({"token_url": "http://a/t", "client_id": "c", "client_secret_file": "s", "password": None}, "must be https://"),
        ({"token_url": "https://a/t", "client_id": "c", "password": None}, "needs client_id, and client_secret_file"),
        ({"token_file": "t", "scope": "s", "password": None}, "scope has no meaning without token_url"),
    ],
)
def test_contradictions_are_one_sentence_each(broker: dict[str, Any], expected: str) -> None:
    stated = {name: value for name, value in broker.items() if value is not None}
    env = {} if "password" in broker else ENV
    (sentence,) = problems(table(broker=stated), env)
    assert expected in sentence and WORD not in sentence


@pytest.mark.parametrize(
    ("broker", "reached"),
    [
        ({}, ("plaintext", None)),
        ({"ca_file": "ca"}, ("ssl", None)),
        ({"certificate_file": "c", "key_file": "k"}, ("ssl", None)),
        ({"protocol": "ssl"}, ("ssl", None)),
        ({"username": "me", "password_file": "p"}, ("sasl_ssl", "SCRAM-SHA-512")),
        ({"username": "me", "password_file": "p", "mechanism": "PLAIN", "ca_file": "ca"}, ("sasl_ssl", "PLAIN")),
        ({"token_file": "t"}, ("sasl_ssl", "OAUTHBEARER")),
        ({"token_url": "https://a/t", "client_id": "c", "client_secret_file": "s"}, ("sasl_ssl", "OAUTHBEARER")),
    ],
)
def test_credentials_alone_already_mean_tls(broker: dict[str, Any], reached: tuple[str, str | None]) -> None:
    made = settings_from(table(broker=broker)).broker
    assert (made.reached, made.sasl) == reached


@pytest.mark.parametrize("word", [WORD, "1234", "true", '"quoted"', "[a]"])
def test_a_secret_of_the_environment_is_taken_as_it_stands(word: str) -> None:
    made = settings_from(table(broker={"username": "me"}), {"STREAMJOBS_BROKER__PASSWORD": word})
    secret = secret_of(made.broker, "password")
    assert secret is not None and secret.read() == word
    for shown in (repr(made), str(made), repr(secret), made.model_dump_json(), repr(made.model_dump())):
        assert word not in shown


def test_config_show_and_check_mask_secrets(tmp_path, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    job = job_file(tmp_path, JOB + '[broker]\nusername = "me"\n')
    monkeypatch.setenv("STREAMJOBS_BROKER__PASSWORD", WORD)
    for words in (("config", "show", job), ("config", "show", job, "--json"), ("check", job), ("check", job, "--json")):
        assert command(*words) == 0
    out, err = capsys.readouterr()
    assert "********" in out and WORD not in out + err
    assert command("schema") == 0
    assert "password_file" in json.dumps(json.loads(capsys.readouterr().out))


def test_check_warns_of_files_that_others_may_read_or_nobody_can(tmp_path) -> None:  # type: ignore[no-untyped-def]
    open_one, closed = tmp_path / "open", tmp_path / "closed"
    for file in (open_one, closed):
        file.write_text(WORD + "\n")
    closed.chmod(0o600)
    open_one.chmod(0o640)
    broker = BrokerSection(username="me", password_file=str(open_one), certificate_file=str(tmp_path / "none"))
    (warning,) = exposed(broker, MetricsSection())
    assert str(open_one) in warning and "mode 0640" in warning and "chmod 600" in warning and WORD not in warning
    (missing,) = unreadable(broker)
    assert missing.startswith("[broker]: certificate_file") and "No such file" in missing


def test_check_refuses_an_authority_that_is_not_there(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "other").write_text("something else\n")
    for name, expected in (("none", "cannot be read (No such file or directory)"), ("other", "holds no certificate")):
        job = job_file(tmp_path, JOB + f'[broker]\nca_file = "{tmp_path / name}"\n')
        assert command("check", job) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("[broker]: ca_file") and expected in line


def test_a_file_is_read_again_each_time_and_the_last_good_secret_counts_while_it_is_gone(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "password"
    broker = BrokerSection(username="me", password_file=str(file))
    secret = secret_of(broker, "password")
    assert secret is not None
    with pytest.raises(ConfigError, match=r"password_file .* cannot be read"):
        secret.read()
    for text in ("one\n", "two", "three\r\n"):
        file.write_text(text)
        assert secret.read() == text.strip()
    os.remove(file)
    assert secret.read() == "three"
    for bad in ("", "\n", "a\nb\n"):
        file.write_text(bad)
        with pytest.raises(ConfigError, match="expected one line of text"):
            secret_of(broker, "password").read()  # type: ignore[union-attr]


def test_rights_are_printed_for_the_administrators_tool_and_for_programs(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    job = job_file(tmp_path)
    assert command("topics", "plan", job, "--acl") == 2
    assert "--principal must name the user that runs the worker" in capsys.readouterr().err
    assert command("topics", "plan", job, "--acl", "--principal", "User:CN=a b,O=c") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("kafka-acls.sh ")]
    begin = "kafka-acls.sh --bootstrap-server localhost:9092 --command-config admin.properties --add"
    begin += " --allow-principal 'User:CN=a b,O=c' --operation"
    assert lines == [
        f"{begin} Read --operation Describe --topic imu",
        *(f"{begin} Write --operation Describe --topic imu.{sink}" for sink in ("features", "predictions", "drift", "dlq")),
        f"{begin} Read --operation Write --operation Describe --topic small-state-changelog",
        f"{begin} Read --group small",
        f"{begin} Write --operation Describe --transactional-id small- --resource-pattern-type prefixed",
    ]
    assert command("topics", "plan", job, "--acl", "--principal", "User:me", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["topics"]) == 6 and len(found["rights"]) == 8
    assert found["rights"][0] == {
        "principal": "User:me",
        "resource": "topic",
        "name": "imu",
        "pattern": "literal",
        "operations": ["Read", "Describe"],
        "role": "input",
    }
