"""Checks of what a state is made of, that it stays within its bounds and finite, and of the shapes that come out."""

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from typing import Any

import numpy as np

from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array, Learner, SettingError, Stage
from streamjobs.core.state.snapshot import state_fields
from streamjobs.learner_checks.case import Case
from streamjobs.learner_checks.states import nbytes, rebuilt, same_run, same_state

UNBOUNDED = (Kernel(name="polynomial", degree=3), Kernel(name="polynomial", degree=7, scale=0.01), Kernel(name="linear"))
KINDS = ("features", "regression", "classification", "drift")


def check_a_new_state_fits(case: Case) -> None:
    """`init` gives a NamedTuple of arrays of numbers, ints and floats, and the learner's targets follow from it."""
    assert case.kind in KINDS, f"kind is {case.kind!r}, expected {', '.join(KINDS)}"
    state = case.init()
    assert hasattr(state, "_fields"), f"init gives a {type(state).__name__}, expected a NamedTuple"
    _require_plain(state)
    for field in case.learner.stored:
        case.learner.room(field)
    targets, predicts = case.learner.targets(state), case.kind in ("regression", "classification")
    assert predicts or not targets, (
        f"a learner of kind {case.kind} has {targets} targets; a learner that predicts states kind: ClassVar[str] = "
        "'regression' or 'classification'"
    )
    assert targets or not predicts, (
        f"a learner of kind {case.kind} has {targets} targets; name the field of shape (dim, targets) `weights`, "
        "or define targets(self, state)"
    )


def _require_plain(state: Any) -> None:
    for path, value in state_fields(state):
        plain = value.dtype.kind in "fiu" if isinstance(value, np.ndarray) else type(value) in (int, float)
        got = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        assert plain, f"{path} is of type {got}, expected an array of numbers, an int or a float; convert it in init"


def check_the_state_is_plain_arrays_and_numbers(case: Case) -> None:
    """Only arrays of numbers (C-contiguous), ints and floats; types and fixed shapes never change."""
    start = case.init()
    states = [start, case.learner.run(start, *case.stream(5))[0], case.trained()]
    for state in states:
        _require_plain(state)
        for path, value in state_fields(state):
            assert not isinstance(value, np.ndarray) or value.flags.c_contiguous, f"{path} is not C-contiguous"
    stored = {f"{path}.{field}" if path else field for path, part in _parts(case.learner, start) for field in part.stored}
    for later in states[1:]:
        for (path, a), (_, b) in zip(state_fields(start), state_fields(later), strict=True):
            assert type(a) is type(b), f"{path} was a {type(a).__name__} and became a {type(b).__name__}"
            if isinstance(a, np.ndarray):
                assert a.dtype == b.dtype, f"{path} was {a.dtype} and became {b.dtype}"
                free = path in stored
                assert free or a.shape == b.shape, f"{path} is not in `stored`, yet its shape changed"
                assert a.shape[1:] == b.shape[1:], f"{path} changed its row shape"


def check_state_bytes_is_an_upper_bound(case: Case) -> None:
    """Under a hostile stream a bounded learner keeps to its bound, an unbounded one to at most a row's worth a row.

    Stored fields that are a triangle over the stored samples count as such: a number for each two of them.
    """
    X, Y = case.hostile(400)
    bound = case.learner.state_bytes(case.dim, case.targets)
    state = case.init()
    start, rows = nbytes(state), sum(len(value) > 0 for _, value in state_fields(state) if isinstance(value, np.ndarray))
    for n in range(0, len(X), 20):
        state, _ = case.learner.run(state, X[n : n + 20], Y[n : n + 20])
        if case.learner.bounded:
            assert nbytes(state) <= bound, f"{nbytes(state)} bytes after {n + 20} rows, the bound is {bound}"
        else:
            fair = start + (n + 20) * 8 * (case.dim + 8 * (case.targets + rows + 4)) + _triangles(case.learner, state)
            assert nbytes(state) <= fair, f"{nbytes(state)} bytes after {n + 20} rows is more than a row's worth a row"


def check_nothing_but_finite_numbers_enters_the_state(case: Case) -> None:
    X, Y = case.extreme()
    for start, begin in ((case.init(), 0), (case.init(), 40), (case.trained(), 40)):
        state = start
        for n in range(begin, len(X)):
            state, _ = case.learner.run(state, X[n : n + 1], Y[n : n + 1])
            for path, value in state_fields(state):
                finite = np.isfinite(value).all()
                assert finite, f"{path} is not finite after row {n} with x = {X[n]!r} and y = {Y[n]!r}"


def check_it_goes_on_after_outliers_and_a_sensor_that_stood_still(case: Case) -> None:
    """After a hostile stream the state is finite, and ordinary rows give whatever they give after a calm one."""
    state, _ = case.learner.run(case.init(), *case.hostile(400))
    for path, value in state_fields(state):
        assert np.isfinite(value).all(), f"{path} is not finite after a hostile stream"
    X, Y = case.stream(60, seed=32)
    _, out = case.learner.run(state, X, Y)
    _, calm = case.learner.run(case.trained(400), X, Y)
    for field in ("features", "prediction", "ls_error", "loss"):
        ours, wanted = (np.isfinite(getattr(o, field)[30:]) for o in (out, calm))
        if case.kind == "drift" and field == "features":  # statistic, alarm, and two means of a change, if one is in sight
            ours, wanted = ours[:, :2], wanted[:, :2]
        assert (ours | ~wanted).all(), f"{field} of ordinary rows is not finite after a hostile stream"


def check_outliers_raise_nothing(case: Case) -> None:
    """Rows far out, whatever the kernel: no error, and outputs that are finite or NaN."""
    for learner in (case.learner, *_unbounded(case.learner)):
        for seed in range(8):
            X, Y = case.outliers(seed)
            try:
                _, out = learner.run(learner.init(dim=case.dim, targets=case.targets, seed=0), X, Y)
            except Exception as error:
                raise AssertionError(f"{learner} raised {type(error).__name__}: {error}") from error
            for field in ("features", "prediction", "ls_error", "loss"):
                assert not np.isinf(getattr(out, field)).any(), f"{field} of {learner} is infinite"


def check_a_state_built_by_hand_works(case: Case) -> None:
    """The fields of a state, given as other arrays (of another order, read-only), are all that is needed."""
    X, Y = case.stream(60)
    trained = case.trained()

    def otherwise(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        array = np.asfortranarray(value)
        array.setflags(write=False)
        return array

    made = rebuilt(trained, otherwise)
    by_hand = case.init(99)._replace(**dict(zip(made._fields, made, strict=True)))
    whole = case.learner.run(trained, X, Y)
    same_run(case.learner.run(by_hand, X, Y), whole, "from a state built by hand")
    stored = {name: getattr(trained, name) for name in case.learner.stored if name in trained._fields}
    if stored:  # the counters of a fresh state next to the samples of an old one
        _, out = case.learner.run(case.init()._replace(**stored), X, Y)
        for field in ("prediction", "features"):
            expected, got = (np.isfinite(getattr(o, field)[0]).tolist() for o in (whole[1], out))
            assert got == expected, f"stored samples in a fresh state give no {field}"


def check_a_state_that_contradicts_itself_is_refused(case: Case) -> None:
    """A field of a row less, or more, than the fields it runs together with is one clear sentence, never repaired.

    Which fields these are is what the learner states, and what the states of a stream show: stored fields that always
    have the same rows.
    """
    states = [case.trained(n) for n in (5, 20, 40, case.rows)]
    refused = 0
    parts = list(_parts(case.learner, states[0]))
    for path, learner in parts:
        own = [attrgetter(path)(state) if path else state for state in states]
        for field in _run_together(learner, own):
            for whole, part in zip(states, own, strict=True):
                for rows in (-1, 1):
                    array = _resized(getattr(part, field), rows)
                    if array is None or (len(array) == 0 and field in learner.may_be_empty):
                        continue
                    state = _with_part(whole, path, part._replace(**{field: array}))
                    text = _refusal_of(case, state, *case.stream(3))
                    assert text, f"{path or 'state'}.{field} with {len(array)} rows for {len(array) - rows} was taken"
                    _require_sentence(text, type(learner).__name__, field, "expected", "got")
                    refused += 1
    assert refused or not any(learner.aligned or learner.triangles for _, learner in parts)


def check_outputs_have_their_shapes(case: Case) -> None:
    learner = case.learner
    state = case.init()
    assert learner.dim(state) == case.dim, f"made for dim {case.dim}, says {learner.dim(state)}"
    width, targets = learner.width_for(case.dim), learner.targets(state)
    for n in (0, 1, 50):
        X, Y = case.stream(max(n, 1))
        new, out = learner.run(state, X[:n], Y[:n])
        wanted = {"features": (n, width), "prediction": (n, targets)}
        for field in out._fields:
            array, shape = getattr(out, field), wanted.get(field, (n,))
            assert array.shape == shape, f"{field} has shape {array.shape}, expected {shape}"
            assert array.dtype == (np.int8 if field in ("admitted", "evicted") else np.float64), f"{field}: {array.dtype}"
        assert set(out.admitted) | set(out.evicted) <= {0, 1}, "admitted and evicted are 0 or 1"
        assert not (out.ls_error < -1e-9).any() and not (out.loss < 0).any(), "an error below 0"
        if n == 0:
            same_state(new, state, "after no rows")
    assert learner.transform(state, X).shape == (50, width)
    assert learner.predict(state, X).shape == (50, targets)


def check_wrong_shapes_are_refused_with_one_sentence(case: Case) -> None:
    X, Y = case.stream(4)
    wrong = [(np.ones((4, case.dim + 1)), Y), (np.ones(case.dim + 1), Y)]
    if Y.shape[1]:
        wrong += [(X, np.ones((3, Y.shape[1]))), (X, np.ones((4, Y.shape[1] + 1)))]
    for badX, badY in wrong:
        text = _refusal_of(case, case.init(), badX, badY)
        assert text, f"X {badX.shape} with Y {badY.shape} was taken, dim is {case.dim}"
        _require_sentence(text, type(case.learner).__name__, "expected")


def _unbounded(learner: Learner) -> Iterator[Learner]:
    """The learner with kernels without a bound of their values, if it accepts them."""
    for kernel in UNBOUNDED:
        with suppress(SettingError):
            yield _with_kernel(learner, kernel)


def _with_kernel(learner: Any, kernel: Kernel) -> Learner:
    """The learner, and those inside it, with this kernel where they have one."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(learner):
        value = getattr(learner, field.name)
        if isinstance(value, Kernel):
            changed[field.name] = kernel
        elif isinstance(value, Learner):
            changed[field.name] = _with_kernel(value, kernel)
    other: Learner = dataclasses.replace(learner, **changed)
    return other


def _parts(stage: Any, state: Any, path: str = "") -> Iterator[tuple[str, Stage]]:
    """The learner, or of a composite its parts by the paths of their states."""
    if not all(hasattr(value, "_fields") for value in state):
        yield path, stage
        return
    for name, value in zip(state._fields, state, strict=True):
        yield from _parts(getattr(stage, name), value, f"{path}.{name}" if path else name)


def _with_part(state: Any, path: str, part: Any) -> Any:
    name, _, rest = path.partition(".")
    return state._replace(**{name: _with_part(getattr(state, name), rest, part)}) if name else part


def _run_together(learner: Stage, states: list[Any]) -> list[str]:
    """Stored fields stated to run together, and those that had as many rows as another in every one of the states."""
    stated = {field for group in learner.aligned if len(group) > 1 for field in group}
    stated |= {*learner.triangles, *learner.triangles.values()}
    rows = {field: [len(getattr(state, field)) for state in states] for field in learner.stored}
    alike = {a for a in rows for b in rows if a != b and rows[a] == rows[b] and max(rows[a]) > 1}
    return [field for field in learner.stored if field in stated | alike]


def _resized(array: Array, rows: int) -> Array | None:
    """The array with its last row left out, or one more like it; None where there is none to leave out."""
    if rows < 0:
        return array[:rows].copy() if len(array) else None
    more = array[-1:] if len(array) else np.ones((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, more])


def _refusal_of(case: Case, state: Any, X: Array, Y: Array) -> str:
    """The sentence that refuses a state or rows, "" where they are taken."""
    try:
        case.learner.run(state, X, Y)
    except ValueError as problem:
        return str(problem)
    return ""


def _require_sentence(text: str, *words: str) -> None:
    clear = all(word in text for word in words) and text.endswith(".") and "\n" not in text
    assert clear, f"not one clear sentence: {text!r}"


def _triangles(learner: Any, state: Any) -> int:
    """Bytes of fields with a number for each two stored samples, as the first stored field counts them."""
    held = len(getattr(state, learner.stored[0])) if learner.stored else 0
    fields = [getattr(state, field) for field in learner.stored[1:]]
    return sum(value.nbytes for value in fields if value.ndim == 1 and len(value) == held * (held + 1) // 2 > held)
