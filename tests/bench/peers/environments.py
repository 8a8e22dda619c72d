"""A virtual environment for each peer, and Kafka Streams compiled; made once, in the cache folder."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.jars import KAFKA_VERSION, cache_folder

PROGRAMS = Path(__file__).parent / "programs"
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "aiokafka": ("aiokafka==0.14.0", "msgspec==0.22.0"),
    "confluent": ("confluent-kafka==2.12.2", "msgspec==0.22.0"),
    "bytewax": ("bytewax==0.21.1", "confluent-kafka==2.12.2", "msgspec==0.22.0"),
    "quix": ("quixstreams==3.28.1", "msgspec==0.22.0"),
}
FILES = {
    "aiokafka": "loop_aiokafka.py",
    "confluent": "loop_confluent.py",
    "bytewax": "flow_bytewax.py",
    "quix": "app_quix.py",
}
VERSIONS = {name: " ".join(packages) for name, packages in PACKAGES.items()} | {"streams": f"kafka-streams {KAFKA_VERSION}"}
JARS = (f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", "com.fasterxml.jackson.core:jackson-databind:2.19.2")
QUIET = "org.slf4j:slf4j-nop:1.7.36"


def command(peer: str) -> list[str]:
    """The words that start a peer. Raises SetupError where its packages cannot be had."""
    if peer == "streams":
        folder = _compiled()
        return ["java", "-XX:+UseSerialGC", "-Xmx1g", "-cp", f"{folder}:{folder}/libs/*", "Streams"]
    folder = _folder(peer, *PACKAGES[peer])
    if not (folder / "ready").exists():
        _call(sys.executable, "-m", "venv", str(folder))
        _call(str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *PACKAGES[peer])
        (folder / "ready").touch()
    return [str(folder / "bin" / "python"), str(PROGRAMS / FILES[peer])]


def _folder(peer: str, *versions: str) -> Path:
    return cache_folder() / "peers" / "-".join((peer, *(one.partition("==")[2] or one for one in versions)))


def _compiled() -> Path:
    source = PROGRAMS / "Streams.java"
    folder = _folder("streams", KAFKA_VERSION)
    if not (folder / "libs").is_dir():
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        (part / "pom.xml").write_text(_pom(), encoding="utf-8")
        _call(
            "mvn", "-q", "-B", "-f", str(part / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={part}/libs"
        )
        (part / "libs").rename(folder / "libs")
    compiled = folder / "Streams.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        _call("javac", "-cp", f"{folder}/libs/*", "-d", str(folder), str(source))
    return folder


def _pom() -> str:
    parts = [one.split(":") for one in (*JARS, QUIET)]
    named = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in parts
    )
    head = "<modelVersion>4.0.0</modelVersion><groupId>peers</groupId><artifactId>streams</artifactId><version>1</version>"
    return f"<project>{head}<packaging>pom</packaging><dependencies>{named}</dependencies></project>"


def _call(*words: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SetupError(f"peers: expected {words[0]!r} on PATH, found none; install it, or leave its peer out.") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout).strip().splitlines()[-1:] or ["no output"]
        raise SetupError(f"peers: {' '.join(words[:6])} ... failed: {last[0]}") from None
