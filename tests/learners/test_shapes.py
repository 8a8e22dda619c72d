"""Shapes of rows, labels and states: an empty batch is a batch, a state of another shape is refused with one sentence."""

import numpy as np
import pytest

from algorithms import learner_from


def test_an_extractor_that_is_given_labels_takes_no_rows():
    learner = learner_from("last_points", {"rank": 2})
    state = learner.init(dim=3, targets=0, seed=0)
    _, out = learner.run(state, np.empty((0, 3)), np.empty((0, 1)))
    assert out.features.shape == (0, 2)


@pytest.mark.parametrize(
    ("name", "field", "shape"),
    [("okdl", "w", (4,)), ("okdl", "samples", (5,)), ("lms", "weights", (3,)), ("qklms", "dictionary", (6,))],
)
def test_a_state_of_another_shape_is_refused_with_one_sentence(name, field, shape):
    learner = learner_from(name, {"atoms": 4} if name == "okdl" else {})
    state = learner.init(dim=3, targets=1, seed=0)._replace(**{field: np.zeros(shape)})
    with pytest.raises(ValueError, match=f"expected {field} with 2 dimensions in the state, got shape") as caught:
        learner.run(state, np.zeros((2, 3)))
    assert "\n" not in str(caught.value)
