"""Tables of jobs drawn from all sections, with fields of numbers; the settings may refuse them."""

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
    return table
