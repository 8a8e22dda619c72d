"""An input deleted and made anew under its name: noticed, refused, and then gone on with, models as they were."""

from functools import partial
from typing import Any

from streamjobs.core.advance import advance
from streamjobs.core.state.live import Live
from streamjobs.kafka import topics
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import unplaced
from tests.brokers.bed import PARTITIONS, Bed, until
from tests.brokers.fixtures import LEARNING, MakeBed
from tests.brokers.load import samples
from tests.brokers.nursery import Nursery
from tests.brokers.workers import Worker, done_by, ended
from tests.cli.jobs import command


def make_anew(bed: Bed) -> None:
    (deleted,) = bed.admin.delete_topics([bed.input]).values()
    deleted.result(10)
    until(lambda: bed.input not in bed.admin.list_topics(timeout=10).topics, f"{bed.input} gone")
    topics.create(bed.settings, partitions=PARTITIONS, job_sinks=bed.job.sinks)


def gone_on(bed: Bed, before: dict[tuple[int, bytes], bytes]) -> tuple[dict[tuple[int, bytes], bytes], int]:
    """States after the present input, from those before without their place; and how many predictions were made."""
    kept: Any = {place: unplaced(Entry(*place, data, 0, 0)) for place, data in before.items()}
    records, made, predictions = bed.inputs(), {}, 0
    for number in range(PARTITIONS):
        live = Live(bed.job, partial(lambda number, key: kept.get((number, key)), number))
        outputs, _ = advance(bed.job, live, [record for record in records if record.partition == number])
        predictions += sum(output.sink == "predictions" for output in outputs)
        made |= {(number, key): data for key, data in live.snapshots()}
    return kept | made, predictions


def test_a_remade_input_is_refused_until_the_states_are_told_to_go_on_with_it(make_bed: MakeBed, nursery: Nursery) -> None:
    bed = make_bed("remade", **LEARNING)
    bed.produce(samples(400, keys=40))
    done_by(bed, nursery=nursery)
    before, answered = bed.snapshots(), len(bed.sink("predictions"))
    assert command("state", "forget-offsets", bed.path) == 2  # it is still the same topic

    make_anew(bed)
    bed.produce(samples(200, keys=20, seed=2))
    code, lines = ended(Worker(bed, nursery=nursery))
    assert code == 3 and len(lines) == 1 and "made anew" in lines[0] and "state forget-offsets" in lines[0]
    code, lines = ended(Worker(bed, "with-no-disk", nursery=nursery))
    assert code == 3 and "made anew" in lines[0]
    assert bed.snapshots() == before and len(bed.sink("predictions")) == answered

    assert command("state", "forget-offsets", bed.path) == 0
    done_by(bed, nursery=nursery)
    states, predictions = gone_on(bed, before)
    assert bed.snapshots() == states and bed.committed() == bed.ends()
    assert len(bed.sink("predictions")) == answered + predictions > answered
