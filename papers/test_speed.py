"""The SPEED family's figures in short: fewer trials than the scripts speed_*.py print, the bounds are the targets'."""

import numpy as np
import pytest

from papers import mackey_glass, speed_fig2, speed_fig3, speed_fig8
from papers.filters_common import NOVELTY, final_mse, made


def test_fig_2_few_eigenfunctions_rebuild_the_gram_matrix():
    full, _ = speed_fig2.errors("speed", 4, ranks=(10, 30))
    sparse, sizes = speed_fig2.errors("sparse_speed", 4, ranks=(30,))
    ten, thirty = full.mean(axis=0)
    assert ten == pytest.approx(0.098, abs=0.03)
    assert thirty <= 0.01
    assert sparse.mean() <= 0.012
    assert sizes.max() < 260


def test_fig_3_a_hundred_rank_one_updates_end_at_the_batch_subspace():
    sizes, angles = speed_fig3.distances("rank_one", 0, points=3, rows=600)
    assert sizes[-1] - sizes[0] > 100
    assert angles[0] > 0.1
    assert angles[-1] <= 1e-10


@pytest.mark.parametrize(("rank", "head", "wanted", "slack"), [(30, "lms", 0.0044, 0.0004), (50, "rls", 0.0021, 0.0002)])
def test_sparse_speed_predicts_as_well_as_the_paper_says(rank, head, wanted, slack):
    learner = made("sparse_speed", rank=rank, map_size=mackey_glass.TRAINING, novelty=NOVELTY, head=head)
    assert np.mean([final_mse(learner, mackey_glass.trial(seed)) for seed in range(8)]) == pytest.approx(wanted, abs=slack)


def test_fig_8_the_exact_transfer_ends_where_the_batch_map_does_and_the_papers_do_not():
    assert speed_fig8.ratios(30, "exact", 1, "ritz")[0] <= 1.03
    assert speed_fig8.ratios(30, "nearest", 1, "ritz")[0] > 1.05
