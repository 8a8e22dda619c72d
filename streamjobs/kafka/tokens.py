"""Tokens of OAUTHBEARER: from the settings, from a file that is renewed, or from a token endpoint (client credentials)."""

import asyncio
import base64
import binascii
import functools
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import SaslAuthenticationFailed

from streamjobs.errors import ConfigError, SetupError
from streamjobs.kafka import timeouts
from streamjobs.kafka.secrets import Secret, secret_of
from streamjobs.settings.broker import BrokerSection

MAX_BYTES = 1 << 16  # of an answer
DEFAULT_LIFE = 300.0  # seconds, for a token that does not say when it expires
RENEW_AT = 0.2  # share of a token's life that is left when the next one is requested


class Tokens:
    """Gives a valid token; one object per process and [broker], so that clients share the requested token."""

    def __init__(self, broker: BrokerSection) -> None:
        self._broker = broker
        self._given = secret_of(broker, "token")
        self._client_secret = secret_of(broker, "client_secret")
        self._lock = threading.Lock()
        self._token, self._expires, self._renew_at = "", 0.0, 0.0  # times in seconds since 1970

    def current(self) -> tuple[str, float]:
        """(token, when it expires in seconds since 1970).

        Raises SetupError where the endpoint gives none, ConfigError where the file cannot be read. An expired token is
        returned all the same: the broker decides whether it has expired.
        """
        if self._given is not None:
            token = self._given.read()
            return token, expiry(token) or time.time() + DEFAULT_LIFE
        with self._lock:
            now = time.time()
            if now >= self._renew_at:
                self._token, life = self._request()
                self._expires, self._renew_at = now + life, now + life * (1 - RENEW_AT)
            return self._token, self._expires

    def forget(self) -> None:
        """Request another token next time, because the broker has refused this one."""
        self._renew_at = 0.0

    def _request(self) -> tuple[str, float]:
        """(token, seconds until it expires), from token_url."""
        url, client_id, secret = self._broker.token_url, self._broker.client_id, self._client_secret
        assert url is not None and client_id is not None and isinstance(secret, Secret)
        form = {"grant_type": "client_credentials"}
        if self._broker.scope is not None:
            form["scope"] = self._broker.scope
        both = ":".join(urllib.parse.quote(part, safe="") for part in (client_id, secret.read()))  # RFC 6749, 2.3.1
        request = urllib.request.Request(url, urllib.parse.urlencode(form).encode(), method="POST")
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(both.encode()).decode()}")
        request.add_header("Accept", "application/json")
        try:
            context = ssl.create_default_context()
            if self._broker.ca_file is not None:
                context.load_verify_locations(self._broker.ca_file)  # in addition to this machine's
            opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirect)
            with opener.open(request, timeout=timeouts.TOKEN) as answer:
                fields = json.loads(answer.read(MAX_BYTES))
            token, life = fields["access_token"], float(fields.get("expires_in", DEFAULT_LIFE))
        except urllib.error.HTTPError as error:
            raise SetupError(
                f"[broker] token_url {url}: answered {error.code} {error.reason} to client {client_id!r}; "
                "correct client_id, its secret or scope."
            ) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise SetupError(
                f"[broker] token_url {url}: no answer ({reason}); correct it, or make it reachable from here."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise SetupError(f"[broker] token_url {url}: expected JSON with access_token, got something else.") from None
        return str(token), life


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Sends the secret where the job file says, and nowhere else."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


@functools.cache
def tokens_of(broker: BrokerSection) -> Tokens:
    return Tokens(broker)


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """The token provider for aiokafka, which asks at every connection; `current` may block, so it runs in a thread."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        try:
            token, _ = await asyncio.to_thread(self._tokens.current)
        except (SetupError, ConfigError) as error:
            raise SaslAuthenticationFailed(str(error)) from None  # aiokafka retries on its own errors only
        return token


def claims(token: str) -> dict[str, Any]:
    """The claims of a JWT, unverified; {} for any other token.

    >>> claims("e30.eyJzdWIiOiAid29ya2VyIn0.c2ln"), claims("opaque")
    ({'sub': 'worker'}, {})
    """
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        decoded = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def expiry(token: str) -> float | None:
    """When the token expires, in seconds since 1970; None where it does not say."""
    seconds = claims(token).get("exp")
    return float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else None
