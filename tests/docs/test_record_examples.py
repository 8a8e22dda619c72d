"""The examples of records in streamjobs/core/README.md: each value is what its part of a job file reads."""

import gzip
import io
import itertools
import json
import pathlib
import tomllib

import fastavro
import msgspec
import numpy as np

from streamjobs.core.decoding.records import decoder
from streamjobs.core.decoding.unwrap import make_schemas
from streamjobs.core.messages import Stored
from streamjobs.schema_registry.descriptors import definition_of
from streamjobs.settings.source import SourceSection
from tests.docs.named import blocks
from tests.parts import CHECKOUT

PAGE = CHECKOUT / "streamjobs" / "core" / "README.md"
GIVEN = {"gzip": gzip, "io": io, "json": json, "pathlib": pathlib, "fastavro": fastavro, "msgspec": msgspec, "numpy": np}
ROWS = [[0.5, -1.0], [0.25, -0.5]]
TIMES = [1700000000.5, 1700000000.52]
FORMATS = ["json", "msgpack", "raw", "json", "json", "avro"]


def examples():
    """(part of a job file, Python) of each pair of blocks that follow each other."""
    found = list(blocks(PAGE.read_text().partition("### Formats, with examples")[2].partition("### Schemas")[0]))
    return [
        (before, code)
        for (kind, before), (language, code) in itertools.pairwise(found)
        if (kind, language) == ("toml", "python")
    ]


def test_every_example_of_a_record_is_read_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    formats = []
    for job_file, code in examples():
        made = dict(GIVEN)
        exec(code, made)
        source = SourceSection(topic="imu", **tomllib.loads(job_file)["source"])
        schemas = make_schemas(source, None, definition_of(source))
        record = Stored("imu", 0, 0, 1700000000500, b"k", made["value"], made.get("headers", ()))
        decoded = decoder(source, 2, schemas=schemas)([record])
        assert not decoded.errors, job_file
        n = len(decoded.X)
        assert decoded.X.tolist() == ROWS[:n] and decoded.times.tolist() == TIMES[:n], job_file
        assert decoded.labels == ["walk"] * n
        formats.append(source.format)
    assert formats == FORMATS
