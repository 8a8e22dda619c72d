"""TLS contexts: the authorities that are trusted, this worker's own certificate; files that change are loaded again."""

import os
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from streamjobs.errors import ConfigError
from streamjobs.kafka.secrets import secret_of
from streamjobs.settings.broker import BrokerSection, RegistrySection

Reached = BrokerSection | RegistrySection  # what says how it is reached over TLS


class ReloadingContext(ssl.SSLContext):
    """Always verifies names and signatures. A renewed certificate or CA is used from the next connection on."""

    _broker: Reached
    _loaded: tuple[float, ...]  # modification times of its files

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """Called by asyncio for each connection."""
        if _modification_times(self._broker) != self._loaded:
            with suppress(ConfigError):  # a half-written file: the one loaded before stays in use
                _load(self, self._broker)
        return super().wrap_bio(*arguments, **named)


def context_of(broker: Reached) -> ReloadingContext:
    """Raises ConfigError where a file cannot be read or holds something else."""
    context = ReloadingContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context._broker = broker
    _load(context, broker)
    return context


def check_authority(broker: BrokerSection) -> None:
    """Raises ConfigError where ca_file cannot be read or holds no certificate."""
    if broker.ca_file is not None:
        context_of(broker.model_copy(update={"certificate_file": None}))


def _load(context: ReloadingContext, broker: Reached) -> None:
    context._loaded = _modification_times(broker)
    if broker.ca_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(broker.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"[{broker.section}]: ca_file {broker.ca_file!r} {_why(error)}") from None
    if broker.certificate_file is None:
        return
    password = secret_of(broker, "key_password")
    passphrase = password.read() if password is not None else ""
    key = broker.key_file or broker.certificate_file
    try:  # without a password function OpenSSL would ask at the terminal
        context.load_cert_chain(broker.certificate_file, broker.key_file, lambda: passphrase)
    except ssl.SSLError as error:
        if _decoded(broker.certificate_file):
            cause = "does not fit certificate_file" if error.reason == "KEY_VALUES_MISMATCH" else "cannot be opened"
            raise ConfigError(
                f"[{broker.section}]: key_file {key!r} {cause}: expected the private key (PEM) of certificate_file, and "
                "key_password_file where it is encrypted."
            ) from None
        raise ConfigError(f"[{broker.section}]: certificate_file {broker.certificate_file!r} {_why(error)}") from None
    except OSError as error:
        raise ConfigError(f"[{broker.section}]: certificate_file or key_file {key!r} {_why(error)}") from None


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "holds no certificate: expected PEM, which begins with '-----BEGIN CERTIFICATE-----'."
    return f"cannot be read ({error.strerror}); correct the path or its permissions."


def _modification_times(broker: Reached) -> tuple[float, ...]:
    """Of each file in [broker]; 0 for one that is missing."""
    times = []
    for name in ("ca_file", "certificate_file", "key_file", "key_password_file"):
        try:
            times.append(os.stat(getattr(broker, name)).st_mtime if getattr(broker, name) else 0.0)
        except OSError:
            times.append(0.0)
    return tuple(times)


def _decoded(file: str) -> Mapping[str, Any]:
    """Subject and dates of the first certificate in a PEM file; {} where there is none."""
    decode = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)  # the standard library has no public one
    try:
        return dict(decode(file)) if decode is not None else {}
    except (OSError, ssl.SSLError):
        return {}


def subject(file: str) -> str | None:
    """The certificate's distinguished name as Kafka writes it in a principal: last part first."""
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
    """Days until a certificate expires, of a PEM file or as a connection received it; None where that is not known."""
    decoded = _decoded(certificate) if isinstance(certificate, str) else certificate
    ends = decoded.get("notAfter")
    return None if ends is None else (ssl.cert_time_to_seconds(ends) - time.time()) / 86_400
