"""[registry]: the schema registry that schemas of values are read from, and how it is reached."""

from typing import ClassVar

from pydantic import Field

from streamjobs.settings.types import Seconds, Secret, Section, secret


class RegistrySection(Section):
    section: ClassVar[str] = "registry"

    url: str = Field(
        description="address of a registry with Confluent's API, such as https://registry:8081; of Apicurio with its path, "
        "/apis/ccompat/v7"
    )
    timeout: Seconds = Field(
        default=10.0, gt=0, description="longest time an answer may take before the next attempt (duration, or seconds)"
    )
    ca_file: str | None = Field(
        default=None, description="certificates (PEM) of the authorities that sign the registry's; absent: this machine's"
    )
    certificate_file: str | None = Field(default=None, description="client certificate (PEM) of the worker")
    key_file: str | None = Field(default=None, description="private key (PEM) of certificate_file; absent: in the same file")
    key_password: Secret | None = secret("password of an encrypted key_file")
    key_password_file: str | None = Field(default=None, description="file with key_password")
    username: str | None = Field(default=None, min_length=1, description="username, such as an API key")
    password: Secret | None = secret("password of the username, such as the API key's secret")
    password_file: str | None = Field(default=None, description="file with password, read at every attempt")
    token: Secret | None = secret("bearer token, in place of username and password")
    token_file: str | None = Field(default=None, description="file with token, read at every attempt")
