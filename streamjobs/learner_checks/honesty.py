"""Checks that a learner looks only at what it may: no peeking, nothing learned where nothing may be learned."""

import numpy as np

from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, PREDICT_ONLY, Basis, Learner
from streamjobs.learner_checks.case import Case, other_targets
from streamjobs.learner_checks.states import copied, rows_of, same_outputs, same_run, same_state

BEFORE_LEARNING = ("features", "prediction", "ls_error")


def check_inputs_are_left_as_they_were(case: Case) -> None:
    X, Y = case.stream()
    state = case.trained(40)
    kept = copied(state), X.copy(), Y.copy()
    new, out = case.learner.run(state, X, Y)
    case.learner.transform(state, X)
    case.learner.predict(state, X)
    same_state(state, kept[0], "after a run, the old state")
    assert np.array_equal(X, kept[1]), "a run changed X"
    assert np.array_equal(Y, kept[2]), "a run changed Y"
    for given in (X, Y, *(value for value in state if isinstance(value, np.ndarray))):
        for field, made in zip(new._fields + out._fields, (*new, *out), strict=True):
            shared = isinstance(made, np.ndarray) and np.shares_memory(made, given)
            assert not shared, f"{field} shares memory with an input"


def check_outputs_do_not_see_their_own_target(case: Case) -> None:
    """Other targets from row n on and other rows after it change no output of a row up to n."""
    X, Y = case.stream()
    for n in (0, 1, 2, 10, len(X) // 2, len(X) - 2):
        short = slice(0, n + 2)
        otherX, otherY = X[short].copy(), Y[short].copy()
        otherX[n + 1 :] += 1.0
        otherY[n:] = other_targets(case.kind, otherY[n:], seed=n)
        _, out = case.learner.run(case.init(), X[short], Y[short])
        _, other = case.learner.run(case.init(), otherX, otherY)
        same_outputs(rows_of(out, slice(0, n)), rows_of(other, slice(0, n)), f"before another row {n}")
        own = slice(n, n + 1)
        same_outputs(rows_of(out, own), rows_of(other, own), f"with another target in row {n}", BEFORE_LEARNING)


def check_a_missing_target_teaches_nothing(case: Case) -> None:
    """Rows without a target are predicted as ever; those who learn from targets say the same afterwards."""
    X, Y = case.stream()
    state = case.trained()
    _, labelled = case.learner.run(state, X[:1], Y[:1])
    for nothing in (np.nan, np.inf):
        after, out = case.learner.run(state, X, np.full(Y.shape, nothing))
        same_outputs(rows_of(out, slice(0, 1)), labelled, f"with the target {nothing}", BEFORE_LEARNING)
        if Y.shape[1]:
            assert np.isnan(out.loss).all(), f"loss is {out.loss[0]} where the target is {nothing}"
            assert not np.isnan(labelled.prediction).any() and np.isfinite(out.prediction).all(), "no prediction"
    partly = Y.copy()
    partly[:, -1:] = np.nan
    same_state(case.learner.run(state, X, partly)[0], case.learner.run(state, X)[0], "with one of the targets missing")
    work = case.workspace([state], extra=len(X))
    after, _ = case.ran(work, 0, state, X, np.full(Y.shape, np.nan), LEARN_HEAD)
    if Y.shape[1]:
        assert (case.learner.predict(after, X) == case.learner.predict(state, X)).all(), "learned without targets"


def check_rows_that_are_not_finite_teach_nothing(case: Case) -> None:
    """Such a row gives NaN and leaves the state as it is; the rows around it do not notice."""
    X, Y = case.stream(60)
    places = np.arange(0, len(X), 4)  # a bad row after every fourth row, and one before all
    bad_rows = np.tile(X[:1], (len(places), 1))
    for n, row in enumerate(bad_rows):
        row[n % len(row)] = (np.nan, np.inf, -np.inf)[n % 3]
        if n % 5 == 0:
            row[:] = np.nan
    bad = np.insert(np.zeros(len(X), bool), places, True)
    badX, badY = np.insert(X, places, bad_rows, axis=0), np.insert(Y, places, Y[:1], axis=0)
    for start in (case.init(), case.trained()):
        state, out = case.learner.run(start, badX, badY)
        for field in (*BEFORE_LEARNING, "loss"):
            assert np.isnan(getattr(out, field)[bad]).all(), f"{field} of a row that is not finite is not NaN"
        assert not out.admitted[bad].any() and not out.evicted[bad].any(), "a row that is not finite was stored"
        same_run((state, rows_of(out, ~bad)), case.learner.run(start, X, Y), "with rows between that are not finite")


def check_predicting_leaves_the_state_alone(case: Case) -> None:
    X, Y = case.stream()
    for state in (case.init(), case.trained(15), case.trained()):
        work = case.workspace([state], extra=2 * len(X))
        kept, frozen = case.ran(work, 0, state, X, Y, PREDICT_ONLY)
        same_state(kept, state, "after predicting only")
        learned = case.learner.run(state, X, Y)
        same_outputs(rows_of(frozen, slice(0, 1)), rows_of(learned[1], slice(0, 1)), "predicting only", BEFORE_LEARNING)
        assert not frozen.admitted.any() and not frozen.evicted.any(), "a row was stored while predicting only"
        same_run(case.ran(work, 0, state, X, Y), learned, "learning after predicting only")


def check_transform_and_predict_take_each_row_alone(case: Case) -> None:
    X, _ = case.stream(20)
    state = case.trained()
    for ask in (case.learner.transform, case.learner.predict):
        together = ask(state, X)
        backwards = ask(state, X[::-1])[::-1]
        one_by_one = [ask(state, x[None])[0] for x in X]
        for n in range(len(X)):
            assert together[n].tobytes() == one_by_one[n].tobytes() == backwards[n].tobytes(), f"row {n} of a batch differs"


def check_rows_not_to_be_learned_are_as_if_absent(case: Case) -> None:
    X, Y = case.stream()
    learn = np.where(np.random.default_rng(3).random(len(X)) < 0.5, LEARN, PREDICT_ONLY)
    for start in (case.init(), case.trained()):
        work = case.workspace([start], extra=len(X))
        state, out = case.ran(work, 0, start, X, Y, learn)
        alone = case.learner.run(start, X[learn > 0], Y[learn > 0])
        same_run((state, rows_of(out, learn > 0)), alone, "with rows between that only predict")


def check_each_learns_only_what_its_bit_allows(case: Case) -> None:
    """Extractors learn on bit 1 and not on bit 2, heads on bit 2 and not on bit 1; a chain's extractor rests on bit 2."""
    if case.kind == "drift":
        return  # a detector has no such parts
    X, Y = case.stream()
    state = case.trained(30)
    after = {}
    for bit in (LEARN_EXTRACTOR, LEARN_HEAD, LEARN):
        work = case.workspace([state], extra=len(X))
        after[bit], _ = case.ran(work, 0, state, X, Y, bit)
    if is_composite(case.learner):
        same = case.learner.transform(after[LEARN_HEAD], X).tobytes() == case.learner.transform(state, X).tobytes()
        assert same, "the extractor learned where only the head may"
        return
    rests, learns = (LEARN_HEAD, LEARN_EXTRACTOR) if case.kind == "features" else (LEARN_EXTRACTOR, LEARN_HEAD)
    same_state(after[rests], state, f"with learn = {rests}")
    same_state(after[learns], after[LEARN], f"with learn = {learns}")


def check_a_listener_to_the_basis_changes_nothing(case: Case) -> None:
    """With or without somewhere to write changes of basis to, the bits are the same; heads turn with what is written."""
    X, Y = case.stream()
    start = case.init()
    width = case.learner.width_for(case.dim) or case.dim
    basis = Basis(np.zeros(len(X), np.int8), np.zeros((len(X), width, width)))
    work = case.workspace([start], extra=len(X))
    heard = case.ran(work, 0, start, X, Y, basis=basis)
    same_run(heard, case.learner.run(start, X, Y), "with a listener to the basis")
    if case.kind == "features":
        assert case.learner.moves or not basis.moved.any(), "moves is False, yet its basis moved"
        assert np.isfinite(basis.transfer[basis.moved != 0]).all(), "a change of basis is not finite"


def is_composite(learner: Learner) -> bool:
    """It holds other learners, or brings a head of its own: an extractor for bit 1 and a head for bit 2."""
    return learner.headless is not learner or any(
        isinstance(getattr(learner, name, None), Learner) for name in getattr(learner, "__dataclass_fields__", ())
    )
