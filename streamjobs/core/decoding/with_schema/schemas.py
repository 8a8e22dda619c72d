"""Decoders by schema id. They are filled from outside: nothing here asks a registry."""

from collections.abc import Callable, Iterable
from typing import Any

from streamjobs import install_line
from streamjobs.core.decoding.samples import Problem
from streamjobs.core.decoding.with_schema.wire_format import KINDS, Definition, Read, SchemaError, SchemaId, id_of
from streamjobs.core.messages import Headers
from streamjobs.errors import ConfigError, SetupError
from streamjobs.settings.source import SourceSection


class Schemas:
    """Decoders by schema id, filled by `add` before the records that need them are decoded."""

    def __init__(self, source: SourceSection, tops: Iterable[str] | None, fixed: Definition | None = None) -> None:
        """tops: fields of the record itself that are read; None: all. fixed: the schema of all values, which state no id.

        Raises ConfigError where the format's library is missing, or `fixed` cannot be used.
        """
        self.kind = KINDS[source.format]
        self._load = _loader_of(source, None if tops is None else frozenset(tops))
        self._readers: dict[SchemaId, Read] = {}
        self._problems: dict[SchemaId, str] = {}
        self.fixed: Read | None = None
        if fixed is not None:
            try:
                self.fixed = self._load(fixed, True)
            except SchemaError as error:
                raise ConfigError(f"[source]: schema_file {source.schema_file!r} {error}.") from None

    def add(self, schema: SchemaId, definition: Definition) -> str:
        """Make the decoder of a schema; gives why it cannot be used, or ''."""
        try:
            if definition.kind != self.kind:
                raise SchemaError(f"is of type {definition.kind}, not {self.kind}")
            if definition.problem:
                raise SchemaError(definition.problem)
            self._readers[schema] = self._load(definition, False)
        except SchemaError as error:
            self._problems[schema] = str(error)
        return self._problems.get(schema, "")

    def __contains__(self, schema: SchemaId) -> bool:
        return schema in self._readers or schema in self._problems

    def message(self, value: bytes, headers: Headers) -> dict[str, Any]:
        """The fields of a value. Raises Problem, and SetupError for an id that was not added."""
        if self.fixed is not None:
            return self.fixed(value, None)
        schema, rest, elsewhere = id_of(value, headers)
        read = self._readers.get(schema)
        if read is None:
            if schema in self._problems:
                raise Problem(
                    "schema", f"expected schema {schema} of the registry to be usable, but it {self._problems[schema]}"
                )
            raise SetupError(
                f"schema {schema} was not read before a record that needs it; name the registry in [registry] url, or the "
                "schema of all values in [source] schema_file."
            )
        return read(rest, elsewhere)


class SchemasOfAnyKind(Schemas):
    """Decoders of all fields, of the kind that the registry states. `format` is that of the newest schema."""

    def __init__(self, source: SourceSection) -> None:
        super().__init__(source, None)
        self.source, self.format = source, str(source.format)

    def add(self, schema: SchemaId, definition: Definition) -> str:
        for name, kind in KINDS.items():
            if kind == definition.kind:
                self.kind, self.format = kind, name
                self._load = _loader_of(self.source.model_copy(update={"format": name}), None)
        return super().add(schema, definition)


def _loader_of(source: SourceSection, tops: frozenset[str] | None) -> Callable[[Definition, bool], Read]:
    """A function from a definition, and whether it is that of all values, to its decoder. Raises ConfigError."""
    try:
        if source.format == "avro":
            from streamjobs.core.decoding.with_schema.avro import avro_reader

            return lambda definition, fixed: avro_reader(definition, source.time_unit)
        from streamjobs.core.decoding.with_schema.protobuf import protobuf_reader

        return lambda definition, fixed: protobuf_reader(definition, source.time_unit, tops, fixed)
    except ImportError:
        library = {"avro": "fastavro"}.get(source.format, "protobuf")
        raise ConfigError(f"[source]: format = '{source.format}' needs {library}: {install_line(source.format)}.") from None
