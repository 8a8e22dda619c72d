"""What Kubernetes takes: the schemas of the kinds that we use, from the package kubernetes-validate.

The package has 17,000 files, the schemas of all kinds for 13 releases, so only what we use is kept, in `kubernetes.json`:

    pip install --target /tmp/schemas kubernetes-validate && python -m tests.deploy.kubernetes /tmp/schemas
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

RELEASE = "1.34"
FILE = Path(__file__).with_suffix(".json")
KINDS = ("statefulset-apps-v1", "service-v1", "configmap-v1", "poddisruptionbudget-policy-v1", "networkpolicy-networking-v1")


def validate(resource: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError, also for a field that the kind does not have, and KeyError for another kind."""
    definitions = json.loads(FILE.read_text(encoding="utf-8"))
    kind = f"{resource['kind']} {resource['apiVersion']}"
    Draft202012Validator({**definitions[kind], "$defs": definitions}).validate(resource)


def _undescribed(schema: Any, *, names: bool = False) -> Any:
    """The schema without descriptions. names: its keys are names of fields, of which one may be `description`."""
    if isinstance(schema, list):
        return [_undescribed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: one for key, one in schema.items() if names or key != "description"}
    return {key: _undescribed(one, names=key == "properties" and not names) for key, one in kept.items()}


def _make(package: Path) -> None:
    folder = package / "kubernetes_validate" / "kubernetes-json-schema" / f"v{RELEASE}.0-local-strict"
    every = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    kinds = [json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in KINDS]
    found = {" ".join(one["properties"][field]["enum"][0] for field in ("kind", "apiVersion")): one for one in kinds}
    left = list(found)
    while left:
        name = left.pop()
        text = json.dumps(_undescribed(found[name])).replace("/api/_definitions.json#", "#")
        found[name] = json.loads(text)
        for other in re.findall(r'"#/\$defs/([^"]+)"', text):
            if other not in found:
                found[other] = every[other]
                left.append(other)
    lines = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    _make(Path(sys.argv[1]))
