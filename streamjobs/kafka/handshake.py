"""Connects once to report TLS and credential errors, each in one sentence.

Client libraries retry for ever, and only log the reason.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from aiokafka import errors
from aiokafka.conn import AIOKafkaConnection

from streamjobs.errors import SetupError
from streamjobs.kafka import timeouts
from streamjobs.kafka.certificates import days_left
from streamjobs.kafka.tokens import expiry, tokens_of
from streamjobs.settings.broker import BrokerSection

RETRIES, RETRY_AFTER = 2, 0.5  # times, seconds
# OpenSSL's codes X509_V_ERR_...
EXPIRED, NOT_YET = 10, 9
UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
OTHER_NAME = (62, 64)


class Verified(NamedTuple):
    """A server that accepted the connection."""

    server: str
    days_left: float | None  # until its certificate expires


def verify(
    broker: BrokerSection, servers: Sequence[str], credentials: Mapping[str, Any], *, every: bool = False
) -> list[Verified]:
    """The first server that accepts us; with `every`, all that do.

    Raises SetupError when none accepts us and one refuses us or cannot be trusted; with `every`, when any does.
    """
    accepted: list[Verified] = []
    refusals: list[str] = []
    for server in servers:
        if accepted and not every:
            break
        try:
            accepted.append(Verified(server, _verify_server(server, credentials)))
        except (OSError, errors.KafkaError, TimeoutError) as error:
            if (sentence := refusal(broker, server, error)) is not None:
                refusals.append(sentence)
    if refusals and (every or not accepted):
        raise SetupError(refusals[0])
    return accepted


def _verify_server(server: str, credentials: Mapping[str, Any]) -> float | None:
    """Days left of its certificate. Retries when the server closes without a reason, as one does that starts or stops."""
    for _ in range(RETRIES):
        try:
            return asyncio.run(_connect(server, credentials))
        except (ConnectionResetError, errors.KafkaConnectionError) as error:
            if isinstance(error.__cause__, ssl.SSLError):
                raise  # with a reason
        time.sleep(RETRY_AFTER)
    return asyncio.run(_connect(server, credentials))


async def _connect(server: str, credentials: Mapping[str, Any]) -> float | None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # of the abandoned socket
    host, _, port = server.rpartition(":")
    within = timeouts.HANDSHAKE
    connection = AIOKafkaConnection(host, int(port), request_timeout_ms=round(1000 * within), **credentials)
    async with asyncio.timeout(within):
        await connection.connect()
    try:
        secured = connection._writer.get_extra_info("ssl_object")
        return days_left(secured.getpeercert()) if secured is not None else None
    finally:
        with suppress(Exception):
            await asyncio.wait_for(connection.close(), 1)


def refusal(broker: BrokerSection, server: str, error: BaseException) -> str | None:
    """One sentence where the error is about trust or credentials, or about the wrong protocol; None otherwise."""
    if isinstance(error, errors.KafkaError) and isinstance(error.__cause__, ssl.SSLError):
        error = error.__cause__  # an alert that came after the handshake
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"broker {server}: {_untrusted(broker, server.rpartition(':')[0], error)}"
    if isinstance(error, ssl.SSLError):
        return f"broker {server}: {_failed_tls(broker, error)}"
    if isinstance(error, (errors.SaslAuthenticationFailed, errors.IllegalSaslStateError)):
        return f"broker {server}: {_refused_credentials(broker, error)}"
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        return f"broker {server}: does not offer mechanism {broker.sasl}; set another [broker] mechanism."
    if isinstance(error, ConnectionResetError) and broker.reached != "plaintext":
        return f"broker {server}: closed the connection during the TLS handshake; correct [broker] protocol or the port."
    if isinstance(error, errors.KafkaError):
        expected = "another [broker] protocol"
        if broker.reached == "plaintext":
            expected = "TLS: set [broker] ca_file or protocol (without a job file STREAMJOBS_BROKER__CA_FILE)"
        return f"broker {server}: closed the connection at the first request; it may expect {expected}."
    return None


def _untrusted(broker: BrokerSection, host: str, error: ssl.SSLCertVerificationError) -> str:
    trusted = f"ca_file {broker.ca_file!r}" if broker.ca_file is not None else "this machine's trust store"
    if error.verify_code in OTHER_NAME:
        return (
            f"its certificate is for other names than {host!r}; use a name of its certificate in [broker] url, or have "
            "a certificate issued for this name."
        )
    if error.verify_code == EXPIRED:
        return "its certificate has expired (or this machine's clock is wrong); have it renewed."
    if error.verify_code == NOT_YET:
        return "its certificate is not valid yet; check this machine's clock."
    if error.verify_code in UNKNOWN_AUTHORITY:
        return (
            f"its certificate is signed by no authority in {trusted}; set [broker] ca_file to the authority's certificate."
        )
    return f"its certificate cannot be trusted ({error.verify_message}); it was checked against {trusted}."


def _failed_tls(broker: BrokerSection, error: ssl.SSLError) -> str:
    reason = (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
    if "alert" in reason:
        if broker.certificate_file is None:
            return f"requires a certificate of this worker ({reason}); set [broker] certificate_file and key_file."
        left = days_left(broker.certificate_file)
        if left is not None and left < 0:
            return f"refused this worker's certificate, which expired {-left:.0f} days ago; have certificate_file renewed."
        return (
            f"refused this worker's certificate {broker.certificate_file!r} ({reason}); have it issued by an authority that "
            "the broker trusts."
        )
    return f"does not speak TLS at this port ({reason}); correct the port, or [broker] protocol."


def _refused_credentials(broker: BrokerSection, error: errors.KafkaError) -> str:
    if broker.sasl != "OAUTHBEARER":
        return (
            f"refused user {broker.username!r} with {broker.sasl}: unknown user or wrong password; correct [broker] "
            "username or its password."
        )
    origin = "token_url" if broker.token_url is not None else "token_file" if broker.token_file is not None else "token"
    text = str(error.args[0]).rstrip(".") if error.args else type(error).__name__
    if text.startswith("[broker]"):
        return text  # without a token to send
    tokens = tokens_of(broker)
    ends = expiry(tokens.current()[0])
    tokens.forget()
    if ends is not None and ends < time.time():
        ago = f"expired {time.time() - ends:.0f} s ago"
        return f"refused the token of {origin}, which {ago}; renew it before it expires."
    return f"refused the token of {origin} ({text}); check that the broker accepts its issuer, audience and signature."
