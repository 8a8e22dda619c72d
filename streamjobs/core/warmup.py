"""Every compiled loop of a job, run once on a throwaway state, so that no record waits for the compiler."""

import numpy as np

from algorithms import Learner
from streamjobs.core.books import Books
from streamjobs.core.job import Job
from streamjobs.core.live import Live
from streamjobs.core.order import Order
from streamjobs.core.windows import Windows


def warm_up(job: Job) -> None:
    live = Live(job, lambda key: None)
    slot = np.array([live.slot(b"warm-up")])
    times, owner, learn = np.zeros(1), np.zeros(1, np.int64), np.full(1, 3, np.int8)
    X, L = np.zeros((1, job.dim)), np.full((1, job.label_width), np.nan)
    for name, stage in job.stages.items():
        work = live.work[name]
        if isinstance(stage, Order):
            stage.advance(work, slot, times, X, L, owner)
        elif isinstance(stage, Windows):
            stage.advance(work, slot, times, X, L, owner, learn)
        elif isinstance(stage, Books):
            stage.decide(work, slot, np.full((1, job.targets), np.nan), L[:, 0].copy(), learn)
            stage.number(work, slot)
        else:
            assert isinstance(stage, Learner)
            dim, targets = (1, 0) if name == "drift" else (job.width, job.targets if name == "learner" else 0)
            stage.advance(
                work, slot, np.zeros((1, dim)), np.full((1, targets), np.nan), stage.outputs(1, dim, targets), learn
            )
