"""pyproject.toml and the two lock files agree; no package host is named."""

import functools
import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from typing import get_args

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from streamjobs.settings.source import SourceSection
from tests.parts import CHECKOUT
from tests.sizes import first_fast


def _pins(name: str) -> dict[str, Version]:
    lines = (CHECKOUT / name).read_text(encoding="utf-8").splitlines()
    found = [re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line) for line in lines]
    return {canonicalize_name(pin[1]): Version(pin[2]) for pin in found if pin}


PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEVELOPMENT, DEPLOYMENT = _pins("requirements.lock"), _pins("requirements-deploy.lock")


def _fits(text: str, pins: dict[str, Version]) -> bool:
    requirement = Requirement(text)
    pin = pins.get(canonicalize_name(requirement.name))
    return pin is not None and requirement.specifier.contains(pin, prereleases=True)


@functools.cache
def _needs(name: str) -> list[Requirement]:
    """Of a package that is installed here."""
    try:
        return [Requirement(text) for text in requires(name) or ()]
    except PackageNotFoundError:
        return []


def test_every_dependency_is_pinned_within_its_range() -> None:
    for text in PROJECT["dependencies"]:
        assert _fits(text, DEVELOPMENT), f"requirements.lock does not fit {text}"
        assert _fits(text, DEPLOYMENT), f"requirements-deploy.lock does not fit {text}"
    for text in PROJECT["optional-dependencies"]["dev"]:
        assert _fits(text, DEVELOPMENT), f"requirements.lock does not fit {text}"


def test_the_image_has_every_extra_that_its_page_promises_and_so_every_format() -> None:
    page = (CHECKOUT / "deploy" / "README.md").read_text(encoding="utf-8").partition("\n### The image\n")[2]
    promised = re.findall(r"`(\w+)`", re.findall(r"It has the extras ([^,]+),", page)[0])
    formats = {*get_args(SourceSection.model_fields["format"].annotation)} & {*PROJECT["optional-dependencies"]}
    assert {"avro", "protobuf"} <= formats <= set(promised)
    for extra in promised:
        for text in PROJECT["optional-dependencies"][extra]:
            assert _fits(text, DEPLOYMENT), f"requirements-deploy.lock does not fit {text}"


@pytest.mark.parametrize("machine", first_fast(["x86_64", "aarch64"]))
@pytest.mark.parametrize("python", first_fast(["3.11", "3.12", "3.13"]))
def test_what_dependencies_need_is_pinned_too(python: str, machine: str) -> None:
    """As far as they are installed here."""
    there = {"extra": "", "python_version": python, "python_full_version": f"{python}.1", "platform_machine": machine}
    for pins in (DEVELOPMENT, DEPLOYMENT):
        for name in pins:
            for one in _needs(name):
                if one.marker is None or one.marker.evaluate(there):
                    assert canonicalize_name(one.name) in pins, f"{name} needs {one.name}, which has no pin"


def test_both_locks_have_the_same_versions() -> None:
    assert {name: DEVELOPMENT.get(name) for name in DEPLOYMENT} == DEPLOYMENT


def test_every_pin_for_deployment_has_hashes() -> None:
    text = (CHECKOUT / "requirements-deploy.lock").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9._-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(DEPLOYMENT) > 20
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_locks_name_no_package_host() -> None:
    for name in ("requirements.lock", "requirements-deploy.lock", "pyproject.toml"):
        text = (CHECKOUT / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|^\s*--?(index-url|extra-index-url|find-links|i|f)\b", text, re.MULTILINE), name


def test_the_license_is_there() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in (CHECKOUT / "LICENSE").read_text(encoding="utf-8")
