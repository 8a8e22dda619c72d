"""TLS of a connection: who vouches for the broker, what this worker shows; files that change are read again."""

import os
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from streamjobs.errors import ConfigError
from streamjobs.kafka.secrets import secret_of
from streamjobs.settings.broker import BrokerSection


class Context(ssl.SSLContext):
    """Names and signatures are always verified. A renewed certificate or CA counts from the next connection on."""

    _broker: BrokerSection
    _read: tuple[float, ...]

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """asyncio's way into each connection."""
        if _times(self._broker) != self._read:
            with suppress(ConfigError):  # half written: what was read before goes on
                _load(self, self._broker)
        return super().wrap_bio(*arguments, **named)


def context_of(broker: BrokerSection) -> Context:
    """Raises ConfigError where a file cannot be read or holds something else."""
    context = Context(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context._broker = broker
    _load(context, broker)
    return context


def authority(broker: BrokerSection) -> None:
    """Raises ConfigError where ca_file cannot be read or holds no certificate."""
    if broker.ca_file is not None:
        context_of(broker.model_copy(update={"certificate_file": None}))


def _load(context: Context, broker: BrokerSection) -> None:
    context._read = _times(broker)
    if broker.ca_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(broker.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"[broker]: ca_file {broker.ca_file!r} {_why(error)}") from None
    if broker.certificate_file is None:
        return
    password = secret_of(broker, "key_password")
    stated = password.read() if password is not None else ""
    key = broker.key_file or broker.certificate_file
    try:  # without a function for the password OpenSSL would ask at the terminal
        context.load_cert_chain(broker.certificate_file, broker.key_file, lambda: stated)
    except ssl.SSLError as error:
        if _decodes(broker.certificate_file):
            cause = "does not fit certificate_file" if error.reason == "KEY_VALUES_MISMATCH" else "cannot be opened"
            raise ConfigError(
                f"[broker]: key_file {key!r} {cause}: expected the private key (PEM) of certificate_file, and "
                "key_password_file where it is encrypted."
            ) from None
        raise ConfigError(f"[broker]: certificate_file {broker.certificate_file!r} {_why(error)}") from None
    except OSError as error:
        raise ConfigError(f"[broker]: certificate_file or key_file {key!r} {_why(error)}") from None


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "holds no certificate: expected PEM, '-----BEGIN CERTIFICATE-----' and what follows."
    return f"cannot be read ({error.strerror}); correct the path or its rights."


def _times(broker: BrokerSection) -> tuple[float, ...]:
    """When each file was last written; 0 of one that is missing."""
    found = []
    for name in ("ca_file", "certificate_file", "key_file", "key_password_file"):
        try:
            found.append(os.stat(getattr(broker, name)).st_mtime if getattr(broker, name) else 0.0)
        except OSError:
            found.append(0.0)
    return tuple(found)


def _decoded(file: str) -> Mapping[str, Any]:
    """Subject and dates of the first certificate in a PEM file; {} where there is none."""
    decode = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)  # the standard library has no public one
    try:
        return dict(decode(file)) if decode is not None else {}
    except (OSError, ssl.SSLError):
        return {}


def _decodes(file: str) -> bool:
    return bool(_decoded(file))


def subject(file: str) -> str | None:
    """The distinguished name as Kafka writes it in a principal: last part first."""
    short = {
        "commonName": "CN",
        "organizationName": "O",
        "organizationalUnitName": "OU",
        "countryName": "C",
        "localityName": "L",
        "stateOrProvinceName": "ST",
    }
    parts = [f"{short.get(name, name)}={value}" for part in _decoded(file).get("subject", ()) for name, value in part]
    return ",".join(reversed(parts)) or None


def days_left(certificate: Mapping[str, Any] | str) -> float | None:
    """Until it expires, of a PEM file or of what a connection was shown; None where that is not known."""
    found = _decoded(certificate) if isinstance(certificate, str) else certificate
    ends = found.get("notAfter")
    return None if ends is None else (ssl.cert_time_to_seconds(ends) - time.time()) / 86_400
