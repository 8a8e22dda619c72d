"""[broker] and [registry]: addresses, TLS and credentials. Secrets come from the environment or from files."""

from typing import ClassVar, Literal

from pydantic import Field

from streamjobs.settings.types import Seconds, Secret, Section, optional, secret, setting


class BrokerSection(Section):
    section: ClassVar[str] = "broker"

    url: str = setting("kafka://localhost:9092", "bootstrap servers: kafka://host:port[,host:port]")
    session_timeout: Seconds = setting(
        10.0, "a worker without a heartbeat for this long loses its partitions (duration, or seconds)"
    )
    instance_id: str | None = optional("static group membership: a restarted worker with this id keeps its partitions")
    protocol: Literal["plaintext", "ssl", "sasl_ssl", "sasl_plaintext"] | None = optional(
        "absent: sasl_ssl with a username or token, ssl with ca_file or certificate_file, else plaintext; sasl_plaintext"
        " is refused"
    )
    ca_file: str | None = optional("CA certificates (PEM) for the broker; absent: those of this machine")
    certificate_file: str | None = optional("client certificate (PEM) of the worker")
    key_file: str | None = optional("private key (PEM) of certificate_file; absent: in the same file")
    key_password: Secret | None = secret("password of an encrypted key_file")
    key_password_file: str | None = optional("file with key_password")
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"] | None = optional(
        "SASL mechanism; absent: SCRAM-SHA-512 with a username, else OAUTHBEARER"
    )
    username: str | None = optional("username for SCRAM and PLAIN", min_length=1)
    password: Secret | None = secret("password of the username")
    password_file: str | None = optional("file with password, read at every connection")
    token: Secret | None = secret("token for OAUTHBEARER")
    token_file: str | None = optional("file with token, read at every connection")
    token_url: str | None = optional("https address that issues tokens for client_id and its secret")
    client_id: str | None = optional("client id sent to token_url", min_length=1)
    client_secret: Secret | None = secret("secret of client_id")
    client_secret_file: str | None = optional("file with client_secret")
    scope: str | None = optional("scope requested from token_url")

    @property
    def sasl(self) -> str | None:
        """The SASL mechanism in use; None without SASL."""
        if self.mechanism is not None or (self.protocol or "sasl_ssl") != "sasl_ssl":
            return self.mechanism
        if self.username is not None:
            return "SCRAM-SHA-512"
        return "OAUTHBEARER" if any((self.token, self.token_file, self.token_url)) else None

    @property
    def reached(self) -> str:
        """The security protocol in use."""
        if self.protocol is not None:
            return self.protocol
        if self.sasl is not None:
            return "sasl_ssl"
        return "ssl" if self.ca_file or self.certificate_file else "plaintext"


class RegistrySection(Section):
    section: ClassVar[str] = "registry"

    url: str = Field(
        description="address of a registry with Confluent's API, such as https://registry:8081; of Apicurio with its path, "
        "/apis/ccompat/v7"
    )
    timeout: Seconds = setting(10.0, "longest wait for an answer, before the next attempt (duration, or seconds)", gt=0)
    ca_file: str | None = optional("CA certificates (PEM) for the registry; absent: those of this machine")
    certificate_file: str | None = optional("client certificate (PEM) of the worker")
    key_file: str | None = optional("private key (PEM) of certificate_file; absent: in the same file")
    key_password: Secret | None = secret("password of an encrypted key_file")
    key_password_file: str | None = optional("file with key_password")
    username: str | None = optional("username, such as an API key", min_length=1)
    password: Secret | None = secret("password of the username, such as the API key's secret")
    password_file: str | None = optional("file with password, read at every attempt")
    token: Secret | None = secret("bearer token, in place of username and password")
    token_file: str | None = optional("file with token, read at every attempt")
