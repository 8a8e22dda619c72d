"""The schema of all values, from a file of [source] schema_file."""

from pathlib import Path

from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.errors import ConfigError
from streamjobs.schema_registry.descriptors import ProtocError, descriptors_of
from streamjobs.settings.source import SourceSection

LARGEST = 16 << 20  # bytes


def definition_of(source: SourceSection) -> Definition | None:
    """The schema in the file that [source] names; None where it names none. Raises ConfigError."""
    if source.schema_file is None:
        return None
    path, where = Path(source.schema_file), f"[source]: schema_file {source.schema_file!r}"
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ConfigError(f"{where}: expected a schema of at most {LARGEST >> 20} MB, got more.")
        if source.format == "avro":
            return Definition("AVRO", text=data.decode())
        if path.suffix.lower() == ".proto":
            data = descriptors_of({path.name: data.decode()}, path.name, path.parent)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read ({error.strerror}); correct the path or its permissions.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: expected text in UTF-8, got other bytes.") from None
    except ProtocError as error:
        raise ConfigError(f"{where} {error}.") from None
    return Definition("PROTOBUF", descriptors=data, message=source.message)
