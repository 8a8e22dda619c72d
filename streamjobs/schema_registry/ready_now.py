"""The schemas of records that a command reads. Most jobs have no registry: its HTTP client is imported where it is asked."""

import asyncio
import sys
from collections.abc import Sequence

from streamjobs.core.decoding.unwrap import schema_ids
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import Record
from streamjobs.errors import SetupError
from streamjobs.settings.sections import Settings

COMMANDS_WAIT = 30.0  # seconds that commands wait for a registry


def ready_now(settings: Settings, schemas: Schemas | None, records: Sequence[Record]) -> Sequence[Record]:
    """As `Lookup.ready`, for commands: they wait for COMMANDS_WAIT. Raises SetupError then."""
    if schemas is None or schemas.fixed is not None or settings.registry is None:
        return records
    ids = schema_ids(records, settings.source)
    if all(one is None or one in schemas for one in ids):
        return records
    return asyncio.run(_ready(settings, schemas, records))


async def _ready(settings: Settings, schemas: Schemas, records: Sequence[Record]) -> list[Record]:
    import structlog

    from streamjobs.schema_registry.lookup import Lookup

    warnings = structlog.make_filtering_bound_logger("warning")  # a command asks for the same schema many times
    log = structlog.wrap_logger(structlog.PrintLogger(sys.stderr), wrapper_class=warnings)  # stdout has results
    lookup = Lookup(settings, schemas, log=log)
    try:
        return await asyncio.wait_for(lookup.ready(records), COMMANDS_WAIT)
    except TimeoutError:
        problem = lookup.problem or "the schema registry gave no answer"
        raise SetupError(f"[registry] url {lookup.client.url}: {problem}, for {COMMANDS_WAIT:.0f} s.") from None
    finally:
        await lookup.close()
