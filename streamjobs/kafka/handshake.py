"""The first connection to a broker, made to hear why it fails: TLS and credentials, each refusal in one sentence.

Client libraries try again for ever and keep the reason to their logs.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from streamjobs.errors import SetupError
from streamjobs.kafka.certificates import days_left
from streamjobs.kafka.tokens import expiry, tokens_of
from streamjobs.settings.broker import BrokerSection

ANSWER_WITHIN_MS = 5_000
AGAIN, AGAIN_AFTER = 2, 0.5  # times, seconds
# X509_V_ERR_... of OpenSSL
EXPIRED, NOT_YET = 10, 9
UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
OTHER_NAME = (62, 64)


class Greeted(NamedTuple):
    server: str
    days_left: float | None  # until its certificate expires


def greet(
    broker: BrokerSection, servers: Sequence[str], credentials: Mapping[str, Any], *, every: bool = False
) -> list[Greeted]:
    """The first that welcomes us, or all of them.

    Raises SetupError where none does and one refuses us or cannot be trusted; with `every`, where any does.
    """
    found: list[Greeted] = []
    refusals: list[str] = []
    for server in servers:
        if found and not every:
            break
        try:
            found.append(Greeted(server, _greeted(server, credentials)))
        except (OSError, KafkaError, TimeoutError) as error:
            if (sentence := refusal(broker, server, error)) is not None:
                refusals.append(sentence)
    if refusals and (every or not found):
        raise SetupError(refusals[0])
    return found


def _greeted(server: str, credentials: Mapping[str, Any]) -> float | None:
    """Tried again where the connection is closed without a reason: a broker that is just starting or stopping does so."""
    for _ in range(AGAIN):
        try:
            return asyncio.run(_greet(server, credentials))
        except (ConnectionResetError, KafkaConnectionError) as error:
            if isinstance(error.__cause__, ssl.SSLError):
                raise  # with a reason
        time.sleep(AGAIN_AFTER)
    return asyncio.run(_greet(server, credentials))


async def _greet(server: str, credentials: Mapping[str, Any]) -> float | None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # of the socket that is given up
    host, _, port = server.rpartition(":")
    connection = AIOKafkaConnection(host, int(port), request_timeout_ms=ANSWER_WITHIN_MS, **credentials)
    async with asyncio.timeout(ANSWER_WITHIN_MS / 1000):
        await connection.connect()
    try:
        secured = connection._writer.get_extra_info("ssl_object")
        return days_left(secured.getpeercert()) if secured is not None else None
    finally:
        with suppress(Exception):
            await asyncio.wait_for(connection.close(), 1)


def refusal(broker: BrokerSection, server: str, error: BaseException) -> str | None:
    """One sentence where the error is about trust or credentials, or about the wrong protocol; None otherwise."""
    if isinstance(error, KafkaError) and isinstance(error.__cause__, ssl.SSLError):
        error = error.__cause__  # an alert that came after the handshake
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"broker {server}: {_untrusted(broker, server.rpartition(':')[0], error)}"
    if isinstance(error, ssl.SSLError):
        return f"broker {server}: {_no_tls(broker, error)}"
    if isinstance(error, (SaslAuthenticationFailed, IllegalSaslStateError)):
        return f"broker {server}: {_unknown(broker, error)}"
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"broker {server}: does not offer mechanism {broker.sasl}; set another [broker] mechanism."
    if isinstance(error, ConnectionResetError) and broker.reached != "plaintext":
        return f"broker {server}: closed the connection while TLS began; correct [broker] protocol or the port."
    if isinstance(error, KafkaError):
        expected = (
            "TLS: state [broker] ca_file, or protocol" if broker.reached == "plaintext" else "another [broker] protocol"
        )
        return f"broker {server}: closed the connection at the first request; it may expect {expected}."
    return None


def _untrusted(broker: BrokerSection, host: str, error: ssl.SSLCertVerificationError) -> str:
    trusted = f"ca_file {broker.ca_file!r}" if broker.ca_file is not None else "the authorities this machine trusts"
    if error.verify_code in OTHER_NAME:
        return (
            f"its certificate is for other names than {host!r}; name it in [broker] url as its certificate does, or have "
            "one issued for this name."
        )
    if error.verify_code == EXPIRED:
        return "its certificate has expired (or this machine's clock is wrong); have it renewed."
    if error.verify_code == NOT_YET:
        return "its certificate is not valid yet; see that this machine's clock is right."
    if error.verify_code in UNKNOWN_AUTHORITY:
        return f"its certificate is signed by nobody in {trusted}; state the authority's certificate as [broker] ca_file."
    return f"its certificate cannot be trusted ({error.verify_message}); checked against {trusted}."


def _no_tls(broker: BrokerSection, error: ssl.SSLError) -> str:
    reason = (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
    if "alert" in reason:
        if broker.certificate_file is None:
            return f"asks for a certificate of this worker ({reason}); state [broker] certificate_file and key_file."
        left = days_left(broker.certificate_file)
        if left is not None and left < 0:
            return f"refused this worker's certificate, which expired {-left:.0f} days ago; have certificate_file renewed."
        return (
            f"refused this worker's certificate {broker.certificate_file!r} ({reason}); have it issued by an authority that "
            "the broker trusts."
        )
    return f"does not speak TLS at this port ({reason}); correct the port, or [broker] protocol."


def _unknown(broker: BrokerSection, error: KafkaError) -> str:
    if broker.sasl != "OAUTHBEARER":
        return (
            f"refused user {broker.username!r} with {broker.sasl}: unknown there, or another password; correct [broker] "
            "username or its password."
        )
    origin = "token_url" if broker.token_url is not None else "token_file" if broker.token_file is not None else "token"
    text = _last(error)
    if text.startswith("[broker]"):
        return text  # there was no token to show
    tokens = tokens_of(broker)
    ends = expiry(tokens.current()[0])
    tokens.forget()
    if ends is not None and ends < time.time():
        ago = f"expired {time.time() - ends:.0f} s ago"
        return f"refused the token of {origin}, which {ago}; whoever writes it must renew it in time."
    return (
        f"refused the token of {origin} ({text}); see that its issuer, audience and signature are what the broker expects."
    )


def _last(error: KafkaError) -> str:
    return str(error.args[0]).rstrip(".") if error.args else type(error).__name__
