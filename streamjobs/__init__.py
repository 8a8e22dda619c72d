"""streamjobs: per-key online kernel learners over Kafka topics.

`from streamjobs import Job` is the way in from Python; it is imported when it is first asked for.
"""

import importlib

__version__ = "0.3.0"

_LATE = {"Job": "streamjobs.notebook.job"}  # attribute -> its module


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)


def install_line(extra: str) -> str:
    """The command that installs what an extra needs, by where this package was installed from.

    No package index has streamjobs. Therefore the command for a wheel names the packages of the extra.
    """
    import json
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    # A checkout also has a *.egg-info folder, without the origin: Python run there finds this folder first.
    known = list(metadata.distributions(name=__name__))
    distribution = max(known, key=lambda one: one.read_text("direct_url.json") is not None, default=None)
    if distribution is None:  # not installed: run in the checkout
        return f"pip install -e '.[{extra}]'"
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e '{unquote(urlsplit(origin['url']).path)}[{extra}]'"
    needed = (one.partition(";") for one in distribution.requires or ())
    packages = [f"'{name.strip()}'" for name, _, when in needed if f'extra == "{extra}"' in when.replace("'", '"')]
    return f"pip install {' '.join(packages)}"
