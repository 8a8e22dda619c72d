"""Dead letters: any record becomes one and comes back as it was; any headers are a letter or none."""

from random import Random

from streamjobs.core.messages import ATTEMPT, LETTER_HEADERS, Stored, dead_letter
from streamjobs.errors import REASONS, RecordError
from streamjobs.maintenance.copies import printable
from streamjobs.maintenance.redrive import REDRIVEN, letter_ids, original_headers, parse_letter, redriven
from tests.fuzz.bytes import EDGES, bent
from tests.fuzz.case import Case, Family, must
from tests.fuzz.jobs import record

NUMBERS = (
    b"",
    b"0",
    b"-1",
    b"9" * 5000,
    b"1_0",
    b" 7 ",
    b"\xff",
    "٣".encode(),
    b"+4",
    b"1e3",
    *(b"%d" % one for one in EDGES),
)


class Letters(Family):
    name = "letter"

    def draw(self, rnd: Random) -> Case:
        headers: list[tuple[str, bytes | None]] = []
        if rnd.random() < 0.7:
            headers = [(name, rnd.choice((*NUMBERS, b"imu", None))) for name in LETTER_HEADERS]
        for _ in range(rnd.choice((0, 1, 2, 5))):
            name = rnd.choice((*LETTER_HEADERS, ATTEMPT, REDRIVEN, "trace", "", "é" * 50))
            headers.insert(rnd.randrange(len(headers) + 1), (name, rnd.choice((*NUMBERS, None, rnd.randbytes(5)))))
        if headers and rnd.random() < 0.3:
            at = rnd.randrange(len(headers))
            headers[at] = headers[at][0], bent(headers[at][1] or b"0", rnd)
        key = rnd.choice((None, b"", b"p0", rnd.randbytes(6), b"\x1b[2J"))
        return Case(0, rnd.randbytes(rnd.choice((0, 1, 9))), (tuple(headers), key))

    def attempt(self, case: Case) -> str:
        headers, key = case.around
        came = record(case.data, 7, headers, key)
        found = parse_letter(came)
        if found is not None:
            printable(found.record.key).encode()
            again = redriven(found, "imu.dlq")
            must(letter_ids([again]) == {b"imu.dlq-0-7"}, "who sent it back is not told")
            original_headers(found)
        sent = dead_letter(came, RecordError(REASONS[len(case.data) % len(REASONS)], "no"))
        lies = parse_letter(Stored("imu.dlq", came.partition, 3, sent.timestamp, sent.key, sent.value, tuple(sent.headers)))
        if lies is None:
            raise AssertionError("a dead letter is none")
        must(original_headers(lies) == [(name, text or b"") for name, text in headers], "other headers came back")
        must((lies.record.key, lies.record.value) == (key, case.data), "another record came back")
        must(lies.source == (came.topic, came.partition, came.offset), "another place came back")
        return "decoded" if found is not None else "no letter"
