"""A real broker that trusts nobody: TLS, SCRAM-SHA-512, signed tokens, client certificates; deny by default.

Its plaintext listener is the test's own way in (ANONYMOUS may do anything there): brokers outside a test have none.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.broker import Broker, free_port
from tests.brokers.certificates import Authority, Issuer
from tests.brokers.kafka_job import ANSWER, until
from tests.brokers.proxy import Proxy

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
SESSION = 1_500  # milliseconds a connection to `brief` may last without credentials shown anew
ANYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


class Secured:
    """`sasl` and `mutual` are the addresses of the SASL_SSL and the SSL listener, `bootstrap` the test's own.

    `proxied` is SASL_SSL through `proxy`, whose connections can be cut; `brief` through `cutting`, where the broker cuts
    each after SESSION.  `admin`: may do anything, over `bootstrap`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca, self.stranger, self.issuer = Authority(folder), Authority(folder, "stranger"), Issuer(folder)
        self.ca.issued("broker")
        plain, sasl, mutual, behind, front, controller, brief, cut = _ports(8)
        self.sasl, self.mutual, self.proxied = f"127.0.0.1:{sasl}", f"127.0.0.1:{mutual}", f"127.0.0.1:{front}"
        self.brief = f"127.0.0.1:{brief}"
        listeners = {"PLAINTEXT": plain, "SASL_SSL": sasl, "SSL": mutual, "PROXIED": behind, "BRIEF": cut}
        self.broker = Broker(port=plain, extra=self._properties(listeners, {"PROXIED": front, "BRIEF": brief}, controller))
        self._controller = controller
        self.proxy, self.cutting = Proxy(front, behind), Proxy(brief, cut)
        self.admin: Any = None

    def _properties(self, listeners: dict[str, int], fronts: dict[str, int], controller: int) -> dict[str, str]:
        own = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
        shown = ",".join(f"{name}://127.0.0.1:{port}" for name, port in {**listeners, **fronts}.items())
        found = {
            "listeners": f"{own},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": shown,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,"
            "PROXIED:SASL_SSL,BRIEF:SASL_SSL",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:boss",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": _SCRAM,
            **by_password("proxied"),
            "listener.name.brief.scram-sha-512.sasl.jaas.config": _SCRAM,
            "listener.name.brief.scram-sha-512.connections.max.reauth.ms": str(SESSION),
            "listener.name.brief.oauthbearer.connections.max.reauth.ms": str(SESSION),
            "sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
            "sasl.oauthbearer.jwks.endpoint.url": self.issuer.keys.as_uri(),
            "sasl.oauthbearer.expected.issuer": Issuer.NAME,
            "sasl.oauthbearer.expected.audience": Issuer.AUDIENCE,
            "listener.name.ssl.ssl.client.auth": "required",
        }
        for listener in ("sasl_ssl", "brief"):
            name = f"listener.name.{listener}.oauthbearer.sasl"
            found[f"{name}.jaas.config"] = f"{_OAUTH}LoginModule required;"
            found[f"{name}.server.callback.handler.class"] = f"{_OAUTH}ValidatorCallbackHandler"
        for listener in ("sasl_ssl", "ssl", "proxied", "brief"):
            found |= certified(listener, self.folder / "broker.pem", self.ca)
        return found

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def user(self, name: str, password: str) -> None:
        """Make a SCRAM user, or give it another password; waits until it counts."""
        set_password(self.admin, name, password)

    def allow(self, bindings: Iterable[AclBinding]) -> None:
        """Grant these, and wait until they are in force."""
        bindings = list(bindings)
        for answer in self.admin.create_acls(bindings).values():
            answer.result(ANSWER)
        self.wait_for(bindings)

    def wait_for(self, bindings: Iterable[AclBinding]) -> None:
        """Until these are in force: a controller answers before the broker applies them."""
        wanted = set(bindings)
        until(lambda: wanted <= self.granted(), "the ACLs in force", every=0.02)

    def forbid(self, bindings: Iterable[AclBinding]) -> None:
        bindings = list(bindings)
        filters = [
            AclBindingFilter(b.restype, b.name, b.resource_pattern_type, b.principal, b.host, b.operation, b.permission_type)
            for b in bindings
        ]
        for answer in self.admin.delete_acls(filters).values():
            answer.result(ANSWER)
        until(lambda: not set(bindings) & self.granted(), "the ACLs gone")

    def granted(self) -> set[AclBinding]:
        return set(self.admin.describe_acls(ANYTHING).result(ANSWER))

    @contextmanager
    def without(self, bindings: Iterable[AclBinding]) -> Iterator[None]:
        """These rights are taken away for a while."""
        bindings = list(bindings)
        self.forbid(bindings)
        try:
            yield
        finally:
            self.allow(bindings)

    def __enter__(self) -> "Secured":
        before = os.environ.get("JAVA_TOOL_OPTIONS")
        os.environ["JAVA_TOOL_OPTIONS"] = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.keys.as_uri()}"
        try:
            self._start()
        finally:
            del os.environ["JAVA_TOOL_OPTIONS"]
            if before is not None:
                os.environ["JAVA_TOOL_OPTIONS"] = before
        self.proxy.start()
        self.cutting.start()
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self

    def _start(self) -> None:
        """A machine with much else to do may need more than one attempt."""
        for attempt in range(3):
            self.broker._controller = self._controller  # the ports are in its properties
            try:
                self.broker.start()
                return
            except SetupError:
                if attempt == 2:
                    raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.proxy.stop()
        self.cutting.stop()
        self.broker.stop()


def certified(listener: str, keys: Path, ca: Authority) -> dict[str, str]:
    """Properties of a listener that shows this certificate, and knows others by their authority."""
    own = {
        "keystore.type": "PEM",
        "keystore.location": str(keys),
        "truststore.type": "PEM",
        "truststore.location": str(ca.file),
    }
    return {f"listener.name.{listener}.ssl.{name}": value for name, value in own.items()}


def by_password(listener: str) -> dict[str, str]:
    """Properties of a listener that asks for a user's password, by SCRAM."""
    return {
        f"listener.name.{listener}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"listener.name.{listener}.scram-sha-512.sasl.jaas.config": _SCRAM,
    }


def set_password(admin: AdminClient, name: str, password: str) -> None:
    """Make a SCRAM user, or give it another password."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    one = UserScramCredentialUpsertion(name, info, password.encode(), os.urandom(12))
    for answer in admin.alter_user_scram_credentials([one]).values():
        answer.result(ANSWER)


def _ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)
