"""Software bill of materials of this installation (CycloneDX 1.6): packages, Kafka's jars, licences, dependencies.

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
Graph = dict[str, list[str]]  # bom-ref -> bom-refs it depends on
_SPDX = {  # licence texts that mean exactly one SPDX licence; "BSD License" does not
    "Apache-2.0": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT": "MIT",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_GROUPS = {
    "kafka": "org.apache.kafka",
    "scala-library": "org.scala-lang",
    "scala-reflect": "org.scala-lang",
}  # their jars name no group
_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_JAR = re.compile(r"(.+?)-(\d[^/]*)\.jar")


def document(root: str, jars: Iterable[Path] = ()) -> dict[str, Any]:
    """The document of an installed package with all its dependencies, and of a broker's jars."""
    graph: Graph = {}
    packages: dict[str, Component] = {}
    _walk(root, packages, graph)
    application = packages.pop(canonicalize_name(root)) | {"type": "application"}
    parts = sorted(packages.values(), key=lambda package: str(package["bom-ref"]))
    for jar in sorted(jars):
        component = _jar_component(jar)
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


def _walk(name: str, packages: dict[str, Component], graph: Graph) -> str | None:
    """Adds a package and all its dependencies; gives its bom-ref, None if it is not installed (not for this machine)."""
    canonical = canonicalize_name(name)
    if canonical not in packages:
        try:
            package = distribution(canonical)
        except PackageNotFoundError:
            return None
        packages[canonical] = component = _package_component(canonical, package)
        needs = (_walk(requirement.name, packages, graph) for requirement in _requirements(package))
        graph[component["bom-ref"]] = sorted({ref for ref in needs if ref is not None})
    return str(packages[canonical]["bom-ref"])


def _requirements(package: Distribution) -> list[Requirement]:
    requirements = [Requirement(text) for text in package.requires or ()]
    return [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]


def _package_component(name: str, package: Distribution) -> Component:
    purl = f"pkg:pypi/{quote(name)}@{quote(package.version)}"
    component: Component = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": package.version,
        "purl": purl,
        "licenses": _licences(package),
    }
    if summary := _metadata(package, "Summary"):
        component["description"] = summary
    record = package.read_text("RECORD")
    if record:  # it lists every installed file with its hash; the wheel itself is not kept
        digest = hashlib.sha256("\n".join(sorted(record.split())).encode()).hexdigest()
        component["properties"] = [{"name": "streamjobs:installed-files:sha256", "value": digest}]
    return component


def _metadata(package: Distribution, name: str) -> str:
    return str(package.metadata[name]) if name in package.metadata else ""


def _licences(package: Distribution) -> list[dict[str, Any]]:
    if expression := _metadata(package, "License-Expression"):
        return [{"expression": expression}]
    classifiers = [one for one in package.metadata.get_all("Classifier") or () if one.startswith("License :: ")]
    names = [one.rpartition(" :: ")[2] for one in classifiers if one != "License :: OSI Approved"]
    names = names or [line[:200] for line in _metadata(package, "License").strip().splitlines()[:1]]
    return [{"license": {"id": _SPDX[one]} if one in _SPDX else {"name": one}} for one in names]


def _jar_component(path: Path) -> Component:
    """The component of a jar, from its own Maven coordinates, or else from its file's name."""
    named = _JAR.fullmatch(path.name)
    name, version = (named[1], named[2]) if named else (path.stem, "unknown")
    coordinates = _coordinates(path).get(name, {})
    group = coordinates.get("groupId") or _GROUPS.get(name) or _GROUPS.get(re.split("[-_]", name)[0], "")
    version = coordinates.get("version", version)
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
    """The pom.properties in a jar, by artifact; a jar may contain those of other artifacts too."""
    by_artifact: dict[str, dict[str, str]] = {}
    with zipfile.ZipFile(path) as jar:
        for name in jar.namelist():
            if _POM.fullmatch(name):
                lines = jar.read(name).decode("utf-8", "replace").splitlines()
                properties = dict(line.strip().split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
                by_artifact[properties.get("artifactId", "")] = properties
    return by_artifact
