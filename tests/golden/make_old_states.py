"""States as an earlier commit of this project stored them, in `tests/golden/states-COMMIT.zip`. Made by

    mkdir /tmp/old && git archive COMMIT | tar -x -C /tmp/old
    python tests/golden/make_old_states.py /tmp/old tests/golden/states-COMMIT.zip

with the packages of requirements.lock. Of each job: its settings, the population it stands on, the records of three keys,
every key's snapshot after the first half of them and at their end.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

N = 240  # records of a job; their numbers are cut to 3 decimals, which keeps the file small


def jobs(old: Any) -> dict[str, tuple[Any, bytes | None, list[Any]]]:
    """Settings, population and records by name, made with the old commit's own helpers."""
    from tests.core import streams

    made = [one._replace(value=_short(one.value)) for one in streams.samples(N)]
    if (old / "algorithms/forecast/filters.py").exists():
        return _forecasts(streams.settings, made)
    numbers = [one._replace(value=one.value.replace(b'"run"', b"1.5").replace(b'"sit"', b"-0.5")) for one in made]
    krls = {"learner": {"name": "krls", "budget": 8}, "window": None, "head": None, "drift": None}
    jobs_by_name: dict[str, tuple[Any, bytes | None, list[Any]]] = {
        "activity": (streams.settings(), None, made),
        "okfeb": (streams.settings(drift=None, window=None), None, made),
    }
    if (old / "tests/core/people.py").exists():
        from streamjobs.core.state.population import encode
        from tests.core.people import late_labels, of_people, population_of

        people = of_people(labels={"wait": "30s"})
        jobs_by_name["people"] = people, encode(population_of(people)), late_labels(made)
        krls["learner"] |= {"task": "regression"}
        jobs_by_name["numbers"] = streams.settings(**krls), None, numbers
    return jobs_by_name


def _forecasts(settings: Any, made: list[Any]) -> dict[str, tuple[Any, bytes | None, list[Any]]]:
    """By the experts and by a learner; earlier archives have the rest. Rows are missing in the middle."""
    plain = {"window": None, "drift": None, "head": None, "learner": {"name": "scaling"}, "sinks": {}}
    section = {"fields": ["ax"], "ahead": [1, 3], "every": "100ms", "season": 20}
    learner = {"name": "krls", "budget": 8}
    by = {"forecasts": section, "forecasts-of-krls": section | {"learner": learner, "inputs": ["ax", "az"], "lags": 3}}
    kept = [*made[: N // 2 - 30], *made[N // 2 :]]
    records = [one._replace(offset=offset) for offset, one in enumerate(kept)]
    return {name: (settings(forecast=one, **plain), None, records) for name, one in by.items()}


def _short(value: bytes) -> bytes:
    body = json.loads(value)
    return json.dumps({name: round(one, 3) if isinstance(one, float) else one for name, one in body.items()}).encode()


def main(old: Path, target: Path) -> None:
    sys.path[:] = [str(old), *(one for one in sys.path if not one.endswith("golden"))]
    from streamjobs.core.advance import advance
    from streamjobs.core.job import Job
    from streamjobs.core.live.live import Live

    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def put(name: str, data: bytes | str) -> None:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)

        for name, (settings, population, records) in jobs(old).items():
            topic = f"golden.{name}"
            records = [one._replace(topic=topic) for one in records]
            table = settings.model_dump(mode="json", exclude_unset=True)
            table["source"]["topic"] = topic
            settings = type(settings)(**table)
            put(f"{name}/job.json", json.dumps(table))
            if population is not None:
                put(f"{name}/population.state", population)
            lines = [json.dumps([one.key.decode(), one.timestamp, one.value.decode()]) for one in records]
            put(f"{name}/records.jsonl", "\n".join(lines))
            job = Job.from_settings(settings, population=population) if population else Job.from_settings(settings)
            live, half = Live(job, lambda key: None), len(records) // 2
            for part, some in (("half", records[:half]), ("end", records[half:])):
                advance(job, live, some)
                for key, data in live.snapshots():
                    put(f"{name}/{part}/{key.decode()}", data)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
