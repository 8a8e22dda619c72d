"""Passwords and tokens, read at the moment they are used: from the environment, or from a file that may change meanwhile.

No secret is ever printed: its `repr` is asterisks, and error sentences name the setting and the file.
"""

import os
import stat
from collections.abc import Iterator

from pydantic import SecretStr

from streamjobs.errors import ConfigError
from streamjobs.settings.broker import BrokerSection, RegistrySection
from streamjobs.settings.sections import MetricsSection

MASK = "****"
MAX_BYTES = 1 << 16  # of a secret; tokens have a few thousand


class Secret:
    """A password or token; `read` reads its file again each time."""

    def __init__(self, name: str, value: SecretStr | None, file: str | None, section: str = "broker") -> None:
        self._name, self._file, self._section = name, file, section
        self._last = value.get_secret_value() if value is not None else ""

    def read(self) -> str:
        """The secret; the last value while its file cannot be read. Raises ConfigError if it never could be read."""
        if self._file is not None:
            try:
                self._last = _content(self._section, self._name, self._file)
            except ConfigError:
                if not self._last:
                    raise
        return self._last

    def __repr__(self) -> str:
        return MASK


def secret_of(broker: BrokerSection | RegistrySection, name: str) -> Secret | None:
    """name: the setting without `_file`. None where neither of the two settings is set."""
    value, file = getattr(broker, name), getattr(broker, f"{name}_file")
    return None if value is None and file is None else Secret(name, value, file, broker.section)


def page_token(metrics: MetricsSection) -> Secret | None:
    """The token of the worker's page; None where neither of its settings is set."""
    if metrics.token is None and metrics.token_file is None:
        return None
    return Secret("token", metrics.token, metrics.token_file, "metrics")


def _content(section: str, name: str, file: str) -> str:
    """The file's only line, without its end."""
    where = f"[{section}]: {name}_file {file!r}"
    try:
        with open(file, "rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read ({error.strerror}); give this worker's user the permission.") from None
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text or len(data) > MAX_BYTES or "\n" in text:
        raise ConfigError(f"{where}: expected one line of text, the {name.replace('_', ' ')}; got something else.")
    return text


def unreadable(broker: BrokerSection | RegistrySection) -> Iterator[str]:
    """A sentence for each of this worker's files in the section that cannot be read."""
    for name in ("certificate_file", "key_file"):
        file = getattr(broker, name)
        if file is not None:
            try:
                with open(file, "rb"):
                    pass
            except OSError as error:
                yield (
                    f"[{broker.section}]: {name} {file!r} cannot be read ({error.strerror}); correct the path or its "
                    "permissions."
                )
    secrets = [name for name in ("password", "key_password", "token", "client_secret") if name in type(broker).model_fields]
    for name in secrets:
        secret = secret_of(broker, name)
        if secret is not None:
            try:
                secret.read()
            except ConfigError as error:
                yield str(error)


def exposed(broker: BrokerSection, metrics: MetricsSection, registry: RegistrySection | None = None) -> Iterator[str]:
    """A sentence for each file with a secret that other users of this machine can read."""
    places = [("metrics", "token_file", metrics.token_file)]
    for reached in (broker, registry) if registry is not None else (broker,):
        files = ["password_file", "key_password_file", "token_file", "client_secret_file"]
        files.append("key_file" if reached.key_file is not None else "certificate_file")
        places += [(reached.section, name, getattr(reached, name, None)) for name in files]
    for section, name, file in places:
        if file is None or not os.path.exists(file):
            continue
        mode = stat.S_IMODE(os.stat(file).st_mode)
        if mode & 0o077:
            yield f"[{section}]: {name} {file!r} can be read by other users (mode {mode:04o}); run 'chmod 600 {file}'."
