"""A short part of `python -m tests.fuzz`: 24,460 inputs, the same ones in every run; and the suite notices what it must."""

import re
import time
import warnings
from typing import Any

import pytest

from streamjobs.stages.learner import LearnerStage
from tests.fuzz import execution
from tests.fuzz.__main__ import main
from tests.fuzz.bytes import smallest
from tests.fuzz.case import Case, Family, chance
from tests.fuzz.execution import Tally, draw_input, run_input
from tests.fuzz.families import FAMILIES
from tests.fuzz.guided import SEALED, bytes_of, case_of
from tests.fuzz.states import sealed

INPUTS = {
    "json": 4500,
    "msgpack": 4500,
    "raw": 3500,
    "sensors": 1000,
    "gzip": 800,
    "cloudevents": 1000,
    "avro": 1000,
    "protobuf": 1000,
    "letter": 2500,
    "job": 1500,
    "snapshot": 700,
    "start": 600,
    "copy": 600,
    "population": 600,
    "csv": 150,
    "jsonl": 150,
    "objects": 100,
    "parquet": 80,
    "npz": 120,
    "exports": 60,
}
GOOD = 0.03  # of the inputs at least are read: else nothing behind the first check has been tried


def test_every_family_has_its_share():
    assert set(INPUTS) == set(FAMILIES) and sum(INPUTS.values()) == 24_460


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_but_declared_errors_comes_of_hostile_bytes(name: str):
    family, tally = FAMILIES[name](), Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for index in range(INPUTS[name]):
            run_input(family, 7, index, tally, minimise=False)
    assert not tally.found, [(one.what, one.index) for one in tally.found.values()]
    assert sum(count for outcome, count in tally.outcomes.items() if outcome.startswith("decoded")) > GOOD * INPUTS[name]


class Planted(Family):
    """A decoder with a bug of each kind, which one byte chooses."""

    name = "planted"

    def draw(self, rnd):
        return Case(0, bytes(rnd.randrange(6) for _ in range(8)))

    def attempt(self, case: Case) -> str:
        if case.data[:1] == b"\x01":
            raise RecursionError
        if b"\x02\x03" in case.data:
            raise UnicodeDecodeError("utf-8", b"", 0, 1, "planted")
        if case.data[:1] == b"\x04":
            bytearray(100 << 20)
        if case.data[:2] == b"\x05\x05":
            begun = time.process_time()
            while time.process_time() < begun + 0.15:
                pass
        return "decoded"


def test_the_suite_notices_other_errors_memory_and_time_and_makes_inputs_small(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execution, "MOST_SECONDS", 0.1)
    tally = Tally()
    for index in range(0, 16 * 80, 16):  # those whose memory is measured
        run_input(Planted(), 1, index, tally)
    kinds = sorted(tally.found)
    assert [kind.split(" in ")[0] for kind in kinds] == [
        "RecursionError",
        "UnicodeDecodeError",
        "memory far beyond what was received",
        "more than 0.1 s",
    ]
    assert tally.found[kinds[0]].case.data == b"\x01"
    assert tally.found[kinds[1]].case.data == b"\x02\x03"


def test_a_learner_that_raises_is_found_though_its_record_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch):
    family, real = FAMILIES["json"](), LearnerStage.advance

    def raises(self: LearnerStage, *arguments: Any) -> Any:
        made = real(self, *arguments)
        if self.predicts:
            raise IndexError
        return made

    monkeypatch.setattr(LearnerStage, "advance", raises)
    tally = Tally()
    for index in range(400):
        run_input(family, 1, index, tally)
    assert tally.found and all(kind.startswith("Finding in ") for kind in tally.found)


def test_the_command_tells_how_many_inputs_there_were_and_what_came_of_them(capfd, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["fuzz", "letter", "--inputs", "40", "--no-bounds", "--seed", "3"])
    assert main() == 0
    printed = capfd.readouterr().out
    assert re.search(r"letter +│ 40 +│ +\d+ (decoded|no letter) ", printed) and "nothing but declared errors" in printed
    assert "seed 3" in printed


@pytest.mark.parametrize("name", ["json", "copy"])
def test_what_coverage_guides_begins_with_drawn_inputs(name: str):
    family, ends, same = FAMILIES[name](), name in SEALED, 0
    cases = [draw_input(family, 7, number) for number in range(12)]
    for number, case in enumerate(cases):
        back = case_of(bytes_of(number, case, sealed=ends), cases, sealed=ends)
        assert (back.which, back.around) == (case.which, case.around)
        if not ends or case.data == sealed(case.data[:-4]):  # else its checksum was bent, and fits now
            assert back == case
            same += 1
    assert same > 6


def test_an_input_can_be_drawn_again_by_its_number():
    family = FAMILIES["json"]()
    first = draw_input(family, 7, 12)
    draw_input(family, 7, 13)
    assert draw_input(family, 7, 12) == first != draw_input(family, 8, 12)


def test_of_states_with_a_checksum_too_some_have_more_done_to_them():
    assert {chance(sealed(bytes([n]))) % 8 for n in range(200)} == set(range(8))


def test_an_input_is_made_as_small_as_what_is_wrong_with_it():
    assert smallest(b"abc<x>def", lambda data: b"<" in data and b">" in data) == b"<>"
