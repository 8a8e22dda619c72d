"""Missing rights are said before anything is consumed; a broker with an authorizer of its own."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from streamjobs.shell.broker import Broker
from tests.kafka.bed import Bed, until
from tests.kafka.test_worker_ending import HASH, ended
from tests.kafka.workers import Worker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",  # what a test denies is denied, and nothing else
}


@pytest.fixture(scope="module")
def guarded(broker: Broker) -> Iterator[Broker]:
    """Depends on `broker` for its skip without Java or Maven."""
    with Broker(extra=AUTHORIZER) as running:
        yield running


def deny(bed: Bed, kind: ResourceType, name: str, operation: AclOperation) -> None:
    binding = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, AclPermissionType.DENY)
    everything_else = AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.ALL, AclPermissionType.ALLOW
    )
    for answer in bed.admin.create_acls([binding, everything_else]).values():
        answer.result(10)
    wanted = AclBindingFilter(kind, name, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY)
    until(lambda: len(bed.admin.describe_acls(wanted).result(10)) == 2, "the ACLs in force")


def test_missing_rights_end_it_with_code_3_and_are_all_named(guarded: Broker, tmp_path) -> None:  # type: ignore[no-untyped-def]
    bed = Bed(guarded.bootstrap, tmp_path, "denied", source={"dim": 1}, head={"name": "rls"})
    deny(bed, ResourceType.TOPIC, f"{bed.input}.predictions", AclOperation.WRITE)
    deny(bed, ResourceType.TOPIC, bed.input, AclOperation.READ)
    deny(bed, ResourceType.GROUP, bed.name, AclOperation.READ)
    code, lines = ended(Worker(bed, program=HASH))
    text = "\n".join(lines)
    assert code == 3 and len(lines) == 3, lines
    assert f"topic {bed.input}.predictions (output): expected the right to Write" in text
    assert f"topic {bed.input} (input): expected the right to Read" in text
    assert f"group {bed.name}: expected the right to Read" in text
