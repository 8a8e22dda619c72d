"""Dockerfile, compose.yaml and Kubernetes resources: what their own tools say, and that they fit this release."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from streamjobs import __version__
from streamjobs.demo.job import demo_job
from streamjobs.job_files import load_job
from streamjobs.settings.environment import overridden
from streamjobs.settings.types import size
from streamjobs.sizing.measure import slopes
from streamjobs.worker.run import GIVE_UP, STOP_WITHIN
from tests.deploy import kubernetes
from tests.deploy.tools import DEPLOY, output, rendered
from tests.parts import CHECKOUT

OVERLAYS = ("small", "large")
OPERATORS = {"KafkaTopic", "KafkaUser", "ScaledObject", "TriggerAuthentication"}  # no schema of Kubernetes itself
STREAMJOBS = {"topics", "worker", "feeder"}  # services of compose.yaml that run our image


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(json.loads(output("docker-compose", "-f", "compose.yaml", "config", "--format", "json"))["services"])


@pytest.fixture(scope="module")
def overlays() -> dict[str, list[dict[str, Any]]]:
    return {name: rendered(name) for name in OVERLAYS}


def of_kind(resources: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in resources if one["kind"] == kind]


def container(resources: list[dict[str, Any]]) -> dict[str, Any]:
    (workers,) = of_kind(resources, "StatefulSet")
    (one,) = workers["spec"]["template"]["spec"]["containers"]
    return dict(one)


def settings_of(job: Path, env: Mapping[str, str]) -> Any:
    """The settings of a job file with the environment of a worker; fails for a variable that is no setting."""
    _, _, problems = overridden(tomllib.loads(job.read_text(encoding="utf-8")), env)
    assert problems == []
    return load_job(job, env=env)


# Dockerfile


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    assert output("hadolint", "Dockerfile") == ""


def test_hadolint_would_find_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:latest\nRUN cd /tmp && pip install numpy\n")
    found = output("hadolint", tmp_path / "Dockerfile", accepted=[1])
    assert {"DL3007", "DL3003", "DL3013"} <= set(re.findall(r"DL\d+", found))


def test_no_pinned_package_is_removed_from_the_image() -> None:
    removed = re.findall(r"pip uninstall((?: -\w+)*)((?: [a-z]+)+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    lock = (CHECKOUT / "requirements-deploy.lock").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([a-z0-9][\w.-]*)==", lock, re.MULTILINE))
    (names,) = [words.split() for _, words in removed]
    assert names == ["pip"] and not pinned & {*names}, "grpcio-tools needs setuptools"


def test_the_context_of_the_image_has_what_the_dockerfile_copies() -> None:
    """.dockerignore starts from nothing; each source of a COPY is let through."""
    ignored = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    through = {line[1:] for line in ignored if line.startswith("!")}
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    (jobs,) = re.findall(r'^ARG JOBS="(.+)"$', text, re.MULTILINE)
    copied = [line.split()[1:-1] for line in re.findall(r"^COPY (?!--from).+$", text, re.MULTILINE)]
    sources = {word.removeprefix("./").replace("${JOBS}", jobs) for words in copied for word in words}
    assert "*" in ignored
    assert sources == through
    assert all(list(CHECKOUT.glob(source)) for source in sources)


def test_the_label_of_the_image_names_the_bill_of_materials_that_is_written() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    (label,) = re.findall(r'org\.streamjobs\.sbom="(\S+)"', text)
    assert re.search(rf"cyclonedx-py environment .* -o {label} ", text)


def test_the_image_has_a_bill_of_materials_with_the_hashes_that_its_packages_are_installed_with() -> None:
    text = " ".join((DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").split())
    (lock,) = re.findall(r"pip install --require-hashes -r (\S+)", text)
    others = re.findall(r"/opt/streamjobs/bin/pip install (?!--require-hashes )(.+?)(?: &&| RUN|$)", text)
    assert others == ["--no-deps ."], "every other package has a hash"
    (bill, read) = re.findall(r"cyclonedx-py requirements .*? -o (\S+) .*?(\S+\.lock)", text)[0]
    assert read == lock and bill.startswith("/opt/streamjobs/"), "the last stage copies this folder"
    assert f"`{Path(bill).name}`" in (DEPLOY / "README.md").read_text(encoding="utf-8")


# compose.yaml


def test_compose_reads_its_file(services: dict[str, Any]) -> None:
    assert set(services) == {"kafka", "topics", "worker", "feeder", "prometheus", "grafana"}


def test_folders_that_compose_mounts_exist(services: dict[str, Any]) -> None:
    mounts = [one for service in services.values() for one in service.get("volumes", ()) if one["type"] == "bind"]
    assert mounts
    mounted = {Path(one["source"]).resolve() for one in mounts}
    assert CHECKOUT / "streamjobs" / "demo" in mounted
    assert [path for path in mounted if not path.exists()] == []


def test_prometheus_and_grafana_of_compose_find_what_they_are_given(services: dict[str, Any]) -> None:
    mounted = {one["target"]: Path(one["source"]) for one in services["grafana"]["volumes"]}
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    (scraped,) = yaml.safe_load(compose["configs"]["prometheus"]["content"])["scrape_configs"]
    (found,) = scraped["dns_sd_configs"]
    assert (found["names"], found["port"]) == (["worker"], services["worker"]["ports"][0]["target"])
    (source,) = yaml.safe_load(next((mounted["/etc/grafana/provisioning"] / "datasources").iterdir()).read_text())[
        "datasources"
    ]
    assert source["url"] == f"http://prometheus:{services['prometheus']['ports'][0]['target']}"
    (given,) = yaml.safe_load(next((mounted["/etc/grafana/provisioning"] / "dashboards").iterdir()).read_text())["providers"]
    assert list(mounted[given["options"]["path"]].glob("*.json"))


def test_services_of_compose_publish_ports_on_this_machine_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert len(ports) >= 4
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}


def test_every_variable_of_compose_is_a_setting(services: dict[str, Any]) -> None:
    for name in STREAMJOBS:
        settings = demo_job(services[name]["environment"]).settings
        assert settings.broker.url == "kafka://kafka:9092"


def test_containers_of_compose_have_no_rights_they_do_not_need(services: dict[str, Any]) -> None:
    for name in STREAMJOBS:
        one = services[name]
        assert one["read_only"] is True and one["cap_drop"] == ["ALL"]
        assert one["security_opt"] == ["no-new-privileges:true"]


def test_a_worker_of_compose_has_time_for_its_last_checkpoint(services: dict[str, Any]) -> None:
    minutes, _, rest = services["worker"]["stop_grace_period"].rpartition("m")
    assert 60 * float(minutes or 0) + float(rest.removesuffix("s") or 0) > STOP_WITHIN + GIVE_UP


def test_what_the_page_types_and_opens_is_in_compose(services: dict[str, Any]) -> None:
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    walk = page.partition("### On one machine, with Docker Compose\n")[2].partition("\n### ")[0].replace("\\\n", " ")
    calls = re.findall(r"docker compose -f deploy/compose\.yaml ([^\n|]+)", walk)
    assert len(calls) > 7
    named = {name for call in calls for name in re.findall(r"(?:exec(?: -T)?|run --rm|-f) (\w+)|--scale (\w+)=", call)}
    assert {name for pair in named for name in pair if name} == {"kafka", "topics", "worker"} <= services.keys()
    job = demo_job(services["worker"]["environment"])
    assert set(re.findall(r"--topic (\S+)", walk)) == {job.settings.source.topic, job.sinks["predictions"]}
    ports = {port["published"].partition("-")[0] for service in services.values() for port in service.get("ports", ())}
    assert set(re.findall(r"\blocalhost:(\d+)", walk)) - ports == {"9092"}  # within the broker's container
    token = services["worker"]["environment"]["STREAMJOBS_METRICS__TOKEN"]
    assert f"`{token}`" in walk
    assert "docker kill streamjobs-worker-1\n" in walk  # project, service, number
    assert yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["name"] == "streamjobs"
    assert (
        services["topics"]["command"][:3] == ["topics", "create", "job.toml"] and "run --rm topics dlq list job.toml" in walk
    )


# Kubernetes


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_takes_every_resource(overlays: dict[str, list[dict[str, Any]]], overlay: str) -> None:
    ours = [one for one in overlays[overlay] if one["kind"] not in OPERATORS]
    assert {one["kind"] for one in ours} == {"StatefulSet", "Service", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy"}
    for one in ours:
        kubernetes.validate(one)


def test_a_misspelt_field_would_be_found(overlays: dict[str, list[dict[str, Any]]]) -> None:
    (workers,) = of_kind(overlays["small"], "StatefulSet")
    with pytest.raises(jsonschema.ValidationError):
        kubernetes.validate({**workers, "spec": {**workers["spec"], "replica": 2}})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_workers_run_the_job_of_the_config_map(
    overlays: dict[str, list[dict[str, Any]]], overlay: str, tmp_path: Path
) -> None:
    (job,) = of_kind(overlays[overlay], "ConfigMap")
    one = container(overlays[overlay])
    (tmp_path / "job.toml").write_text(job["data"]["job.toml"])
    (tmp_path / "password").write_text("secret")
    (tmp_path / "ca.crt").write_text("")
    referred = {"STREAMJOBS_BROKER__INSTANCE_ID": "streamjobs-0", "STREAMJOBS_METRICS__TOKEN": "0123456789abcdef"}
    env = {entry["name"]: entry["value"] if "value" in entry else referred[entry["name"]] for entry in one["env"]}
    env["STREAMJOBS_BROKER__PASSWORD_FILE"] = str(tmp_path / "password")
    settings = settings_of(tmp_path / "job.toml", env)
    assert (settings.broker.instance_id, settings.broker.reached) == ("streamjobs-0", "sasl_ssl")
    mounts = {mount["mountPath"] for mount in one["volumeMounts"]}
    assert {settings.state.directory, str(Path(env["STREAMJOBS_BROKER__CA_FILE"]).parent), "/etc/streamjobs"} <= mounts


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_have_time_memory_and_no_rights(overlays: dict[str, list[dict[str, Any]]], overlay: str) -> None:
    (workers,) = of_kind(overlays[overlay], "StatefulSet")
    pod, one = workers["spec"]["template"]["spec"], container(overlays[overlay])
    assert pod["terminationGracePeriodSeconds"] > STOP_WITHIN + GIVE_UP
    assert pod["securityContext"]["runAsNonRoot"] and one["securityContext"]["readOnlyRootFilesystem"]
    assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert one["image"] == f"registry.example.org/streamjobs:{__version__}"
    (tmp,) = [volume for volume in pod["volumes"] if volume["name"] == "tmp"]
    assert tmp["emptyDir"]["sizeLimit"] == "256Mi"
    (policy,) = of_kind(overlays[overlay], "NetworkPolicy")
    peers = [peer for rule in policy["spec"]["egress"] for peer in rule["to"]]
    assert not any("app.kubernetes.io/name" in peer["podSelector"]["matchLabels"] for peer in peers)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_has_memory_for_a_cache_that_is_full(overlays: dict[str, list[dict[str, Any]]], overlay: str) -> None:
    one = container(overlays[overlay])
    (cache,) = [size(entry["value"]) for entry in one["env"] if entry["name"] == "STREAMJOBS_STATE__CACHE"]
    empty, each = slopes().resident
    limit = int(one["resources"]["limits"]["memory"].removesuffix("Gi")) << 30
    assert empty + each * cache < limit < 2 * (empty + each * cache)


def test_a_pod_asks_for_the_probes_that_a_worker_serves(overlays: dict[str, list[dict[str, Any]]]) -> None:
    one = container(overlays["small"])
    paths = {one["livenessProbe"]["httpGet"]["path"], one["readinessProbe"]["httpGet"]["path"]}
    assert paths == {"/live", "/ready"}
    served = (CHECKOUT / "streamjobs" / "worker" / "health" / "connection.py").read_text(encoding="utf-8")
    assert all(f'"{path}"' in served for path in paths)


def test_topics_and_user_are_those_that_the_product_prints(run_command: Any) -> None:
    (line,) = re.findall(
        r"^#   streamjobs (topics plan .+)$", (DEPLOY / STRIMZI / "kustomization.yaml").read_text(), re.MULTILINE
    )
    assert run_command(line) == json.loads((DEPLOY / STRIMZI / "kafka.json").read_text(encoding="utf-8"))


STRIMZI = "kustomize/components/strimzi"


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    from streamjobs.cli import run

    def does(line: str) -> Any:
        monkeypatch.chdir(CHECKOUT)
        assert run(line.split()) == 0
        return json.loads(capsys.readouterr().out)

    return does


def test_keda_scales_the_workers_by_the_lag_of_their_own_group(overlays: dict[str, list[dict[str, Any]]]) -> None:
    (scaled,) = of_kind(overlays["large"], "ScaledObject")
    (workers,) = of_kind(overlays["large"], "StatefulSet")
    settings = load_job(DEPLOY / "kustomize/base/job.toml", env={})
    (trigger,) = scaled["spec"]["triggers"]
    rules = yaml.safe_load((DEPLOY / "prometheus/recording.yml").read_text(encoding="utf-8"))
    recorded = {rule["record"] for group in rules["groups"] for rule in group["rules"]}
    (name, job), query = re.findall(r'([\w:]+)\{job_name="(\w+)"\}', trigger["metadata"]["query"])[0], trigger["type"]
    assert (query, name in recorded, job) == ("prometheus", True, settings.job.name)
    partitions = {one["spec"]["partitions"] for one in of_kind(overlays["large"], "KafkaTopic")}
    assert partitions == {scaled["spec"]["maxReplicaCount"]}
    assert scaled["spec"]["scaleTargetRef"]["name"] == workers["metadata"]["name"]
    assert "replicas" not in workers["spec"]
