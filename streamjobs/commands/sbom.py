"""What this installation is made of, as a CycloneDX 1.6 document: packages, Kafka's jars, licences, who needs whom.

Read from the installed packages' own metadata: no network, and the same installation gives the same document.
Source: https://cyclonedx.org/docs/1.6/json/
"""

import hashlib
import re
import uuid
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Component = dict[str, Any]
Graph = dict[str, list[str]]  # bom-ref -> those it needs
_SPDX = {  # licence texts that mean one SPDX licence for sure; "BSD License" does not
    "Apache-2.0": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT": "MIT",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_GROUPS = {"kafka": "org.apache.kafka", "scala-library": "org.scala-lang", "scala-reflect": "org.scala-lang"}  # say no group
_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_JAR = re.compile(r"(.+?)-(\d[^/]*)\.jar")


def document(root: str, jars: Iterable[Path] = ()) -> dict[str, Any]:
    """The document of an installed package with all it needs, and of the jars of a broker."""
    graph: Graph = {}
    found: dict[str, Component] = {}
    _walk(root, found, graph)
    application = found.pop(canonicalize_name(root)) | {"type": "application"}
    parts = sorted(found.values(), key=lambda one: str(one["bom-ref"]))
    for jar in sorted(jars):
        component = _of_jar(jar)
        parts.append(component)
        graph[component["bom-ref"]] = []
        graph[application["bom-ref"]].append(component["bom-ref"])
    body = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": application},
        "components": parts,
        "dependencies": [{"ref": ref, "dependsOn": sorted(needs)} for ref, needs in sorted(graph.items())],
    }
    return body | {"serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, repr(body))}"}


def _walk(name: str, found: dict[str, Component], graph: Graph) -> str | None:
    """The package and all it needs; its reference, None where it is not installed (its marker is for other machines)."""
    known = canonicalize_name(name)
    if known not in found:
        try:
            package = distribution(known)
        except PackageNotFoundError:
            return None
        found[known] = component = _of_package(known, package)
        needs = (_walk(one.name, found, graph) for one in _needed(package))
        graph[component["bom-ref"]] = sorted({ref for ref in needs if ref is not None})
    return str(found[known]["bom-ref"])


def _needed(package: Distribution) -> list[Requirement]:
    made = [Requirement(text) for text in package.requires or ()]
    return [one for one in made if one.marker is None or one.marker.evaluate({"extra": ""})]


def _of_package(name: str, package: Distribution) -> Component:
    purl = f"pkg:pypi/{quote(name)}@{quote(package.version)}"
    component: Component = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": package.version,
        "purl": purl,
        "licenses": _licences(package),
    }
    if summary := _said(package, "Summary"):
        component["description"] = summary
    record = package.read_text("RECORD")
    if record:  # it lists every installed file with its hash; the archive they came in is not kept
        digest = hashlib.sha256("\n".join(sorted(record.split())).encode()).hexdigest()
        component["properties"] = [{"name": "streamjobs:installed-files:sha256", "value": digest}]
    return component


def _said(package: Distribution, name: str) -> str:
    return str(package.metadata[name]) if name in package.metadata else ""


def _licences(package: Distribution) -> list[dict[str, Any]]:
    if expression := _said(package, "License-Expression"):
        return [{"expression": expression}]
    classifiers = [one for one in package.metadata.get_all("Classifier") or () if one.startswith("License :: ")]
    names = [one.rpartition(" :: ")[2] for one in classifiers if one != "License :: OSI Approved"]
    names = names or [line[:200] for line in _said(package, "License").strip().splitlines()[:1]]
    return [{"license": {"id": _SPDX[one]} if one in _SPDX else {"name": one}} for one in names]


def _of_jar(path: Path) -> Component:
    """A jar names its Maven coordinates itself, or else only its file does."""
    named = _JAR.fullmatch(path.name)
    name, version = (named[1], named[2]) if named else (path.stem, "unknown")
    said = _coordinates(path).get(name, {})
    group = said.get("groupId") or _GROUPS.get(name) or _GROUPS.get(re.split("[-_]", name)[0], "")
    version = said.get("version", version)
    purl = (
        f"pkg:maven/{quote(group)}/{quote(name)}@{quote(version)}"
        if group
        else f"pkg:generic/{quote(name)}@{quote(version)}"
    )
    component: Component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if group:
        component["group"] = group
    component["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]
    return component


def _coordinates(path: Path) -> dict[str, dict[str, str]]:
    """What a jar's pom.properties say, by artifact; a jar may hold others'."""
    made: dict[str, dict[str, str]] = {}
    with zipfile.ZipFile(path) as jar:
        for name in jar.namelist():
            if _POM.fullmatch(name):
                lines = jar.read(name).decode("utf-8", "replace").splitlines()
                said = dict(line.strip().split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
                made[said.get("artifactId", "")] = said
    return made
