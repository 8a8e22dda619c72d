"""LAPACK for compiled loops without the whole of `scipy.linalg`.

Numba takes the addresses of LAPACK's routines from two extension modules of SciPy. Their package imports most of SciPy
and of NumPy's build tools besides (0.1 s of every start), none of which is used here. The modules are loaded without it;
who imports `scipy.linalg` afterwards gets all of it as ever.
"""

import importlib
import sys
import types
from pathlib import Path

_PACKAGE, _MODULES = "scipy.linalg", ("cython_blas", "cython_lapack")


def load() -> None:
    """Call it before the first loop is compiled or loaded."""
    import scipy

    if _PACKAGE in sys.modules:
        return
    bare = types.ModuleType(_PACKAGE)
    bare.__path__ = [str(Path(scipy.__file__).parent / "linalg")]
    sys.modules[_PACKAGE] = bare
    try:
        for name in _MODULES:
            importlib.import_module(f"{_PACKAGE}.{name}")
    finally:
        del sys.modules[_PACKAGE]
        vars(scipy).pop("linalg", None)
