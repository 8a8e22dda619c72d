"""`init --sample` on labelled recordings of several people: a job with a population, and the command that learns it."""

import re
import shlex
from collections import Counter

import numpy as np
import pytest

from streamjobs.commands.check import SAMPLED
from streamjobs.job_files import read_table
from streamjobs.recordings.survey import MOST_UNSTATED, doubtful
from tests.commands.jobs import command
from tests.fit.people import as_csv, rows


def test_two_commands_lead_from_five_people_to_a_population_and_a_third_uses_it(tmp_path, printed, capsys):
    recordings = as_csv(tmp_path / "people.csv", list(rows(people=5)))
    found = printed(recordings)
    table = read_table(found.file)
    assert table["population"] == {"file": "population.state", "directions": 200} and table["learner"]["name"] == "rls"
    assert table["window"]["statistics"] == "rich+gravity" and table["window"]["convolutions"] == 200
    assert "drift" not in table
    _, _, fit = found.out.strip().rpartition("Next: streamjobs ")
    assert fit == f"fit {found.file} --input {recordings} --key person"
    capsys.readouterr()
    assert command("check", found.file) == 2
    assert f"'streamjobs fit {found.file} --input RECORDINGS' writes one" in capsys.readouterr().err
    found.file.write_text(found.file.read_text().replace("# reject", "reject"))
    assert command(*shlex.split(fit)) == 0
    said = capsys.readouterr().out
    assert "A new person: " in said and "[head] reject = 0.05" in said
    assert (tmp_path / "population.state").exists()
    assert command("replay", found.file, "--input", recordings, "--key", "person") == 0


def test_a_file_sorted_by_activity_is_named_as_out_of_order(tmp_path, printed):
    """Because `fit` would leave out all but the first activities of each person."""
    made = sorted(rows(people=5), key=lambda row: row["activity"])
    said = "of 12,000 rows are older than a row of their key before them"
    assert printed(as_csv(tmp_path / "sorted.csv", made)).says(said)
    (tmp_path / "job.toml").unlink()
    assert not printed(as_csv(tmp_path / "people.csv", list(rows(people=5)))).says(said)


def test_the_time_may_be_chosen(tmp_path, capsys):
    made = [row | {"start": row["ts"] - 3600} for row in rows(people=5)]
    job = tmp_path / "job.toml"
    assert command("init", job, "--sample", as_csv(tmp_path / "people.csv", made), "--time", "start") == 0
    assert read_table(job)["source"]["time"] == "start"
    capsys.readouterr()


def test_a_label_of_two_words_is_found_and_its_code_is_not_used(tmp_path, printed):
    made = [{**row, "Activity Label": row["activity"], "activity_id": len(row["activity"])} for row in rows(people=5)]
    made = [{name: value for name, value in row.items() if name != "activity"} for row in made]
    assert printed(as_csv(tmp_path / "people.csv", made)).source["label"] == "Activity Label"


def test_samples_need_times_for_windows_and_the_number_of_the_row_may_make_them(tmp_path, printed):
    made = [{name: value for name, value in row.items() if name != "ts"} for row in rows(people=5)]
    assert printed(as_csv(tmp_path / "people.csv", made)).says("If they are samples of a sensor, add one")
    (tmp_path / "job.toml").unlink()
    timed = [{**row, "t": number / 20} for number, row in enumerate(made)]
    table = read_table(printed(as_csv(tmp_path / "timed.csv", timed)).file)
    assert table["window"]["rate"] == 20 and "population" in table


def test_windows_with_too_few_samples_for_convolutions_get_none(tmp_path, printed):
    table = read_table(printed(as_csv(tmp_path / "slow.csv", list(rows(people=5))[::2])).file)
    assert table["window"]["rate"] == 5 and "convolutions" not in table["window"]
    assert table["population"] == {"file": "population.state"}


@pytest.mark.parametrize("people", [2, 3])
def test_three_people_or_more_get_a_job_with_a_population(tmp_path, printed, people):
    found = printed(as_csv(tmp_path / "people.csv", list(rows(people=people))))
    assert ("population" in read_table(found.file)) == ("streamjobs fit" in found.out) == (people == 3)
    assert ("streamjobs replay" in found.out) == (people == 2)


def test_people_with_one_activity_get_a_job_without_a_population(tmp_path, printed):
    """Because `fit` refuses it."""
    found = printed(as_csv(tmp_path / "people.csv", [row for row in rows(people=5) if row["activity"] == "sit"]))
    assert "population" not in read_table(found.file)


@pytest.mark.slow
def test_more_activities_than_fit_reads_by_itself_are_stated_by_init(tmp_path, printed):
    made = []
    for row in rows(people=5):
        number = int((row["ts"] - 1_700_000_000.0) // 3)
        made.append(row | {"activity": f"a{number}", "ax": row["ax"] + number})
    found = printed(as_csv(tmp_path / "people.csv", made))
    classes = len({row["activity"] for row in made})
    assert classes > MOST_UNSTATED and read_table(found.file)["learner"]["max_classes"] > classes
    assert command("fit", found.file, "--input", tmp_path / "people.csv", "--key", "person", "--no-report") == 0


def test_a_label_of_one_person_that_is_written_nearly_as_another_is_named(tmp_path, printed, capsys):
    made = [row | {"activity": "walkk"} if (row["person"], row["recording"]) == ("p9", 1) else row for row in rows(people=5)]
    found = printed(as_csv(tmp_path / "people.csv", made))
    assert command("fit", found.file, "--input", tmp_path / "people.csv", "--no-report") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "only one person does 'walkk': it cannot be recognised in others from these recordings." in said
    assert "the label 'walkk' (" in said and "is spelled nearly as 'walk' (" in said


def test_classes_and_people_are_counted_in_the_whole_file(tmp_path, printed):
    made = [{"person": "p1", "ts": 1_700_000_000.0 + i, "heart": 60.0 + i % 7, "activity": "sit"} for i in range(2100)]
    for i, row in enumerate(made[2050:]):
        row["activity"], row["person"] = f"a{i % 20}", f"p{i % 3}"
    found = printed(as_csv(tmp_path / "late.csv", made))
    assert read_table(found.file)["head"]["max_classes"] == 21
    assert found.says("21 classes") and found.says("3 people with labels")


def test_a_column_of_unknown_name_that_may_have_people_leads_to_a_population(tmp_path, capsys):
    made = [{"team": f"team {row.pop('person')}", "did": row.pop("activity"), **row} for row in rows(people=4)]
    words = "init", tmp_path / "job.toml", "--sample", as_csv(tmp_path / "teams.csv", made), "--label", "did"
    assert command(*words) == 0 and "population" not in read_table(tmp_path / "job.toml")
    begin = "if 'team' names people, 4 have labels: 'streamjobs init' with the same options and "
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith(begin)]
    more = line.removeprefix(begin).partition(" writes")[0]
    assert command(*words, *shlex.split(more)) == 0 and "population" in read_table(tmp_path / "job.toml")


def test_labels_that_differ_in_case_or_spaces_only_are_named_by_init_and_by_fit(tmp_path, printed, capsys):
    made = list(rows(people=5))
    for row in made:
        if row["person"] == "p9":
            row["activity"] = {"walk": "Walk ", "run": "None"}.get(row["activity"], row["activity"])
    found = printed(as_csv(tmp_path / "people.csv", made))
    sentences = (
        "the labels 'Walk ', 'walk' differ only in case, spaces, '-' or '_', but are different classes; write them in one "
        "way.",
        "the label 'None' is a class like any other; with [source] no_label = [\"None\"] its rows have no label.",
    )
    assert all(found.says(one) for one in sentences)
    assert command("fit", found.file, "--input", tmp_path / "people.csv", "--no-report") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert all(one in said for one in sentences)


@pytest.mark.parametrize(
    ("labels", "alike"),
    [
        (["walk", "Walking ", "walks", "run"], ["'Walking ', 'walk', 'walks'"]),
        (["jog", "jogging", "fall", "falling", "press", "presses", "cycle", "cycling"], ["cycl", "fall", "jog", "press"]),
        (["walking", "king", "ring", "bus", "walk1", "walk2", "upstairs", "downstairs", "lie_to_sit", "sit_to_lie"], []),
    ],
)
def test_labels_that_differ_in_their_endings_are_named(labels, alike):
    said = list(doubtful(dict.fromkeys(labels, 9)))
    assert len(said) == len(alike) and all("differ only in their endings" in one for one in said)
    assert all(one in text for one, text in zip(alike, said, strict=True))
    twice = list(doubtful({"Walk": 9, "walk": 9, "walks": 1}))
    assert len(twice) == 2 and not any("spelled nearly" in one for one in twice)
    joined = list(doubtful(dict.fromkeys(["stairs_up", "stairs up", "Stairs-Up", "up 1", "up_1"], 9)))
    assert joined == [
        "the labels 'Stairs-Up', 'stairs up', 'stairs_up' differ only in case, spaces, '-' or '_', but are different "
        "classes; write them in one way."
    ]


def test_misspelt_labels_are_counted_and_named_by_init_fit_and_check(tmp_path, printed, capsys):
    made = [row | {"activity": "wlak"} if row["recording"] == 1 and row["person"] == "p9" else row for row in rows(people=5)]
    recordings = as_csv(tmp_path / "people.csv", made)

    def sentence(counts, what):
        return f"the label 'wlak' ({counts['wlak']:,} {what}) is spelled nearly as 'walk' ({counts['walk']:,}), but is a"

    def listed(counts):
        return ", ".join(f"{label} {count:,}" for label, count in counts.most_common())

    found, counts = printed(recordings), Counter(row["activity"] for row in made)
    assert found.says(f"rows of each label: {listed(counts)}") and found.says(sentence(counts, "rows"))
    capsys.readouterr()
    assert command("fit", found.file, "--input", recordings, "--no-report") == 0
    shown = capsys.readouterr()
    windows = {one[1]: int(one[2]) for one in re.finditer(r"(\w+) (\d+)(?:, |$)", shown.out, re.MULTILINE)}
    assert sentence(windows, "windows") in " ".join(shown.err.split())
    assert command("check", found.file, "--sample", recordings, "--key", "person") == 0
    shown, first = capsys.readouterr(), Counter(row["activity"] for row in made[:SAMPLED])
    assert sentence(first, "rows") in " ".join(shown.err.split()) and f"labels: {listed(first)}" in shown.out


def test_people_at_another_rate_are_named_by_init_and_their_samples_interpolated(tmp_path, printed, capsys):
    made = [row for i, row in enumerate(rows(people=5)) if row["person"] not in ("p11", "p12") or i % 2]
    found = printed(as_csv(tmp_path / "people.csv", made))
    assert found.says("keys have rates of their own: 'p10' a sample every 0.1 s, 'p12' every 0.2 s")
    assert command("fit", found.file, "--input", tmp_path / "people.csv", "--no-report") == 0
    shown = capsys.readouterr()
    assert "sparse" not in shown.err and "of 5 people in" in shown.out
    lines = found.file.read_text(encoding="utf-8").replace("fewest = 0.4", "fewest = 0.8")
    found.file.write_text(lines, encoding="utf-8")
    assert command("fit", found.file, "--input", tmp_path / "people.csv", "--no-report", "--force") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "windows are skipped as sparse: windows with too few samples" in said and "2 of 5 people gave no window" in said


def test_people_with_numbers_and_texts_for_names_are_keys(tmp_path, printed):
    names = {"p8": "8", "p9": "9b", "p10": "10", "p11": "ü 11", "p12": "12"}
    made = [row | {"person": names[row["person"]]} for row in rows(people=5)]
    found = printed(as_csv(tmp_path / "people.csv", sorted(made, key=lambda row: row["ts"])))
    assert "population" in read_table(found.file) and found.out.strip().endswith("--key person")


def test_trials_with_times_that_begin_anew_are_recordings_and_the_next_command_reads_them(tmp_path, printed, capsys):
    table = [row | {"trial": row["recording"], "ts": round(row["ts"] % 60, 3)} for row in rows(people=5)]
    trials = [{"time" if name == "ts" else name: row[name] for name in row if name != "recording"} for row in table]
    recordings = as_csv(tmp_path / "trials.csv", trials)
    found = printed(recordings)
    assert read_table(found.file)["source"]["fields"] == ["ax", "ay", "az"] and found.says("left out of x: trial")
    _, _, fit = found.out.strip().rpartition("Next: streamjobs ")
    assert command(*shlex.split(fit), "--shuffles", "1", "--folds", "2") == 0
    said = capsys.readouterr().out
    assert "in 30 recordings" in said
    line = next(line for line in said.splitlines() if line.startswith("Next"))
    assert line.endswith(f"fit {found.file} --input {recordings} --test RECORDINGS --key person --time time --force")


def features(path, apart, people=6, seed=3):
    """Rows of six features at three activities, one after the other, without times; apart: of people, in deviations."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(3, 6)) * 1.5
    lines = ["subject,f0,f1,f2,f3,f4,f5,activity"]
    for person in range(people):
        offset = random.normal(size=6) * apart
        for part in range(9):
            rows = centres[part % 3] + offset + random.normal(size=(25, 6))
            lines += [f"s{person},{','.join(f'{value:.4f}' for value in row)},a{part % 3}" for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_labelled_features_of_people_lead_to_a_population_without_windows(tmp_path, printed, capsys):
    recordings = features(tmp_path / "features.csv", apart=0.2)
    found = printed(recordings)
    table = read_table(found.file)
    assert "window" not in table and table["population"] == {"file": "population.state", "directions": 128}
    assert table["learner"]["name"] == "random_prototypes" and table["learner"]["input"] and table["head"]["filter"] == "hmm"
    assert table["drift"]["watch"] == "columns"  # as in a job without a population
    _, _, fit = found.out.strip().rpartition("Next: streamjobs ")
    assert fit == f"fit {found.file} --input {recordings} --key subject"
    assert command(*shlex.split(fit)) == 0
    assert "Advice: Run the job: it is right in" in capsys.readouterr().out
    assert command("replay", found.file, "--input", recordings, "--key", "subject", "--score") == 0


def test_features_of_keys_that_differ_more_than_their_labels_give_each_key_a_model(tmp_path, printed):
    found = printed(features(tmp_path / "features.csv", apart=10.0))
    table = read_table(found.file)
    assert "population" not in table and "streamjobs replay" in found.out
    assert found.says("with what the other keys teach") and found.says("trying learners on the sample")
