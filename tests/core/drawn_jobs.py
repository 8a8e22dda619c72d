"""Tables of jobs drawn from all sections, with fields of numbers; the settings may refuse them."""

import dataclasses
import random
from typing import Any

from algorithms import LEARNERS

EXTRACTORS = ("okfeb", "ald", "scaling", "pros_n_kons", "coherence", "stream_greedy")
PREDICTORS = ("rls", "exrls", "krls", "qklms", "kogd", "fogd", "forgetron", "gated_rls")


def drawn(rng: random.Random) -> dict[str, Any]:
    """A job's table, which the settings may refuse."""
    dim, pick = rng.choice((1, 2, 3, 6)), rng.choice
    source: dict[str, Any] = {"topic": "in", "fields": [f"f{i}" for i in range(dim)], "time": "ts", "label": "y"}
    for name, values in (
        ("missing", ("skip", "hold", "mean")),
        ("late", ("predict_only", "drop", "dlq")),
        ("lateness", ("500ms", "3s")),
        ("duplicates", ("learn",)),
    ):
        if rng.random() < 0.4:
            source[name] = pick(values)
    table: dict[str, Any] = {"source": source, "state": {"replay": "0s"}}
    if windowed := rng.random() < 0.3:
        table["window"] = {"length": "2s", "hop": "1s", "rate": 10.0, "statistics": pick(("simple", "rich", "gravity"))}
    if rng.random() < 0.3:
        table["scaling"] = {"unit_norm": pick((True, False)), "clip": pick((0, 3.0))}
    task, predicts = pick(("classification", "regression")), rng.random() < 0.5
    name = pick(PREDICTORS if predicts else EXTRACTORS)
    budget = {"budget": 8} if hasattr(LEARNERS[name], "budget") else {}
    table["learner"] = {"name": name, **budget, **({"task": task} if predicts else {})}
    if not predicts:
        table["head"] = {"name": pick(("rls", "exrls")), "task": task}
        table["sinks"] = {"features": "features"}
    if rng.random() < 0.3:
        table["labels"] = {pick(("wait", "delay")): pick(("2s", "30s"))}
    if rng.random() < 0.7:
        watch = pick(("ls_error", "columns", "innovations", "rows", ["columns", "innovations", "rows"]))
        table["drift"] = {"watch": watch, "false_alarms": "1 per 500 rows", "idle": pick((0, 3, 10))}
    if rng.random() < 0.5:
        table["forecast"] = {"ahead": [1, 3], "season": pick((0, 7)), "cautious": pick((True, False))}
        if rng.random() < 0.3:
            table["forecast"] |= {"learner": "rls", "lags": 3}
        if not windowed and rng.random() < 0.5:
            table["forecast"]["every"] = "100ms"
    if rng.random() < 0.5:
        table["alarms"] = {"stuck": True, **pick(({}, {"silent": "20s"}, {"silent": "20s", "group": 0.3}))}
    if task == "classification" and rng.random() < 0.4:
        table["bouts"] = {"shortest": "5s"}
    if "silent" not in table.get("alarms", {}) and rng.random() < 0.3:
        table["state"]["ttl"] = "60s"
    if "lateness" not in source and random.Random(repr(table)).random() < 0.2:  # the draws of a seed stay
        source["counters"] = ["f0"]
    return table


KINDS = {name: LEARNERS[name].kind for name in LEARNERS}  # a property of those whose kind follows from their settings
ANY_EXTRACTOR = [name for name, kind in KINDS.items() if kind == "features" or not isinstance(kind, str)]
ANY_PREDICTOR = [name for name, kind in KINDS.items() if kind not in ("features", "drift")]
SETTINGS: dict[str, tuple[Any, ...]] = {  # of learners, where they have them
    "rank": (1, 2, 5),
    "forgetting": (0.9, 0.999),
    "kernel": ({"name": "linear"}, {"name": "polynomial"}, {"bandwidth": 0.1}, {"bandwidth": 10.0}, {"name": "laplacian"}),
    "regress": ("features", "nystrom", "labels"),
}
DETECTORS = ("adwin", "page_hinkley", "window_ratio", "conformal", "glr_chart")
FORECASTERS = ("krls", "klms", "norma", "kogd", "qklms", "exrls", "lms", "nlms")


def widened(rng: random.Random) -> dict[str, Any]:
    """The same with every learner and kernel, categories, references, other detectors, and keys that are expected."""
    table, pick = drawn(rng), rng.choice
    source, head = table["source"], table.get("head")
    task = (head or table["learner"])["task"]
    if rng.random() < 0.7:
        name = pick(ANY_EXTRACTOR if head else ANY_PREDICTOR)
        known = {field.name for field in dataclasses.fields(LEARNERS[name])}
        stated = {setting: pick(values) for setting, values in SETTINGS.items() if setting in known and rng.random() < 0.4}
        budget = {"budget": pick((2, 8, 30))} if "budget" in known else {}
        table["learner"] = {"name": name, **budget, **stated, **({} if head else {"task": task})}
    predicts = head or table["learner"]
    if task == "classification":
        predicts |= pick(({}, {"smooth": 0.7}, {"classes": ["a", "b"]}, {"max_classes": 2}))
        table.setdefault("sinks", {})["scores"] = pick((True, False))
    else:
        predicts |= pick(({}, {"clip_target": 1.0}))
    if rng.random() < 0.3 and len(source["fields"]) > 1:
        source["categories"] = {source["fields"][-1]: ["a", "b", True]}
        source |= {"unseen": pick(("dlq", "other", "missing")), "categories_as": pick(("one_hot", "codes"))}
    source |= pick(({}, {"max_abs": 10.0}, {"numbers": "lenient"}, {"max_samples": 2}))
    if rng.random() < 0.7:
        watch = pick(("ls_error", "loss", "columns", ["columns", "innovations", "rows"]))
        how: dict[str, Any] = pick(
            (
                {"false_alarms": "1 per 100 rows"},
                {"false_alarms": "1 per 100 rows", "reference": "first 50 rows", "relearn_after": "30 rows"},
                {"false_alarms": "6/h", "daily": True},
                {"detector": pick(DETECTORS)},
            )
        )
        table["drift"] = {"watch": watch, **how, "beside": pick(([], ["last_points"]))}
    if "daily" in table.get("drift", {}):
        source["time_zone"] = "Europe/Berlin"
        table["drift"] |= pick(({}, {"week": "aaaabbc"}))
        table["drift"] |= pick(({}, {"slopes": {source["fields"][0]: pick((3.0, "1h"))}}))
        table["drift"] |= pick(({}, {"each": True}))
    if "silent" in table.get("alarms", {}):
        table["alarms"]["expected"] = pick(([], ["k0", "k9"]))
    if "forecast" in table and rng.random() < 0.3:
        table["forecast"] |= {"learner": pick(FORECASTERS), "lags": pick((1, 5))}
    return table
