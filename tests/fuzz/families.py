"""The families by name; each is made when it is first asked for, as that trains its states."""

from collections.abc import Callable

from tests.fuzz.case import Family
from tests.fuzz.jobfiles import JobFiles
from tests.fuzz.letters import Letters
from tests.fuzz.populations import Populations
from tests.fuzz.recordings import READERS
from tests.fuzz.records import Records
from tests.fuzz.sensors import SensorRecords
from tests.fuzz.states import Copies, Snapshots, Starts
from tests.fuzz.wrapped import Wrapped

FAMILIES: dict[str, Callable[[], Family]] = {
    "json": lambda: Records("json"),
    "msgpack": lambda: Records("msgpack"),
    "raw": lambda: Records("raw"),
    "gzip": lambda: Wrapped("gzip"),
    "cloudevents": lambda: Wrapped("cloudevents"),
    "avro": lambda: Wrapped("avro"),
    "protobuf": lambda: Wrapped("protobuf"),
    "sensors": SensorRecords,
    "snapshot": Snapshots,
    "start": Starts,
    "copy": Copies,
    "population": Populations,
    "job": JobFiles,
    "letter": Letters,
    **READERS,
}
