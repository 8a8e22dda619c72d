"""SkeGD's tables in short: one order of the streams, the bounds are the targets' with their spread."""

import pytest

from papers import skegd_table2, skegd_table4
from papers.sketching import SIGMA, adversarial, made, mistakes, shuffled


def test_table_4_the_default_makes_less_than_half_of_the_printed_ones_mistakes():
    rows = adversarial("german-1", 0)
    printed, _ = mistakes(made("skegd", skegd_table4.printed("german-1", 0.01, 0.5), SIGMA["german"]), rows, 0)
    ours, top = mistakes(made("skegd", {}, SIGMA["german"]), rows, 0)
    assert printed == pytest.approx(15.4, abs=2.4)
    assert ours <= 7.0
    assert printed >= 2 * ours
    assert top < 10


def test_table_2_the_augmented_sketch_is_as_good_as_nystrom_on_its_landmarks():
    (_, _, augmented, nystrom), _ = skegd_table2.errors(shuffled("german", 0), skegd_table2.Kernel(bandwidth=8.0), 100, 0)
    assert augmented <= 1.1 * nystrom
