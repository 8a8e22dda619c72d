"""Short hashes of the fields that the columns of a state belong to: no state continues with other fields in its columns."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from streamjobs.errors import ForeignStateError
from streamjobs.settings.source import SourceSection

FIELDS = "fields"  # in a snapshot's description
CHARACTERS = 3  # of a hash: another name is not noticed once in 262,144
MOST_NAMED = 4  # columns in a sentence


def hashes(source: SourceSection) -> str:
    """Of the columns, the label and the coded categories, which a ':' separates; nothing where a job file has no names."""
    return ":".join("".join(map(_hash, names)) for _, names in _groups(source))


def require_same(written: Mapping[str, Any], described: Mapping[str, str], source: SourceSection) -> None:
    """Raises ForeignStateError if a state's columns were other fields. Descriptions of a snapshot and of the job.

    States of earlier releases have no hashes. A label, and categories at the end of a list, may be added.
    """
    theirs, ours = str(written.get(FIELDS, "")).split(":"), described.get(FIELDS, "").split(":")
    for (what, names), was, now in zip(_groups(source), theirs, ours, strict=False):
        if not was.startswith(now) and not now.startswith(was):
            raise ForeignStateError(_difference(what, list(names), was))


def _groups(source: SourceSection) -> Iterable[tuple[str, Sequence[str]]]:
    yield "column", source.learned_columns
    yield "label", [source.learned_name(source.label)] if source.label is not None else []
    if source.categories_as == "codes":
        for name, categories in source.categories_of.items():
            yield f"category of {name}", [repr(one) for one in categories]


def _hash(name: str) -> str:
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=CHARACTERS).digest())[:CHARACTERS].decode()


def _difference(what: str, names: Sequence[str], written: str) -> str:
    known = {_hash(name): repr(name) for name in names}
    was = [written[at : at + CHARACTERS] for at in range(0, len(written), CHARACTERS)]
    differ = [
        f"{what} {at + 1} was {known.get(one, 'another field')} and is {name!r} now"
        for at, (one, name) in enumerate(zip(was, names, strict=False))
        if known.get(one) != repr(name)
    ]
    more = f" and {len(differ) - MOST_NAMED} more differ" if len(differ) > MOST_NAMED else ""
    return (
        f"snapshot was written with other fields: {', '.join(differ[:MOST_NAMED])}{more}. Restore [source] as it was; if "
        "only the name of a field has changed, set [source] renamed = { NEW = 'FORMER' }; to start over, run 'streamjobs "
        "state reset JOB --all'."
    )
