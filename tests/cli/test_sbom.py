"""`streamjobs sbom`: a CycloneDX 1.6 document of what is installed, made without a network."""

import hashlib
import json
import re
import socket
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from streamjobs import __version__
from streamjobs.cli import run
from streamjobs.commands.sbom import document


def _no_network(*_: object, **__: object) -> None:
    raise AssertionError("the command opened a socket")


@pytest.fixture
def bill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    monkeypatch.setattr(socket, "socket", _no_network)
    assert run(["sbom"]) == 0
    return json.loads(capsys.readouterr().out)


def _lacks(bill: dict[str, Any]) -> list[str]:
    """What the schema of CycloneDX 1.6 asks for and is not there."""
    problems = []
    if (bill.get("bomFormat"), bill.get("specVersion")) != ("CycloneDX", "1.6"):
        problems.append("format")
    if not re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill.get("serialNumber", "")):
        problems.append("serial number")
    if not isinstance(bill.get("version"), int) or bill["version"] < 1:
        problems.append("version")
    components = [bill["metadata"]["component"], *bill["components"]]
    for one in components:
        if one.get("type") not in ("application", "library") or not one.get("name") or not one.get("version"):
            problems.append(f"component {one}")
        if not re.fullmatch(r"pkg:(pypi/[^@/]+|maven/[^@/]+/[^@/]+|generic/[^@/]+)@[^@\s]+", one.get("purl", "")):
            problems.append(f"purl {one}")
        for said in one.get("licenses", []):
            named = set(said) == {"license"} and len(said["license"].keys() & {"id", "name"}) == 1
            fits = named or set(said) == {"expression"}
            problems += [] if fits else [f"licence {said}"]
        for said in one.get("hashes", []):
            if said["alg"] != "SHA-256" or not re.fullmatch("[0-9a-f]{64}", said["content"]):
                problems.append(f"hash {said}")
    references = [one["bom-ref"] for one in components]
    if len(set(references)) < len(references):
        problems.append("a reference twice")
    edges = {edge["ref"]: edge["dependsOn"] for edge in bill["dependencies"]}
    if set(edges) != set(references) or not all(set(needs) <= set(references) for needs in edges.values()):
        problems.append("an edge to or from nowhere")
    return problems


def test_the_document_has_what_the_schema_requires(bill):
    assert _lacks(bill) == []
    for missing in ("serialNumber", "version", "specVersion"):
        assert _lacks({name: value for name, value in bill.items() if name != missing})
    assert _lacks({**bill, "components": bill["components"][1:]})


def test_it_names_the_project_and_all_it_needs_with_versions_and_licences(bill):
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"], root["licenses"]) == ("streamjobs", __version__, [{"expression": "Apache-2.0"}])
    held = {one["name"]: one for one in bill["components"]}
    for name in ("numpy", "aiokafka", "confluent-kafka", "llvmlite", "yarl"):  # the last two are needed by others
        assert held[name]["version"] == version(name)
        assert held[name]["licenses"]
    assert "pytest" not in held
    edges = {edge["ref"]: edge["dependsOn"] for edge in bill["dependencies"]}
    assert held["numba"]["bom-ref"] in edges[root["bom-ref"]]
    assert held["llvmlite"]["bom-ref"] in edges[held["numba"]["bom-ref"]]


@pytest.mark.slow
def test_the_same_installation_gives_the_same_document():
    assert document("streamjobs") == document("streamjobs")


def _jar(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as jar:
        for name, text in files.items():
            jar.writestr(name, text)
    return path


def test_the_brokers_jars_stand_there_with_their_coordinates_and_hashes(tmp_path: Path):
    said = "groupId=org.slf4j\nartifactId=slf4j-api\nversion=1.7.36\n"
    jars = [
        _jar(tmp_path / "slf4j-api-1.7.36.jar", {"META-INF/maven/org.slf4j/slf4j-api/pom.properties": said}),
        _jar(tmp_path / "kafka-clients-4.1.1.jar", {}),
        _jar(tmp_path / "zstd-jni-1.5.6-10.jar", {}),
    ]
    made = document("streamjobs", jars)
    assert _lacks(made) == []
    found = {one["purl"]: one for one in made["components"] if "hashes" in one}
    assert set(found) == {
        "pkg:maven/org.slf4j/slf4j-api@1.7.36",
        "pkg:maven/org.apache.kafka/kafka-clients@4.1.1",
        "pkg:generic/zstd-jni@1.5.6-10",
    }
    digest = hashlib.sha256(jars[0].read_bytes()).hexdigest()
    assert found["pkg:maven/org.slf4j/slf4j-api@1.7.36"]["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_absent_jars_are_said_with_exit_code_3(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("STREAMJOBS_CACHE", str(tmp_path))
    assert run(["sbom", "--kafka"]) == 3
    assert "broker start" in capsys.readouterr().err
