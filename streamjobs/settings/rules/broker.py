"""[broker] and [registry]: rules for addresses and credentials, and against secrets in a job file."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from streamjobs.settings.broker import BrokerSection, RegistrySection
from streamjobs.settings.environment import PREFIX, SECTION_MODELS
from streamjobs.settings.sections import MetricsSection
from streamjobs.settings.sentences import hidden, is_secret
from streamjobs.settings.types import Problems

ADDRESS = r"kafka://[^\s,:/@]+(:\d{1,5})?(,[^\s,:/@]+(:\d{1,5})?)*"
FILES = {
    "password": "password_file",
    "key_password": "key_password_file",
    "token": "token_file",
    "client_secret": "client_secret_file",
}
LOCAL = ("localhost", "127.0.0.1", "::1")
PLAINTEXT = "others on the network could read or change what is sent"


def written_secrets(table: Mapping[str, Any], origin: str) -> Iterator[str]:
    """A sentence for each secret in the job file itself."""
    for section, settings in table.items():
        model = SECTION_MODELS.get(section)
        if model is None or not isinstance(settings, Mapping):
            continue
        for name in settings:
            if is_secret(model, name):
                variable = f"{PREFIX}{section}__{name}".upper()
                yield (
                    f"{origin} [{section}]: {name} must not be in a job file; put it in a file of its own, named by "
                    f"{FILES[name]}, or in the environment as {variable}."
                )


def access_contradictions(broker: BrokerSection) -> Problems:
    if "@" in broker.url:
        yield "broker.url", _credentials_in("broker", broker.url)
    elif not re.fullmatch(ADDRESS, broker.url):
        yield "broker.url", f"url must be kafka://host:port[,host:port]; got {hidden(broker.url)!r}."
    if broker.session_timeout < 1:
        yield "broker.session_timeout", f"session_timeout must be 1 s or more; got {broker.session_timeout:g} s."
    yield from secrets_given_twice("broker", broker)
    yield from _protocol(broker)
    yield from certificate_contradictions(
        "broker", broker, "with protocol = 'plaintext'; set 'ssl'" if broker.protocol == "plaintext" else ""
    )
    yield from _username(broker)
    yield from _tokens(broker)


def secrets_given_twice(section: str, settings: BrokerSection | RegistrySection | MetricsSection) -> Problems:
    for name, file in FILES.items():
        if getattr(settings, name, None) is not None and getattr(settings, file) is not None:
            yield f"{section}.{file}", f"{file} and {name} both give the same secret; remove one."


def certificate_contradictions(section: str, settings: BrokerSection | RegistrySection, unencrypted: str) -> Problems:
    """unencrypted: what makes a certificate meaningless, and what to set instead; empty: the connection is encrypted."""
    if unencrypted:
        for name in ("ca_file", "certificate_file", "key_file"):
            if getattr(settings, name) is not None:
                yield f"{section}.{name}", f"{name} has no meaning {unencrypted}, or remove it."
    elif settings.key_file is not None and settings.certificate_file is None:
        yield f"{section}.key_file", "key_file needs its certificate; set certificate_file."
    elif settings.certificate_file is None and is_set(settings, "key_password"):
        yield f"{section}.key_password", "key_password needs its key; set certificate_file and key_file."


def is_set(settings: BrokerSection | RegistrySection, name: str) -> bool:
    """Whether the secret, or the file that holds it, is set."""
    return bool(getattr(settings, name) or getattr(settings, FILES[name]))


def _credentials_in(section: str, url: str) -> str:
    return (
        f"url must not hold credentials; got {hidden(url)!r}. Set username, and password_file or the environment's "
        f"{PREFIX}{section.upper()}__PASSWORD."
    )


def username_without_password(section: str, username: str) -> str:
    return (
        f"username {username!r} needs its password; put it in a file named by password_file, or in the environment "
        f"as {PREFIX}{section.upper()}__PASSWORD."
    )


def _protocol(broker: BrokerSection) -> Problems:
    given = [name for name in ("mechanism", "username", "token_url") if getattr(broker, name) is not None]
    given += [name for name in ("password", "token") if is_set(broker, name)]
    credential = given[0] if given else None  # a setting that means SASL: any credential but a certificate
    if broker.protocol == "sasl_plaintext":
        yield "broker.protocol", f"protocol = 'sasl_plaintext' is refused: {PLAINTEXT}; set 'sasl_ssl'."
    elif broker.protocol == "plaintext" and credential is not None:
        yield (
            "broker.protocol",
            f"{credential} over protocol = 'plaintext' is refused: {PLAINTEXT}; set 'sasl_ssl', or remove protocol.",
        )
    elif broker.protocol == "ssl" and credential is not None:
        yield "broker.protocol", f"protocol = 'ssl' sends no {credential}; set 'sasl_ssl', or remove protocol."
    elif broker.protocol == "sasl_ssl" and credential is None:
        yield (
            "broker.protocol",
            "protocol = 'sasl_ssl' needs credentials: username and password_file, or token_file, or token_url; "
            "for a certificate alone set 'ssl'.",
        )


def _username(broker: BrokerSection) -> Problems:
    """SCRAM and PLAIN need a username with its password."""
    if broker.mechanism == "OAUTHBEARER":
        for name in ("username", "password", "password_file"):
            if getattr(broker, name) is not None:
                yield f"broker.{name}", f"{name} has no meaning with mechanism = 'OAUTHBEARER'; remove it."
        return
    if broker.username is not None and not is_set(broker, "password"):
        yield "broker.username", username_without_password("broker", broker.username)
    elif broker.username is None and (broker.mechanism is not None or is_set(broker, "password")):
        which = broker.mechanism or "password"
        yield "broker.username", f"{which} needs a username; set username."


def _tokens(broker: BrokerSection) -> Problems:
    """OAUTHBEARER needs exactly one source of tokens."""
    token, url = is_set(broker, "token"), broker.token_url
    if broker.username is not None or broker.mechanism not in (None, "OAUTHBEARER"):
        if token or url is not None:
            name = "token_url" if url is not None else "token_file" if broker.token_file is not None else "token"
            yield f"broker.{name}", f"{name} belongs to mechanism = 'OAUTHBEARER'; remove it, or username and mechanism."
        return
    if broker.mechanism == "OAUTHBEARER" and not token and url is None:
        yield (
            "broker.mechanism",
            f"OAUTHBEARER needs a token; set token_file, the environment's {PREFIX}BROKER__TOKEN, or token_url.",
        )
    if token and url is not None:
        yield "broker.token_url", "token_url and a token are both set; remove one."
    if url is not None and not re.fullmatch(r"https://[^\s/@]+(/\S*)?", url):
        yield (
            "broker.token_url",
            f"token_url must be https://host/path without credentials ({PLAINTEXT} otherwise); got {hidden(url)!r}.",
        )
    if url is not None and (broker.client_id is None or not is_set(broker, "client_secret")):
        yield (
            "broker.client_id",
            f"token_url needs client_id, and client_secret_file or the environment's {PREFIX}BROKER__CLIENT_SECRET.",
        )
    for name in ("client_id", "client_secret", "client_secret_file", "scope"):
        if url is None and getattr(broker, name) is not None:
            yield f"broker.{name}", f"{name} has no meaning without token_url; set token_url, or remove {name}."
            return


def registry_contradictions(registry: RegistrySection) -> Problems:
    try:
        address = urlsplit(registry.url)
        valid = bool(re.fullmatch(r"https?://[^\s?#]+", registry.url)) and bool(address.hostname) and address.port != 0
    except ValueError:
        address, valid = urlsplit(""), False
    if "@" in registry.url:
        yield "registry.url", _credentials_in("registry", registry.url)
    elif not valid:
        yield (
            "registry.url",
            f"url must be https://host:port or http://host:port, with a path or without; got {registry.url!r}.",
        )
    yield from secrets_given_twice("registry", registry)
    if registry.username is not None and not is_set(registry, "password"):
        yield "registry.username", username_without_password("registry", registry.username)
    if registry.username is None and is_set(registry, "password"):
        yield "registry.username", "password needs a username; set username."
    if registry.username is not None and is_set(registry, "token"):
        yield "registry.username", "username and token are both set; remove one."
    http, sent = address.scheme == "http", registry.username is not None or is_set(registry, "token")
    if http and sent and address.hostname not in LOCAL:
        yield "registry.url", f"credentials over http are refused: {PLAINTEXT}; set an https url."
    yield from certificate_contradictions("registry", registry, "with an http url; set https" if http else "")
