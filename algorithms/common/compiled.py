"""The one way compiled loops are made: numba without fast-math, cached on disk, free of the interpreter lock.

Numba notices a change of a loop's own file but not of a helper in another file, and a stale helper would be a silent
wrong result. So a loop's cache folder is named by the sources of its module and of all modules that one imports, however
far away, and by the versions of numba and NumPy. Nothing else names it: another checkout of the same sources, or the same
checkout in another place, finds the loops compiled. `STREAMJOBS_CACHE` moves these folders; `cache_folder.py` says who may
own them.
"""

import functools
import hashlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.codegen import ll as llvm
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.extending import overload
from numba.np import arrayobj

from algorithms.common.cache_folder import CacheWarning, cache_root

Loop = TypeVar("Loop", bound=Callable[..., Any])

OURS = ("algorithms", "streamjobs")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.MULTILINE)
_digests: dict[str, str] = {}  # of the modules that have compiled loops


def compiled(loop: Loop) -> Loop:
    """Compile a loop of plain scalar statements; division by zero gives inf or NaN as in C, never an exception."""
    return _kept(loop, counts=True)


def compiled_in_place(loop: Loop) -> Loop:
    """The same of a loop that makes no arrays and returns none: the references to those of its caller are not counted.

    Counting takes two atomic instructions and a call for each row that a loop looks at. A loop that does make an array fails
    to compile.
    """
    return _kept(loop, counts=False)


def _kept(loop: Loop, *, counts: bool) -> Loop:
    # Imported as a file (python -m doctest okfeb.py) a module has another name, and what it would leave in the cache
    # names a module that no other process can import.
    folder = cache_root() if "." in loop.__module__ else None
    if folder is None:
        return _compiled(loop, counts, cache=False)
    numba.config.CACHE_DIR = str(folder / _digest(loop.__module__))
    usual, numba.config.CACHE_LOCATOR_CLASSES = numba.config.CACHE_LOCATOR_CLASSES, LOCATOR
    try:
        return _compiled(loop, counts, cache=True)
    except RuntimeError:  # numba's "cannot cache function": this loop's folder cannot be written
        warnings.warn(f"loop {loop.__qualname__} is not kept: {numba.config.CACHE_DIR} cannot be used.", CacheWarning, 2)
        return _compiled(loop, counts, cache=False)
    finally:
        numba.config.CACHE_LOCATOR_CLASSES = usual


def _compiled(loop: Loop, counts: bool, *, cache: bool) -> Loop:
    # No loop is called by its address as a C function.
    made = numba.njit(nogil=True, fastmath=False, error_model="numpy", _nrt=counts, no_cfunc_wrapper=True)(loop)
    if isinstance(made, CPUDispatcher):  # with NUMBA_DISABLE_JIT it is the loop itself
        made.__class__ = LoopDispatcher
    if cache:
        made._cache = LoopCache(loop)
    return made  # type: ignore[no-any-return]


def _has_wrapper(result: Any) -> bool:
    return bool(result.library.get_pointer_to_function(result.fndesc.llvm_cpython_wrapper_name))


class LoopDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A loop that only loops call gets no wrapper for Python, which takes a tenth of all compilation.

    Where Python calls a loop that has none, the loop is compiled again, with one.
    """

    _by_loop = False  # changes under the compiler's lock: the loop that calls this one is being compiled

    def get_call_template(self, args: Any, kws: Any) -> Any:
        self._by_loop = True
        try:
            return super().get_call_template(args, kws)
        finally:
            self._by_loop = False

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock:
            if not self._by_loop and sig in self.overloads and not _has_wrapper(self.overloads[sig]):
                del self.overloads[sig]
            self._compiler.targetoptions["no_cpython_wrapper"] = self._by_loop
            self._cache.wrapper = not self._by_loop
            return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Python finds only results with a wrapper."""
        if _has_wrapper(cres):
            super().add_overload(cres)
        else:
            self.overloads[tuple(cres.signature.args)] = cres


class LoopLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Machine code from the disk. Only the compilation of another loop needs its LLVM module, two thirds of loading it."""

    _shared_module: Any

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> "LoopLibrary":
        name, code, module, names = state
        library = codegen.create_library(name)
        library._bitcode = module
        library.enable_object_caching()
        library._set_compiled_object(code)
        library._finalize_final_module()
        codegen._engine._defined_symbols.update(names)
        return library  # type: ignore[no-any-return]

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = llvm.parse_bitcode(self._bitcode)
        return self._shared_module


class LoopFile(CompileResultCacheImpl):  # type: ignore[misc]
    """What a file of the cache has of a loop."""

    def reduce(self, result: Any) -> Any:
        (name, _, (code, module)), *rest = super().reduce(result)
        linked = result.library._get_module_for_linking()
        names = [one.name for some in (linked.functions, linked.global_variables) for one in some if not one.is_declaration]
        return (name, code, module, names), *rest

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        codegen = target_context.codegen()
        codegen._library_class = LoopLibrary
        try:
            return super().rebuild(target_context, payload)
        finally:
            del codegen._library_class


class LoopCache(FunctionCache):  # type: ignore[misc]
    """Loops on disk. Where the disk is full they are not kept; where a crash cut a file short they are compiled again."""

    _impl_class = LoopFile
    warned = damaged = False
    wrapper = True  # whether Python calls what is loaded

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001 - whatever the bytes of a damaged file give
            self.damaged = True
            return None
        return None if found is not None and self.wrapper and not _has_wrapper(found) else found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            if self.damaged:
                self.flush()
            super().save_overload(sig, data)
        except OSError as error:
            if LoopCache.warned:
                return
            LoopCache.warned = True
            warnings.warn(f"loops are not kept in {self.cache_path}: {error.strerror}.", CacheWarning, 2)


def _refuse_shapes(source: Any, target: Any) -> None:
    """What a compiled `a[:] = b` calls where the lengths differ."""
    raise NotImplementedError


@overload(_refuse_shapes)  # type: ignore[untyped-decorator]
def _(source: Any, target: Any) -> Callable[..., None]:
    def refuse(source: Any, target: Any) -> None:
        raise ValueError("cannot assign slice from input of different size")

    return refuse


# Numba's own names both shapes, and so compiles its formatting of strings into each loop that assigns a slice.
arrayobj.raise_with_shape_context = _refuse_shapes


class SourceLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """The cache folder itself. Numba puts one below it that is named by the source file's path, so that every checkout,
    every virtual environment and every image would compile all loops again."""

    _usable: ClassVar[set[str]] = set()

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._cache_path = numba.config.CACHE_DIR

    def ensure_cache_path(self) -> None:
        """Numba writes a file into the folder for each loop, to try it."""
        if self._cache_path not in self._usable:
            super().ensure_cache_path()
            self._usable.add(self._cache_path)


# Alone: numba's others would keep loops in folders that a change of a helper does not rename, and that others may own.
LOCATOR = f"{__name__}.{SourceLocator.__name__}"


def loops_digest() -> str:
    """Differs when anything does that a loop of a module imported so far is made from."""
    return hashlib.blake2b(repr(sorted(_digests.items())).encode(), digest_size=8).hexdigest()


def _digest(module: str) -> str:
    """Of all that the loops of a module may reach."""
    if module not in _digests:
        file = Path(str(sys.modules[module].__file__))
        name = f"{module}.__init__" if file.name == "__init__.py" else module
        root = file.parents[name.count(".")]
        packages = (*OURS, module.partition(".")[0])
        digest = hashlib.blake2b(f"{module} {numba.__version__} {np.__version__}".encode(), digest_size=8)
        for source in sorted(_reached(file, root, packages)):
            digest.update(source.read_bytes())
        _digests[module] = digest.hexdigest()
    return _digests[module]


def _reached(file: Path, root: Path, packages: tuple[str, ...]) -> set[Path]:
    """The file and all it imports from these packages, directly or not."""
    reached, left = {file}, [file]
    while left:
        for source in _imported(left.pop(), root, packages):
            if source not in reached:
                reached.add(source)
                left.append(source)
    return reached


@functools.cache
def _imported(file: Path, root: Path, packages: tuple[str, ...]) -> tuple[Path, ...]:
    """Files of the modules that a file's import statements name."""
    return tuple(dict.fromkeys(_named(file.read_text(encoding="utf-8"), file, root, packages)))


def _named(source: str, file: Path, root: Path, packages: tuple[str, ...]) -> Iterator[Path]:
    for base, names, plain in _IMPORT.findall(source):
        if base.startswith("."):  # relative: none here, but a learner of your own may have one
            yield from file.parent.glob("*.py")
            continue
        for module in [base] if base else [name.split()[0] for name in plain.split(",") if name.strip()]:
            if module.partition(".")[0] not in packages:
                continue
            files, has_modules = _files_of(module, root)
            yield from files
            for name in names.strip("()").split(",") if has_modules else ():
                if name.strip():
                    yield from _files_of(f"{module}.{name.split()[0]}", root)[0]


@functools.cache
def _files_of(module: str, root: Path) -> tuple[list[Path], bool]:
    """The files of a module, and whether it has modules below it: where not, no name that it gives is looked for."""
    found, has_modules = [], False
    for place in dict.fromkeys((root, Path(__file__).parents[2])):
        path = place.joinpath(*module.split("."))
        files = [path.with_suffix(".py")]
        if path.is_dir():
            has_modules = True
            files.append(path / "__init__.py")
        found += [file for file in files if file.is_file()]
    return found, has_modules
