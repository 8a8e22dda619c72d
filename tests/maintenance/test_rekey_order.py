"""The order in which `rekey` copies the records of several partitions, however they are read."""

from hypothesis import given
from hypothesis import strategies as st

from streamjobs.core.messages import Record, Stored
from streamjobs.maintenance.rekey.writer import InTimeOrder

TIMES = st.lists(st.integers(-1, 9), max_size=12)


def records_of(partition: int, times: list[int]) -> list[Record]:
    return [Stored("imu", partition, offset, at, None, b"", ()) for offset, at in enumerate(times)]


def read_in_pieces(partitions: list[list[Record]], draw: st.DataObject) -> list[Record]:
    """What is taken when each piece of a partition comes at any moment, and is taken from whenever it can be."""
    waiting, read, taken = InTimeOrder(), [0] * len(partitions), list[Record]()
    while unread := [number for number, records in enumerate(partitions) if read[number] < len(records)]:
        number = draw.draw(st.sampled_from(unread))
        piece = partitions[number][read[number] : read[number] + draw.draw(st.integers(1, 4))]
        waiting.add(number, piece)
        read[number] += len(piece)
        taken += waiting.take([one for one in unread if read[one] < len(partitions[one])])
        waits = [waiting.first(one) for one in range(len(partitions))]
        assert waits == [
            min((one.offset for one in records[: read[number]] if one not in taken), default=None)
            for number, records in enumerate(partitions)
        ]
    return taken


@given(st.lists(TIMES.map(sorted), min_size=1, max_size=4), st.data())
def test_partitions_in_the_order_of_time_give_one_order_of_time(times: list[list[int]], data: st.DataObject) -> None:
    partitions = [records_of(number, each) for number, each in enumerate(times)]
    taken = read_in_pieces(partitions, data)
    assert [one.timestamp for one in taken] == sorted(at for each in times for at in each)


@given(st.lists(TIMES, min_size=1, max_size=4), st.data())
def test_a_partition_keeps_its_order_and_nothing_is_lost(times: list[list[int]], data: st.DataObject) -> None:
    partitions = [records_of(number, each) for number, each in enumerate(times)]
    taken = read_in_pieces(partitions, data)
    assert [[one for one in taken if one.partition == number] for number in range(len(times))] == partitions


def test_a_partition_that_was_not_read_yet_holds_the_others_back_and_one_without_more_does_not() -> None:
    waiting = InTimeOrder()
    waiting.add(0, records_of(0, [1, 2]))
    assert waiting.take(unread=[1]) == [] and waiting.count(0) == 2
    assert [one.timestamp for one in waiting.take(unread=[])] == [1, 2] and waiting.first(0) is None
