"""What a broker must hold after a job on the hash core, whatever happened to its worker."""

import itertools

from tests.worker.fake_core import STATE, fold


def sequential(records):
    """States and answers of an uninterrupted run."""
    states, answers = {}, {}
    for record in records:
        state = states.setdefault(record.key, [-1, 0, 0])
        answers[b"in-%d-%d" % (record.partition, record.offset)] = (record.key, fold(state, int(record.value)))
        state[0] = record.offset
    return states, answers


def check(broker, records):
    """Nothing is missing, repeats are identical, each key's first answers are in order, the final states are right."""
    states, answers = sequential(records)
    seen, order = {}, {}
    for answer in broker.topics:
        name = dict(answer.headers)["streamjobs-id"]
        assert (answer.key, answer.value) == answers[name]
        if name not in seen:
            seen[name] = answer
            order.setdefault(answer.key, []).append(int(answer.value.split(b",")[0]))
    assert seen.keys() == answers.keys()
    assert all(numbers == sorted(numbers) for numbers in order.values())
    last = dict(itertools.chain.from_iterable(broker.changelog.values()))
    assert {key: list(STATE.unpack_from(data))[1:] for key, data in last.items()} == states
