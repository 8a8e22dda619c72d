"""[broker]: where it is, and how a worker proves who it is. Secrets come from the environment or from files."""

from typing import Literal

from pydantic import Field

from streamjobs.settings.types import Seconds, Secret, Section, secret


class BrokerSection(Section):
    url: str = Field(default="kafka://localhost:9092", description="kafka://host:port[,host:port]")
    session_timeout: Seconds = Field(
        default=10.0, description="a worker unheard of for this long loses its partitions (duration, or seconds)"
    )
    instance_id: str | None = Field(default=None, description="static membership: a restart keeps its partitions")
    protocol: Literal["plaintext", "ssl", "sasl_ssl", "sasl_plaintext"] | None = Field(
        default=None,
        description="absent: sasl_ssl with a username or token, ssl with ca_file or certificate_file, else plaintext; "
        "sasl_plaintext is refused",
    )
    ca_file: str | None = Field(
        default=None, description="certificates (PEM) of those who vouch for the broker's; absent: this machine's"
    )
    certificate_file: str | None = Field(default=None, description="certificate (PEM) this worker shows the broker")
    key_file: str | None = Field(default=None, description="its private key (PEM); absent: in certificate_file")
    key_password: Secret | None = secret("of an encrypted key_file")
    key_password_file: str | None = Field(default=None, description="a file that holds key_password")
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"] | None = Field(
        default=None, description="how this worker says who it is; absent: SCRAM-SHA-512 with a username, else OAUTHBEARER"
    )
    username: str | None = Field(default=None, min_length=1, description="of SCRAM and PLAIN")
    password: Secret | None = secret("of the username")
    password_file: str | None = Field(default=None, description="a file that holds password, read at every connection")
    token: Secret | None = secret("of OAUTHBEARER")
    token_file: str | None = Field(default=None, description="a file that holds token, read at every connection")
    token_url: str | None = Field(default=None, description="https address that gives tokens for client_id and its secret")
    client_id: str | None = Field(default=None, min_length=1, description="known to token_url")
    client_secret: Secret | None = secret("of client_id")
    client_secret_file: str | None = Field(default=None, description="a file that holds client_secret")
    scope: str | None = Field(default=None, description="asked of token_url")

    @property
    def sasl(self) -> str | None:
        """The mechanism in use."""
        if self.mechanism is not None or (self.protocol or "sasl_ssl") != "sasl_ssl":
            return self.mechanism
        if self.username is not None:
            return "SCRAM-SHA-512"
        return "OAUTHBEARER" if any((self.token, self.token_file, self.token_url)) else None

    @property
    def reached(self) -> str:
        """The protocol in use."""
        if self.protocol is not None:
            return self.protocol
        if self.sasl is not None:
            return "sasl_ssl"
        return "ssl" if self.ca_file or self.certificate_file else "plaintext"
