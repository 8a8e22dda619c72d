"""Access to the page: open on a loopback address, with a token elsewhere.

The token comes in a header (`Authorization: Bearer TOKEN`), or once in a form, which gives the browser a cookie. It is never
part of a URL. On loopback without a token only requests for a loopback name are answered, so that a site with a name
that resolves to 127.0.0.1 cannot read the page through a visitor's browser.
"""

import hmac
import ipaddress
import secrets
import socket
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from streamjobs.errors import ConfigError
from streamjobs.kafka.secrets import Secret, page_token
from streamjobs.settings.sections import MetricsSection

LEAST_TOKEN = 16  # characters
SESSION = 12 * 3600.0  # seconds
MOST_SESSIONS = 64  # the oldest ends


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are of this machine alone; False where it has none."""
    try:
        found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


class Access:
    """Raises ConfigError where the token cannot be read, or is shorter than LEAST_TOKEN characters."""

    def __init__(self, settings: MetricsSection) -> None:
        self._secret: Secret | None = page_token(settings)
        self._sessions: dict[str, float] = {}  # id -> time.monotonic() of its end, oldest first
        self.loopback = is_loopback(settings.host)
        if self._secret is not None and len(self._secret.read()) < LEAST_TOKEN:
            raise ConfigError(
                f"[metrics]: the token must have {LEAST_TOKEN} characters or more, got fewer; make one with "
                "'openssl rand -hex 32'."
            )

    @property
    def served(self) -> bool:
        """Whether there is a page at all."""
        return self.loopback or self._secret is not None

    def refuses_host(self, host: str) -> bool:
        """host: the request's Host header."""
        if self._secret is not None:
            return False
        name = urlsplit(f"//{host}").hostname or ""
        try:
            return not ipaddress.ip_address(name).is_loopback
        except ValueError:
            return not (name == "localhost" or name.endswith(".localhost"))

    def admits(self, headers: Mapping[str, str], session: str | None) -> bool:
        """session: the cookie's value."""
        if self._secret is None:
            return True
        if session is not None and self._sessions.get(session, 0.0) > time.monotonic():
            return True
        kind, _, token = headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and self._is_token(token.strip())

    def _is_token(self, given: str) -> bool:
        assert self._secret is not None
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._secret.read().encode())

    def begin_session(self, token: str) -> str | None:
        """A new session's id for the right token; None for a wrong one."""
        if self._secret is None or not self._is_token(token):
            return None
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = time.monotonic() + SESSION
        return session
