"""AsyncAPI's own schema of its documents, from npm's package @asyncapi/specs; kept in the cache folder."""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "@asyncapi/specs@6.11.1"
INSIDE = "package/schemas/3.0.0.json"


def meta_schema() -> Any:
    """The schema of AsyncAPI 3.0.0 documents; skips the test where it cannot be had."""
    folder = Path(os.environ.get("STREAMJOBS_CACHE") or Path.home() / ".cache" / "streamjobs") / "asyncapi"
    kept = folder / "3.0.0-of-6.11.1.json"
    if not kept.is_file():
        if shutil.which("npm") is None:
            pytest.skip(f"no npm on this machine, which downloads {PACKAGE}; install it: apt-get install npm")
        folder.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, check=False
        )
        if packed.returncode:
            pytest.skip(f"npm could not download {PACKAGE}: {packed.stderr.strip().splitlines()[-1:]}")
        archive = folder / packed.stdout.split()[-1]
        with tarfile.open(archive) as tar:
            member = tar.extractfile(INSIDE)
            assert member is not None
            kept.write_bytes(member.read())
        archive.unlink()
    return json.loads(kept.read_text(encoding="utf-8"))
