"""The fields of a job as compiled loops look for them in records, and the arrays that these loops fill."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.settings.paths import NO_STRUCT, ByName, FieldPath, Step

DEEPEST = 60  # levels of a field that the job does not have
MOST_ODD = 8  # of a batch, one value in so many may need another parser; with more, the rest is not read here
OBJECT, LIST, CHOSEN = 0, 1, 2  # kinds of nodes; in the last one, an object of a list is chosen by the value of a name
KINDS: dict[type, int] = {str: OBJECT, int: LIST, ByName: CHOSEN}


class Names(NamedTuple):
    """The fields of a job as a tree: nodes are objects and lists, their entries are fields or lead to inner nodes."""

    text: Array  # uint8, of each entry its name, or the value that chooses an object of a list; then what `nodes` refers to
    begins: Array  # (texts + 1,) int64, of each text
    leads: Array  # (entries,) int64, the field: those of x, time, label, side, those that are refused; or -node
    places: Array  # (entries,) int64, of entries of lists
    order: Array  # (texts,) int64: between first and last entry of a node its entries, sorted by name or place
    nodes: Array  # (nodes, 4) int64: kind, first entry, end of the entries, text of the name that chooses an object
    required: int  # number of fields that each record has
    listed: bool  # x is one field, a list of numbers

    @classmethod
    def of(
        cls,
        x: Sequence[FieldPath],
        time: FieldPath | None,
        label: FieldPath | None,
        *,
        listed: bool,
        refused: Sequence[str] = (),
        side: FieldPath | None = None,
    ) -> "Names | None":
        """None for paths that only the parsers of single records can read. refused: fields of records that need these.

        side: of [window] mirror; each record has it.
        """
        top: dict[Step, Any] = {}
        fields = [path and path.steps for path in (*x, time, label, side)]
        if label is not None and label.literal is not None:
            refused = [*refused, label.literal]
        fields += [(name,) for name in refused]
        for field, steps in enumerate(fields):
            node = top
            for step in (steps or ())[:-1]:
                node = node.setdefault(step, {})
                if not isinstance(node, dict):
                    return None
            if steps and node.setdefault(steps[-1], field) is not field:
                return None
        leads, places, texts, by_names = list[int](), list[int](), list[str](), list[str]()
        nodes, inner = [], [top]
        for node in inner:
            kinds, by = set(map(type, node)), {step.field for step in node if isinstance(step, ByName)}
            if len(kinds) > 1 or len(by) > 1 or not kinds <= KINDS.keys():
                return None
            nodes.append([KINDS[kinds.pop()], len(leads), len(leads) + len(node), len(by_names)])
            by_names += by
            for step, lead in node.items():
                if isinstance(lead, dict):
                    inner.append(lead)
                leads.append(1 - len(inner) if isinstance(lead, dict) else lead)
                places.append(step if isinstance(step, int) else -1)
                texts.append(step.value if isinstance(step, ByName) else step if isinstance(step, str) else "")
        texts += by_names
        if any(map(NO_STRUCT.search, texts)):
            return None
        names = [text.encode() for text in texts]
        order = list(range(len(texts)))
        for _, first, last, _ in nodes:
            order[first:last] = sorted(range(first, last), key=lambda entry: (places[entry], names[entry]))
        return cls(
            np.frombuffer(b"".join(names), np.uint8),
            np.cumsum([0, *map(len, names)]),
            np.array(leads, np.int64),
            np.array(places, np.int64),
            np.array(order, np.int64),
            np.array(nodes, np.int64) + np.array([0, 0, 0, len(leads)]),
            len(x) + (time is not None) + (side is not None),
            listed,
        )


class Rows(NamedTuple):
    X: Array  # (n, dim) float64
    times: Array  # (n,) float64
    labels: Array  # (n, 4) int64, where label and side begin and end as a record has them; twice 0 without one
    read: Array | None  # (n,) bool; the other values need another parser; None: all are read
