"""The benchmark of peers, short: that it counts and compares what came out, and that our job is the peers' job."""

from pathlib import Path

from streamjobs.kafka.devbroker.broker import Broker
from tests.bench.peers.programs import simple_job
from tests.bench.peers.run import BEGIN, END, OURS, PAGE, PEERS, Figures, Peers, Trickle, different, table, written
from tests.bench.worker import singles


def test_outputs_that_differ_or_lack_are_counted_by_key() -> None:
    whole = {"a": [[1.0], [2.0], [3.0]], "b": [[1.0]]}
    assert different(whole, whole) == 0
    assert different(whole, {"a": [[1.0], [2.5]], "c": [[1.0]]}) == 1 + 1 + 1 + 1


def test_the_worker_gives_what_the_peers_program_gives(broker: Broker, tmp_path: Path) -> None:
    count = 400
    made = Peers(broker, tmp_path, {}).backlog("simple", count)
    states: dict[str, bytearray] = {}
    expected: dict[str, list[list[float]]] = {}
    for record in singles(count):
        key = record.key.decode()
        value, _ = simple_job.apply(states.setdefault(key, bytearray(simple_job.SIZE)), record.value)
        expected.setdefault(key, []).append(simple_job.decode_answer(value).y)
    assert made.counted == count
    assert different(made.answers, expected) == 0


def test_a_table_has_ratios_to_the_base_and_ranges() -> None:
    def of(cpu: float) -> Figures:
        return Figures(cpu, 1.0, 1e4, 100.0, 10, {})

    backlogs = {"aiokafka": [of(4.0), of(2.0), of(3.0)], "full": [of(6.0), of(9.0), of(6.0)]}
    rows = list(table(backlogs, {"full": [Trickle(40.0, 5.0, 20.0)]}, "aiokafka"))
    assert rows[2].startswith("| aiokafka | 3.00 (2.00 to 4.00) | 1.00 |")
    assert rows[3].startswith("| full | 6.00 (6.00 to 9.00) | 2.00 |")
    assert "| 40 (40 to 40) | 5.0 (5.0 to 5.0) |" in rows[3]


def test_the_page_has_a_row_for_each_peer_and_only_the_table_is_written() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [name for name in (*PEERS, *OURS) if f"\n| {name} | " not in page]
    assert not missing, f"run: python -m tests.bench peers --write (no row of {missing})"
    again = written(page, iter(["| new |"]))
    assert again.partition(BEGIN)[0] == page.partition(BEGIN)[0]
    assert again.partition(END)[2] == page.partition(END)[2]
    assert "| new |" in again
    assert "| aiokafka | " not in again
