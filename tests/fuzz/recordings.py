"""Files of people: read as rows, encoded as records, decoded, and looked at as `init` does; each with a ConfigError at most.

The other inputs of a case are the name of the file, and how the command line says that it is read.
"""

import csv
import io
import json
import shutil
import tempfile
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import cbor2
import numpy as np
import pyarrow
from pyarrow import parquet

from streamjobs.core.decoding.records import decoder
from streamjobs.errors import REASONS, ConfigError
from streamjobs.recordings.files import records_of, rows_of
from streamjobs.recordings.guess import guess
from streamjobs.recordings.tables import How
from streamjobs.settings.source import SourceSection
from tests.fuzz.bytes import EDGES, REALS, bent
from tests.fuzz.case import Case, Family, chance, must
from tests.fuzz.grammar import TEXTS, as_json, near, value

FIELDS = ["ax", "ay", "az"]
NOTED = "label"
ODD = ("", "1,5", "1.5", "1.234,5", "-", "NaN", "inf", "1e400", "9" * 30, "0x10", "²", "1_0", "true", "2023-11-14T22:13:20Z")
LONGEST = 6000  # characters of a message
GUESSED = 4  # one of so many is also looked at as by `init`


def source_of(**own: Any) -> SourceSection:
    return SourceSection(**{"topic": "in", "fields": FIELDS, "time": "ts", "label": NOTED, **own})


SOURCES = (
    source_of(),
    source_of(format="msgpack", missing="hold", time_unit="auto"),
    source_of(fields=["ax", "readings.temp"], numbers="lenient", time_zone="Europe/Berlin", key="person"),
    source_of(format="raw", time=None, label=None, fields=None, x="x", dim=3),
    source_of(envelope="cloudevents", compression="gzip", categories={"az": ["open", True, 1]}, unseen="missing"),
)


def row(n: int) -> dict[str, Any]:
    return {"person": f"p{n % 3}", "ts": 1_700_000_000.0 + n / 50, "ax": n / 7, "ay": -n, "az": 0.5, NOTED: "run"}


class Recordings(Family):
    """Of one kind of file; subclasses write them."""

    kind: str
    columns = ("person", "ts")  # those with key and time

    def __init__(self) -> None:
        self.name = self.kind
        self.folder = Path(tempfile.mkdtemp(prefix="streamjobs-fuzz-files-"))
        self.decoders = [decoder(source, source.width or 3) for source in map(self._decodable, SOURCES)]

    def __del__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _decodable(source: SourceSection) -> SourceSection:
        return source if source.time_unit != "auto" else source.in_unit("s")

    def file(self, rnd: Random) -> tuple[str, bytes]:
        """The name of a file and what it holds."""
        raise NotImplementedError

    def draw(self, rnd: Random) -> Case:
        name, data = self.file(rnd)
        how: dict[str, Any] = {}
        if rnd.random() < 0.15:
            how["separator"] = rnd.choice((",", ";", "\t", "|"))
        if rnd.random() < 0.15:
            how["decimal"] = rnd.choice(".,")
        if rnd.random() < 0.1:
            how |= rnd.choice(({"key_from": "file"}, {"key_is": "p"}, {"start": 1.7e9}, {"rate": 7.0}))
        return Case(rnd.randrange(len(SOURCES)), data, (name, tuple(how.items())))

    def attempt(self, case: Case) -> str:
        name, options = case.around
        path, how = self.folder / name, How(**dict(options))
        path.write_bytes(case.data)
        source, key, time = SOURCES[case.which], *self.columns
        outcomes = [self._told(lambda: self._rows(path, how))]
        own = None if source.key is not None or how.key_is or how.key_from else key
        outcomes.append(self._told(lambda: self._decoded(case.which, path, source, own, time, how)))
        if chance(case.data) % GUESSED == 0:
            outcomes.append(self._told(lambda: f"{len(guess(path, how).fields)} fields" and "guessed"))
        return "decoded, " + " and ".join(outcomes[:2]) if outcomes[0] != "ConfigError" else "ConfigError"

    def _told(self, work: Any) -> str:
        try:
            return str(work())
        except ConfigError as error:
            text = str(error)
            text.encode()
            must(0 < len(text) < LONGEST and "\n" not in text.strip(), "a message that is none")
            return "ConfigError"

    def _rows(self, path: Path, how: How) -> str:
        rows = list(rows_of(path, how))
        must(all(isinstance(one, dict) and all(isinstance(name, str) for name in one) for one in rows), "a row that is none")
        return "rows"

    def _decoded(self, which: int, path: Path, source: SourceSection, key: str | None, time: str, how: How) -> str:
        stamp = time if source.time is None else None
        records = list(records_of(path, source, key, stamp, how=how))
        for record in records:
            must(record.key is None or isinstance(record.key, bytes), "a key that is none")
            must(isinstance(record.value, bytes) and isinstance(record.timestamp, int), "a record that is none")
        decoded = self.decoders[which](records)
        must(all(error.reason in REASONS for _, error in decoded.errors), "an unknown reason")
        must(not np.isinf(decoded.X).any() and bool(np.isfinite(decoded.times).all()), "numbers that are not finite")
        owners = {*decoded.owner.tolist(), *(at for at, _ in decoded.errors)}
        must(owners == set(range(len(records))), "a record of which nothing came")
        return "records"


class Csv(Recordings):
    kind = "csv"

    def file(self, rnd: Random) -> tuple[str, bytes]:
        separator, decimal = rnd.choice(",,;;\t|"), rnd.choice("..,")
        names = [*row(0)] if rnd.random() < 0.9 else rnd.choice((["a"], [""] * 3, ["1", "2"], ["ax"] * 2, [*TEXTS]))
        stream = io.StringIO()
        write = csv.writer(stream, delimiter=separator, quoting=rnd.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)))
        if rnd.random() < 0.05:
            stream.write(f"sep={rnd.choice((separator, ';', chr(0x7F)))}\r\n")
        write.writerow(names)
        if rnd.random() < 0.2:
            write.writerow(rnd.choice((["", "s", "g", "g", "g", ""], ["-"] * 6, ["[m/s]"] * 7)))
        for n in range(rnd.choice((0, 1, 3, 8))):
            cells = [one if type(one) is str else repr(one).replace(".", decimal) for one in row(n).values()]
            while rnd.random() < 0.3:
                cells[rnd.randrange(len(cells))] = rnd.choice((*ODD, *TEXTS, str(rnd.choice((*EDGES, *REALS)))))
            write.writerow(cells if rnd.random() < 0.9 else cells[: rnd.randrange(9)] * rnd.choice((0, 1, 2)))
        data = _encoded(stream.getvalue(), rnd)
        return rnd.choice(("a.csv", "a.tsv")), bent(data, rnd) if data and rnd.random() < 0.4 else data


def _encoded(text: str, rnd: Random) -> bytes:
    form = rnd.choice(("utf-8",) * 5 + ("utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"))
    return text.encode(form, "replace")


class Lines(Recordings):
    kind = "jsonl"

    def file(self, rnd: Random) -> tuple[str, bytes]:
        lines = [_json_row(rnd, n) for n in range(rnd.choice((0, 1, 3, 8)))]
        data = rnd.choice((b"\n", b"\r\n", b"\n\n")).join(lines)
        return rnd.choice(("a.jsonl", "a.ndjson")), bent(data, rnd) if data and rnd.random() < 0.5 else data


def _json_row(rnd: Random, n: int) -> bytes:
    made = {name: near(rnd, one) for name, one in row(n).items()}
    if rnd.random() < 0.1:
        made["readings"] = near(rnd, {"temp": 20.5})
    return as_json(rnd, made)


class Objects(Recordings):
    """JSON and CBOR: a list of objects, or the Edge Impulse format."""

    kind = "objects"

    def file(self, rnd: Random) -> tuple[str, bytes]:
        found: Any = [{name: near(rnd, one) for name, one in row(n).items()} for n in range(rnd.choice((0, 1, 4)))]
        if rnd.random() < 0.5:
            sensors = [{"name": name, "units": "g"} for name in FIELDS]
            payload = {"device_name": "d", "interval_ms": 10, "sensors": sensors, "values": [[1.0, 2.0, 3.0]] * 3}
            found = {"protected": {"iat": 1_700_000_000}, "payload": {k: near(rnd, v) for k, v in payload.items()}}
            if rnd.random() < 0.1:
                found[rnd.choice(list(found))] = value(rnd)
        if rnd.random() < 0.5:
            return "a.json", _maybe_bent(as_json(rnd, found) if isinstance(found, dict) else json.dumps(found).encode(), rnd)
        if rnd.random() < 0.2:
            found = [{"ax": one} for one in (Decimal("1.5"), datetime(2023, 1, 1, tzinfo=UTC), b"\xff", {1: 2}, 2**70)]
        try:
            data = cbor2.dumps(found)
        except (ValueError, cbor2.CBOREncodeError):  # half of a surrogate pair
            data = cbor2.dumps([row(0)])
        return "a.cbor", _maybe_bent(data, rnd)


def _maybe_bent(data: bytes, rnd: Random) -> bytes:
    return bent(data, rnd) if rnd.random() < 0.6 else data


class Parquet(Recordings):
    kind = "parquet"

    def __init__(self) -> None:
        super().__init__()
        rows = [row(n) for n in range(40)]
        odd = {
            "person": pyarrow.array([b"p", None, b"\xff"]),
            "ts": pyarrow.array([datetime(2023, 1, 1), None, datetime(9999, 1, 1)]),
            "ax": pyarrow.array([Decimal("1.50"), None, Decimal("-99999999999999999999.5")]),
            "ay": pyarrow.array([[1.0, None], [], None]),
            "az": pyarrow.array([{"a": 1}, None, {"a": None}]),
            NOTED: pyarrow.array([2**63, 1, None], pyarrow.uint64()),
        }
        tables = [pyarrow.Table.from_pylist(rows), pyarrow.table(odd), pyarrow.Table.from_pylist(rows[:3])]
        ways: list[dict[str, Any]] = [{}, {"compression": "gzip"}, {"use_dictionary": False, "compression": "none"}]
        self.valid = [_parquet(table, way) for table in tables for way in ways]

    def file(self, rnd: Random) -> tuple[str, bytes]:
        data = rnd.choice(self.valid)
        return "a.parquet", bent(data, rnd, rnd.choice(self.valid)) if rnd.random() < 0.9 else data


def _parquet(table: pyarrow.Table, way: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(table, stream, **way)
    return stream.getvalue()


class Npz(Recordings):
    kind = "npz"

    def __init__(self) -> None:
        super().__init__()
        rows = [row(n) for n in range(6)]
        plain = {name: np.array([one[name] for one in rows]) for name in rows[0]}
        whole = {"X": np.arange(12.0).reshape(4, 3), "columns": np.array(FIELDS), "ts": np.arange(4.0)}
        self.arrays: list[dict[str, Any]] = [plain, whole, {"x": np.ones((4, 3)), "person": np.array(list("abab"))}]

    def file(self, rnd: Random) -> tuple[str, bytes]:
        arrays = {name: one if rnd.random() < 0.9 else _odd_array(rnd) for name, one in rnd.choice(self.arrays).items()}
        members = {f"{name}.npy": _npy(one) for name, one in arrays.items()}
        if rnd.random() < 0.7:  # bent inside, where the archive's checksums still fit
            name = rnd.choice(list(members))
            members[name] = bent(members[name], rnd)
        data = archive(members, rnd)
        return "a.npz", bent(data, rnd) if rnd.random() < 0.2 else data


def _odd_array(rnd: Random) -> Any:
    return rnd.choice(
        (
            np.array(7.0),
            np.zeros((0, 3)),
            np.zeros((2, 3, 4)),
            np.array(["a", "\ud800"]) if rnd.random() < 0.5 else np.array([b"a", b"\xff"]),
            np.array([1 + 2j, 0]),
            np.array(["2023-01-01", "NaT"], "datetime64[ns]"),
            np.array([1, 2], "timedelta64[s]"),
            np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
            np.array([2**63], np.uint64),
            np.array([1e300], np.longdouble),
            np.array([True, False]),
            np.array([np.nan, np.inf]),
        )
    )


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def archive(members: dict[str, bytes], rnd: Random) -> bytes:
    stream = io.BytesIO()
    packing = rnd.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(stream, "w", packing) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return stream.getvalue()


class Exports(Recordings):
    """Zip archives as phones' tools export them, with a file per sensor; one of the files is bent, or the archive."""

    kind = "exports"
    columns = ("key", "time")

    def __init__(self) -> None:
        super().__init__()
        begin = 1_700_000_000_000_000_000
        steps = range(12)
        axes = "\n".join(f"{begin + n * 10**7},{n / 100},{n / 7},{-n},0.5" for n in steps)
        slow = "\n".join(f"{begin + n * 10**8},{n / 10},{n},1,2" for n in range(3))
        logger = {
            "Accelerometer.csv": f"time,seconds_elapsed,z,y,x\n{axes}\n",
            "Gyroscope.csv": f"time,seconds_elapsed,z,y,x\n{slow}\n",
            "Annotation.csv": f"time,seconds_elapsed,text,millisecond_press_duration\n{begin},0.0,run,5\n",
            "Metadata.csv": "version,device name,recording time\n3,iPhone,2023-11-14_22-13-20\n",
        }
        phone = {
            "Accelerometer.csv": '"Time (s)","X (m/s^2)","Y (m/s^2)"\n' + "".join(f"{n / 50},{n},0.5\n" for n in steps),
            "Gyroscope.csv": '"Time (s)","X (rad/s)"\n' + "".join(f"{n / 20},{n}\n" for n in steps),
            "meta/device.csv": '"property","value"\n"version","1.1"\n',
            "meta/time.csv": '"event","experiment time","system time","system time text"\n"START",0.0,1700000000.5,"x"\n',
        }
        self.valid = [{name: text.encode() for name, text in one.items()} for one in (logger, phone)]

    def file(self, rnd: Random) -> tuple[str, bytes]:
        members = dict(rnd.choice(self.valid))
        for _ in range(rnd.choice((0, 1, 1, 2))):
            name = rnd.choice(list(members))
            if rnd.random() < 0.5:
                members[name] = bent(members[name], rnd)
            elif rnd.random() < 0.8:
                members[name] = _one_cell(members[name], rnd)
            else:
                members[rnd.choice(("a/b.csv", "x.gz", "Metadata.csv", "../up.csv", "con.jsonl"))] = members.pop(name)
        data = archive(members, rnd)
        return "a.zip", bent(data, rnd) if rnd.random() < 0.15 else data


def _one_cell(data: bytes, rnd: Random) -> bytes:
    lines = data.split(b"\n")
    at = rnd.randrange(len(lines))
    cells = lines[at].split(b",")
    cells[rnd.randrange(len(cells))] = rnd.choice((*ODD, *TEXTS, str(value(rnd)))).encode("utf-8", "replace")[:400]
    lines[at] = b",".join(cells)
    return b"\n".join(lines)


READERS: dict[str, type[Recordings]] = {one.kind: one for one in (Csv, Lines, Objects, Parquet, Npz, Exports)}
