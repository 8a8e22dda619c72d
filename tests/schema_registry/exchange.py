"""What is asked of a registry, real or recorded: schemas by Confluent's client, then the same ones by ours."""

import asyncio
from collections.abc import Sequence
from typing import Any

from streamjobs.core.decoding.records import Decoded, decoder
from streamjobs.core.decoding.unwrap import make_schemas
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import PlainRow, Stored
from streamjobs.schema_registry.lookup import Lookup
from streamjobs.settings.load import settings_from
from streamjobs.settings.sections import Settings
from tests.schema_registry.writers import SETTINGS


def job_settings(url: str, data_format: str, **registry: Any) -> Settings:
    return settings_from(
        {
            "source": {"topic": "plant", "format": data_format, **SETTINGS},
            "registry": {"url": url, **registry},
            "learner": {"name": "okfeb", "rank": 2, "budget": 4},
        },
        {},
    )


def schemas_of(settings: Settings) -> Schemas:
    schemas = make_schemas(settings.source, None)
    assert schemas is not None
    return schemas


def stored(values: Sequence[bytes], kind: type[Stored] = Stored) -> list[Stored]:
    return [kind("plant", 0, number, 1_700_000_000_000, b"p", value) for number, value in enumerate(values)]


def read(settings: Settings, values: Sequence[bytes]) -> Decoded:
    """The values as a worker decodes them."""
    schemas = schemas_of(settings)

    async def ready() -> Any:
        return await Lookup(settings, schemas).ready(stored(values))

    return decoder(settings.source, 3, schemas=schemas)(asyncio.run(ready()))


def read_rows(settings: Settings, lines: Sequence[bytes]) -> Decoded:
    """Rows of a file, as `replay` decodes them."""
    return decoder(settings.source, 3, schemas=schemas_of(settings))(stored(lines, PlainRow))
