"""Arrays of an npz archive, read as what their headers say they are only where the bytes are there."""

import math
import tokenize
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from streamjobs.errors import ConfigError
from streamjobs.recordings.places import BYTES, FILES

Array = NDArray[Any]

ENDING = ".npy"
LARGEST_CHARACTER = 0x10FFFF
_NO_HEADER = (ValueError, TypeError, KeyError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError, OverflowError)


def arrays_of(file: IO[bytes], where: object) -> dict[str, Array]:
    """By name; raises ValueError, zipfile.BadZipFile or zlib.error for what is damaged, or no plain array.

    Raises ConfigError for more than `limits` allows. where: for messages.
    """
    with zipfile.ZipFile(file) as archive:
        members = [one for one in archive.infolist() if one.filename.endswith(ENDING)]
        FILES.require(where, len(members))
        BYTES.require(where, sum(one.file_size for one in members), " of arrays")
        return {one.filename.removesuffix(ENDING): _array(archive, one, where) for one in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: object) -> Array:
    """`numpy.load` makes an array as large as the header says before it looks whether the bytes are there."""
    with archive.open(member) as file:
        shape, columns_first, dtype = _header(file)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:  # as pandas' columns of texts are, which only pickle reads
            name = member.filename.removesuffix(ENDING)
            raise ConfigError(
                f"{where}: array {name!r} has objects of Python; save it as texts or numbers, such as {name}.astype(str)."
            )
        if min(shape, default=0) < 0 or size > member.file_size:
            raise ValueError("no plain array")
        data = file.read(size)
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if columns_first else "C")
    if dtype.kind == "U" and array.size and np.frombuffer(data, f"{dtype.byteorder}u4").max() > LARGEST_CHARACTER:
        raise ValueError("no text")
    return array


def _header(file: Any) -> tuple[tuple[int, ...], bool, "np.dtype[Any]"]:
    try:
        version = npy.read_magic(file)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        return read(file)
    except _NO_HEADER:
        raise ValueError("no header of an array") from None


def columns_of_arrays(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Those with a value a row, all of one length; the columns of X by the names in `columns`, else X as the column x."""
    columns = dict(arrays)
    X, names = columns.pop("X", None), columns.pop("columns", None)
    if X is not None and X.ndim == 2 and names is not None and names.shape == X.shape[1:]:
        columns = {str(name): X[:, i] for i, name in enumerate(names)} | columns
    elif X is not None:
        columns["x"] = X
    lengths = [len(array) for array in columns.values() if array.ndim]
    n = len(X) if X is not None and X.ndim else max(set(lengths), key=lengths.count, default=0)
    return {name: array for name, array in columns.items() if array.ndim and len(array) == n}
