"""Columns of samples reach compiled loops as arrays of one kind: any other would be compiled for again."""

import numpy as np

from streamjobs.stages.rows import TYPES, joined, plain_columns


def test_columns_that_a_loop_can_take_are_not_copied() -> None:
    columns = [np.zeros(2, kind) for kind in TYPES]
    assert all(one is same for one, same in zip(plain_columns(*columns), columns, strict=True))


def test_other_arrays_become_writable_and_contiguous_ones_of_the_type_of_their_column() -> None:
    X = np.arange(6.0).reshape(3, 2).T
    times = np.array([1, 2])
    times.flags.writeable = False
    slots, plain_times, plain_X = plain_columns(np.zeros(2, np.int64), times, X)
    assert slots.dtype == np.int64 and plain_times.dtype == np.float64 and plain_times.flags.writeable
    assert plain_X.flags.carray and plain_X.tolist() == X.tolist()


def test_parts_of_a_paused_loop_follow_one_another() -> None:
    a, b = (np.array([1, 2]), np.array([[1.0], [2.0]])), (np.array([3]), np.array([[3.0]]))
    assert joined([a]) is a
    assert [column.tolist() for column in joined([a, b])] == [[1, 2, 3], [[1.0], [2.0], [3.0]]]
