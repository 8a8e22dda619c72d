"""Tokens of OAUTHBEARER: stated, read from a file that somebody renews, or asked of an address for a client's secret."""

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
from streamjobs.kafka.secrets import Secret, secret_of
from streamjobs.settings.broker import BrokerSection

ANSWER_WITHIN = 10.0  # seconds
MOST_BYTES = 1 << 16  # of an answer
UNTOLD_LIFE = 300.0  # seconds a token counts as good where nobody says how long
RENEW = 0.2  # share of a token's life that is left when the next one is asked for


class Tokens:
    """Gives a token that is good now; one per process and [broker], so that clients share what was asked for."""

    def __init__(self, broker: BrokerSection) -> None:
        self._broker = broker
        self._stated = secret_of(broker, "token")
        self._client = secret_of(broker, "client_secret")
        self._lock = threading.Lock()
        self._token, self._expires, self._renew_at = "", 0.0, 0.0  # times in seconds since 1970

    def current(self) -> tuple[str, float]:
        """(token, when it expires in seconds since 1970).

        Raises SetupError where the address gives none, ConfigError where the file cannot be read. A token that has expired
        is given all the same: whether it has is the broker's to say.
        """
        if self._stated is not None:
            token = self._stated.read()
            return token, expiry(token) or time.time() + UNTOLD_LIFE
        with self._lock:
            now = time.time()
            if now >= self._renew_at:
                self._token, life = self._asked()
                self._expires, self._renew_at = now + life, now + life * (1 - RENEW)
            return self._token, self._expires

    def forget(self) -> None:
        """The broker has refused it: ask for another one next time."""
        self._renew_at = 0.0

    def _asked(self) -> tuple[str, float]:
        url, client_id, secret = self._broker.token_url, self._broker.client_id, self._client
        assert url is not None and client_id is not None and isinstance(secret, Secret)
        form = {"grant_type": "client_credentials"}
        if self._broker.scope is not None:
            form["scope"] = self._broker.scope
        both = ":".join(urllib.parse.quote(part, safe="") for part in (client_id, secret.read()))  # RFC 6749, 2.3.1
        request = urllib.request.Request(url, urllib.parse.urlencode(form).encode(), method="POST")
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(both.encode()).decode()}")
        request.add_header("Accept", "application/json")
        try:
            with _opener(self._broker.ca_file).open(request, timeout=ANSWER_WITHIN) as answer:
                found = json.loads(answer.read(MOST_BYTES))
            token, life = found["access_token"], float(found.get("expires_in", UNTOLD_LIFE))
        except urllib.error.HTTPError as error:
            raise SetupError(
                f"[broker] token_url {url}: answered {error.code} {error.reason} to client {client_id!r}; "
                "correct client_id, its secret or scope."
            ) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise SetupError(
                f"[broker] token_url {url}: no answer ({reason}); is it right, and reachable from here?"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise SetupError(f"[broker] token_url {url}: expected JSON with access_token, got something else.") from None
        return str(token), life


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A secret is sent where the job file says, and nowhere else."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _opener(ca_file: str | None) -> urllib.request.OpenerDirector:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)  # beside this machine's
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirect)


@functools.cache
def tokens_of(broker: BrokerSection) -> Tokens:
    return Tokens(broker)


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """For aiokafka: asked at every connection, in a thread of its own."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        try:
            token, _ = await asyncio.to_thread(self._tokens.current)
        except (SetupError, ConfigError) as error:
            raise SaslAuthenticationFailed(str(error)) from None  # aiokafka tries again later on its own errors only
        return token


def claims(token: str) -> dict[str, Any]:
    """What a JWT says of itself, unverified; {} of any other token.

    >>> claims("e30.eyJzdWIiOiAid29ya2VyIn0.c2ln"), claims("opaque")
    ({'sub': 'worker'}, {})
    """
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return found if isinstance(found, dict) else {}


def expiry(token: str) -> float | None:
    """Seconds since 1970; None where the token does not say."""
    found = claims(token).get("exp")
    return float(found) if isinstance(found, (int, float)) and found > 0 else None
