"""Kernels, one definition for all learners.

A kernel reaches compiled code as `code`, a tuple of four floats (which kernel, and its three numbers), so that one
compiled loop serves every kernel. Values come from differences, never from the expanded square.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import distance2, distances2, dot, dots
from algorithms.common.protocol import Array, Learner, SettingError, require

Name = Literal["gaussian", "laplacian", "polynomial", "linear", "overlap"]
NAMES: tuple[Name, ...] = ("gaussian", "laplacian", "polynomial", "linear", "overlap")
Code = tuple[float, float, float, float]
_USED = {
    "gaussian": {"bandwidth"},
    "laplacian": {"bandwidth"},
    "polynomial": {"degree", "offset", "scale"},
    "linear": set(),
    "overlap": set(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """gaussian exp(-|x-z|^2 / (2 bandwidth^2)); laplacian exp(-|x-z| / bandwidth); polynomial
    (x.z / scale + offset)^degree; linear x.z; overlap = share of equal codes.

    Without a bandwidth it is sqrt(length of x), which suits z-scored data of any length.

    >>> kernel = Kernel(name="gaussian", bandwidth=2.0)
    >>> round(value(kernel.code, np.array([0.0]), np.array([2.0])), 4)
    0.6065
    """

    persisted_name: ClassVar[str] = "Kernel"  # in stored states; must never change

    name: Name = "gaussian"
    bandwidth: float | None = None  # in units of x; None = sqrt(length of x)
    degree: int = 2
    offset: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        require(self, "name", self.name in NAMES, "one of " + ", ".join(NAMES))
        require(self, "bandwidth", self.bandwidth is None or 0 < self.bandwidth < np.inf, "above 0")
        require(self, "degree", 1 <= self.degree <= 100, "1 to 100")
        require(self, "offset", self.offset >= 0, "0 or more")
        require(self, "scale", 0 < self.scale < np.inf, "above 0")

    @property
    def code(self) -> Code:
        which = float(NAMES.index(self.name))
        if self.name == "polynomial":
            return which, float(self.degree), float(self.offset), float(self.scale)
        return which, 0.0 if self.bandwidth is None else float(self.bandwidth), 0.0, 0.0


@dataclass(frozen=True, kw_only=True)
class KernelLearner(Learner, abstract=True):
    """A base, not a learner: the first of its settings is a kernel."""

    __slots__ = ()

    kernel: Kernel = field(default_factory=Kernel)


def kernel_from(table: Mapping[str, Any]) -> Kernel:
    """A kernel from its table, e.g. {"name": "gaussian", "bandwidth": 1.0}."""
    name = table.get("name", "gaussian")
    if name not in NAMES:
        raise SettingError(f"kernel: name must be one of {', '.join(NAMES)}; got {name!r}.")
    for setting, number in table.items():
        if setting == "name":
            continue
        if setting == "bandwidth" and number is None:
            continue
        if setting not in _USED[name]:
            known = ", ".join(sorted(_USED[name])) or "no settings"
            raise SettingError(f"unknown setting {setting!r} for the {name} kernel, which has {known}.")
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise SettingError(f"kernel: {setting} must be a number; got {number!r}.")
        if setting == "degree" and not isinstance(number, int):
            raise SettingError(f"kernel: degree must be an integer; got {number!r}.")
    return Kernel(**table)


def table_of(kernel: Kernel) -> dict[str, Any]:
    """The table `kernel_from` takes."""
    used = _USED[kernel.name]
    return {"name": kernel.name, **{k: v for k, v in dataclasses.asdict(kernel).items() if k in used}}


@compiled
def value(code: Code, a: Array, b: Array) -> float:
    """kappa(a, b); the same bits as kappa(b, a)."""
    which = code[0]
    if which <= 1.0:
        square = code[1] * code[1] if code[1] > 0.0 else float(a.size)
        gap2 = distance2(a, b)
        if which == 0.0:
            return np.exp(-gap2 / (2.0 * square))
        return np.exp(-np.sqrt(gap2 / square))
    if which == 4.0:
        equal = 0.0
        for i in range(a.size):
            if a[i] == b[i]:
                equal += 1.0
        return equal / a.size
    return _of_dot(code, dot(a, b))


@compiled
def _of_dot(code: Code, product: float) -> float:
    if code[0] == 3.0:
        return product
    base, power = product / code[3] + code[2], 1.0
    for _ in range(int(code[1])):
        power *= base
    return power


@compiled
def own_value(code: Code, x: Array) -> float:
    """kappa(x, x) of a finite x, the same bits as `value`."""
    if code[0] > 1.0:
        return value(code, x, x)
    square = code[1] * code[1] if code[1] > 0.0 else float(x.size)
    return 1.0 if square > 0.0 else np.nan  # a bandwidth may be too small to square


@compiled
def fill_row(code: Code, samples: Array, count: int, x: Array, row: Array) -> None:
    """row[i] = kappa(samples[i], x) for the first `count` samples, the same bits as `value`."""
    if code[0] == 4.0:
        for i in range(count):
            row[i] = value(code, samples[i], x)
        return
    if code[0] > 1.0:
        dots(samples, count, x, row)
        for i in range(count):
            row[i] = _of_dot(code, row[i])
        return
    distances2(samples, count, x, row)
    _of_distances(code, row, count, x.size, row)


@compiled
def fill_row_and_distances(code: Code, samples: Array, count: int, x: Array, row: Array, gaps2: Array) -> None:
    """The same, and gaps2[i] = |samples[i] - x|^2 whatever the kernel, for little more where it is made of distances."""
    distances2(samples, count, x, gaps2)
    if code[0] > 1.0:
        fill_row(code, samples, count, x, row)
    else:
        _of_distances(code, gaps2, count, x.size, row)


@compiled
def _of_distances(code: Code, gaps2: Array, count: int, dim: int, row: Array) -> None:
    square = code[1] * code[1] if code[1] > 0.0 else float(dim)
    for i in range(count):
        row[i] = np.exp(-gaps2[i] / (2.0 * square)) if code[0] == 0.0 else np.exp(-np.sqrt(gaps2[i] / square))


def gram(kernel: Kernel, A: Array, B: Array) -> Array:
    """The matrix of kappa(A[i], B[j]), (len(A), len(B)), by the same loop as everywhere else."""
    K = np.empty((len(A), len(B)))
    _gram(kernel.code, np.ascontiguousarray(A, float), np.ascontiguousarray(B, float), K)
    return K


@compiled
def _gram(code: Code, A: Array, B: Array, K: Array) -> None:
    for i in range(len(A)):
        for j in range(len(B)):
            K[i, j] = value(code, A[i], B[j])
