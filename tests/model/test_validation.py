"""A model that is not one is refused, always by InvalidModelError, and always in words that lead to the mistake."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from opdop import InvalidModelError, OpdopError, PolicyMixture, TabularCMDP, TabularPolicy
from tests.support.strategies import DENSE, FORMS, SEEDS, SPARSE, Sketch, sketch_of, sketches

Arguments = dict[str, Any]
# A corruption changes the arguments of a valid model and returns what the message must say.
Corrupt = Callable[[Arguments, Sketch, np.random.Generator], Sequence[str]]


@dataclass(frozen=True)
class Corruption:
    """One way in which a model can be wrong, and the forms of transitions to which it applies."""

    name: str
    forms: tuple[str, ...]
    apply: Corrupt

    def __repr__(self) -> str:
        return self.name


CORRUPTIONS: list[Corruption] = []


def corruption(name: str, forms: tuple[str, ...] = FORMS) -> Callable[[Corrupt], Corrupt]:
    def register(apply: Corrupt) -> Corrupt:
        CORRUPTIONS.append(Corruption(name, forms, apply))
        return apply

    return register


def some_index(array: np.ndarray, rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(rng.integers(size)) for size in array.shape)


def text_of(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index))


# Any argument: not an array of numbers

JUNK: dict[str, Callable[[Any], Any]] = {
    "None": lambda _: None,
    "a string": lambda _: "0.5",
    "bytes": lambda _: b"0.5",
    "a dict": lambda _: {"0": 1.0},
    "a set": lambda _: {0.25, 0.75},
    "a generator": lambda _: (number for number in (0.5, 0.5)),
    "a function": lambda _: np.sin,
    "a class": lambda _: TabularCMDP,
    "a complex number": lambda _: 0.5 + 0.1j,
    "a list of strings": lambda _: ["a", "b"],
    "a ragged list": lambda _: [[1.0, 0.0], [1.0]],
    "a date": lambda _: datetime.date(2020, 1, 1),
    "complex entries": lambda array: np.asarray(array) + 0j,
    "object entries": lambda array: np.asarray(array).astype(object),
    "text entries": lambda array: np.asarray(array).astype(str),
    "dates": lambda array: np.zeros(np.shape(array), dtype="datetime64[s]"),
    "records": lambda array: np.zeros(np.shape(array), dtype=[("p", float)]),
    "masked entries": lambda array: np.ma.masked_array(array, mask=np.ones(np.shape(array), dtype=bool)),
    "a list of masked rows": lambda array: [np.ma.masked_array(row, mask=True) for row in np.asarray(array)],
}


def _register_junk(argument: str, forms: tuple[str, ...], kind: str, make: Callable[[Any], Any]) -> None:
    @corruption(f"{argument}: {kind}", forms)
    def apply(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
        whole = {"transitions": sketch.P, "initial": sketch.initial}.get(argument, arguments[argument])
        arguments[argument] = make(whole)
        return [argument, "expected"]


for _argument in ("transitions", "rewards", "utilities", "thresholds", "initial"):
    for _kind, _make in JUNK.items():
        # Entries of a wrong type are for plain arrays; that of sparse ones is below.
        _register_junk(_argument, DENSE if _argument == "transitions" else FORMS, _kind, _make)


def _register_entry(argument: str, forms: tuple[str, ...], value: float, wanted: Sequence[str]) -> None:
    @corruption(f"{argument}: an entry {value}", forms)
    def apply(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
        array = np.array(sketch.initial if argument == "initial" else arguments[argument], dtype=float)
        index = some_index(array, rng)
        array[index] = value
        arguments[argument] = array
        return [f"{argument}[{text_of(index)}] is {value:g}", *wanted]


for _value in (np.nan, np.inf, -np.inf):
    for _argument in ("transitions", "rewards", "utilities", "thresholds", "initial"):
        _register_entry(_argument, DENSE if _argument == "transitions" else FORMS, _value, ["expected a finite number"])
for _value in (-0.1, 1.5, -1e-9, 1e300):
    for _argument in ("rewards", "utilities"):
        _register_entry(_argument, FORMS, _value, ["[0, 1]", "Rescale"])
for _value in (0.0, -1.0, 1e6):
    _register_entry("thresholds", FORMS, _value, ["(0, H]"])
for _value in (-0.25, -1e-12):
    _register_entry("initial", FORMS, _value, ["expected a probability, at least 0"])
    _register_entry("transitions", DENSE, _value, ["expected a probability, at least 0"])


# Transitions as plain arrays


def _register_shape(argument: str, name: str, forms: tuple[str, ...], shape: Callable[..., tuple[int, ...]]) -> None:
    @corruption(f"{argument}: {name}", forms)
    def apply(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
        found = shape(*sketch.sizes)
        arguments[argument] = np.full(found, 0.5)
        return [argument, f"shape {list(found)}", "expected"]


for _name, _shape in {
    "a vector": lambda H, S, A, I: (S,),
    "a matrix": lambda H, S, A, I: (S * A, S),
    "five axes": lambda H, S, A, I: (1, H, S, A, S),
    "one next state too many": lambda H, S, A, I: (S, A, S + 1),
    "one state too many": lambda H, S, A, I: (H, S + 1, A, S),
    "no stages": lambda H, S, A, I: (0, S, A, S),
    "no states": lambda H, S, A, I: (H, 0, A, 0),
    "no actions": lambda H, S, A, I: (H, S, 0, S),
    "nothing": lambda H, S, A, I: (0,),
    "a number": lambda H, S, A, I: (),
}.items():
    _register_shape("transitions", _name, DENSE, _shape)


def _register_row(name: str, change: Callable[[np.ndarray], np.ndarray], total: str) -> None:
    @corruption(f"transitions: {name}", DENSE)
    def dense(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
        table = arguments["transitions"]
        row = some_index(table[..., 0], rng)
        table[row] = change(table[row])
        return [f"transitions[{text_of(row)}, :] sums to {total}", "expected a probability distribution, sum 1"]

    @corruption(f"sparse transitions: {name}", SPARSE)
    def compressed(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
        label, matrix = some_stage(arguments, rng)
        row = int(rng.integers(matrix.shape[0]))
        place = slice(matrix.indptr[row], matrix.indptr[row + 1])
        matrix.data[place] = change(matrix.data[place])
        A = sketch.sizes[2]
        return [f"{label}[{row}, :] sums to {total}", "sum 1", f"(state {row // A}, action {row % A})"]


_register_row("a row that sums to 1.001", lambda row: row * 1.001, "1.001")
_register_row("a row that sums to 0.99999", lambda row: row * 0.99999, "0.99999")
_register_row("a row of zeros", lambda row: row * 0.0, "0;")
_register_row("a row twice", lambda row: row * 2.0, "2;")


@corruption("transitions: entries whose sum is infinite", DENSE)
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    S = sketch.sizes[1] + 1  # two states at least
    arguments["transitions"] = np.full((S, 1, S), 1.7e308)
    return ["transitions[0, 0, :] sums to inf"]


@corruption("transitions: 1 + 0.1 - 0.1", DENSE)
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    P = np.zeros((3, 2, 3))
    P[..., :] = 1.0, 0.1, -0.1  # sums to 1, yet is no distribution
    arguments["transitions"] = P
    return ["transitions[0, 0, 2] is -0.1", "at least 0"]


# Transitions as scipy.sparse


def some_stage(arguments: Arguments, rng: np.random.Generator) -> tuple[str, Any]:
    """Return the name and matrix of one stage, to be changed in place."""
    transitions = arguments["transitions"]
    if sparse.issparse(transitions):
        return "transitions", transitions
    h = int(rng.integers(len(transitions)))
    return ("transitions" if len(transitions) == 1 else f"transitions[{h}]"), transitions[h]


def _register_sparse_entry(value: float) -> None:
    @corruption(f"sparse transitions: an entry {value}", SPARSE)
    def apply(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
        label, matrix = some_stage(arguments, rng)
        entry = int(rng.integers(matrix.nnz))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        y, A = int(matrix.indices[entry]), sketch.sizes[2]
        matrix.data[entry] = value
        where = f"{label}[{row}, {y}] (state {row // A}, action {row % A}, next state {y}) is {value:g}"
        return [where, "expected a finite probability"]


for _value in (np.nan, np.inf, -0.25, -1e-12):
    _register_sparse_entry(_value)

for _name, _shape in {
    "no rows": lambda H, S, A, I: (0, S),
    "no columns": lambda H, S, A, I: (S * A, 0),
    "one row too many": lambda H, S, A, I: (2 * A + 1, 2),
    "more columns than rows": lambda H, S, A, I: (S, 2 * S),
}.items():

    @corruption(f"sparse transitions: {_name}", SPARSE)
    def _(
        arguments: Arguments, sketch: Sketch, rng: np.random.Generator, shape: Callable[..., tuple[int, int]] = _shape
    ) -> Sequence[str]:
        found = shape(*sketch.sizes)
        broken = sparse.csr_array(found)
        arguments["transitions"] = broken if sketch.stationary else [broken] * sketch.sizes[0]
        return ["transitions", f"shape {list(found)}", "expected [S*A, S]"]


@corruption("sparse transitions: one axis", ("sparse stationary",))
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    arguments["transitions"] = sparse.coo_array(np.ones(3))
    return ["transitions has shape [3]", "expected [S*A, S]"]


@corruption("sparse transitions: complex entries", SPARSE)
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    _, S, A, _ = sketch.sizes
    arguments["transitions"] = sparse.csr_array((S * A, S), dtype=complex)
    return ["transitions has entries of type complex128", "expected real numbers"]


@corruption("sparse transitions: stages of different shapes", ("sparse per stage",))
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    H, S, A, _ = sketch.sizes
    wider = sparse.csr_array(np.eye(S + 1)[np.zeros((S + 1) * A, dtype=int)])
    arguments["transitions"].append(wider)
    return [f"transitions[{H}] has shape {list(wider.shape)}", f"expected {[S * A, S]} like transitions[0]"]


for _name, _other in {"a plain array": np.ones((1, 1)), "None": None, "text": "stage"}.items():

    @corruption(f"sparse transitions: {_name} among the stages", ("sparse per stage",))
    def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator, other: Any = _other) -> Sequence[str]:
        arguments["transitions"].append(other)
        return [f"transitions[{sketch.sizes[0]}] is {type(other).__name__}", "expected scipy.sparse"]


@corruption("sparse transitions: an array of matrices", ("sparse per stage",))
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    stages = np.empty(sketch.sizes[0], dtype=object)
    stages[:] = arguments["transitions"]
    arguments["transitions"] = stages
    return ["transitions", "object", "expected"]


@corruption("sparse transitions: an index beyond the columns", SPARSE)
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    label, matrix = some_stage(arguments, rng)
    matrix.indices[rng.integers(matrix.nnz)] = rng.choice([-1, 10**6, matrix.shape[1]])
    return [f"{label} has indices out of range", "expected them within"]


@corruption("sparse transitions: row starts that go back", SPARSE)
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    label, matrix = some_stage(arguments, rng)
    matrix.indptr[-1] = -1
    return [f"{label} has indices out of range", "expected them within"]


for _convert in ("tocoo", "tocsc"):

    @corruption(f"sparse transitions: {_convert} with a row beyond the shape", ("sparse stationary",))
    def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator, convert: str = _convert) -> Sequence[str]:
        matrix = getattr(arguments["transitions"], convert)()
        rows = matrix.coords[0] if convert == "tocoo" else matrix.indices
        rows[rng.integers(matrix.nnz)] = 10**6
        arguments["transitions"] = matrix
        return ["transitions has indices out of range", "expected them within"]


# Signals, thresholds, first states, horizon

for _argument, _shapes in {
    "rewards": {
        "a number": lambda H, S, A, I: (),
        "a vector": lambda H, S, A, I: (A,),
        "one action too many": lambda H, S, A, I: (S, A + 1),
        "one state too many": lambda H, S, A, I: (S + 1, A),
        "one stage too many": lambda H, S, A, I: (H + 1, S, A),
        "four axes": lambda H, S, A, I: (1, H, S, A),
        "no stages": lambda H, S, A, I: (0, S, A),
        "no actions": lambda H, S, A, I: (S, 0),
    },
    "utilities": {
        "a number": lambda H, S, A, I: (),
        "a vector": lambda H, S, A, I: (I,),
        "one action too many": lambda H, S, A, I: (I, H, S, A + 1),
        "one state too many": lambda H, S, A, I: (I, H, S + 1, A),
        "one stage too many": lambda H, S, A, I: (I, H + 1, S, A),
        "one constraint too many": lambda H, S, A, I: (I + 1, H, S, A),
        "no constraints": lambda H, S, A, I: (0, H, S, A),
        "five axes": lambda H, S, A, I: (1, I, H, S, A),
    },
    "thresholds": {
        "two axes": lambda H, S, A, I: (I, 1),
        "none": lambda H, S, A, I: (0,),
    },
    "initial": {
        "one state too many": lambda H, S, A, I: (S + 1,),
        "two axes": lambda H, S, A, I: (1, S),
        "nothing": lambda H, S, A, I: (0,),
    },
}.items():
    for _name, _shape in _shapes.items():
        _register_shape(_argument, _name, FORMS, _shape)


@corruption("thresholds: one more than utilities")
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    I = sketch.sizes[3]
    arguments["thresholds"] = np.append(arguments["thresholds"], 0.5)
    return [f"utilities have shape {list(arguments['utilities'].shape)}", f"I = {I + 1} being the number of thresholds"]


@corruption("thresholds: a hair more than H")
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    value = np.nextafter(float(sketch.sizes[0]), np.inf)
    arguments["thresholds"][0] = value
    return [f"thresholds[0] is {float(value)!r}", "(0, H]"]


for _argument in ("rewards", "utilities", "thresholds", "initial"):

    @corruption(f"{_argument}: a sparse matrix")
    def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator, argument: str = _argument) -> Sequence[str]:
        arguments[argument] = sparse.csr_array(np.full((1, 1), 0.5))
        return [f"{argument} is a scipy.sparse matrix", "expected a plain array"]


for _name, _first in {
    "before the first": -1,
    "beyond the last": 99,
    "far before the first": -(10**30),
    "beyond every float": 10**400,
    "too long to print": 10**5000,
    "of a small type": np.int8(-128),
    "of an unsigned type": np.uint64(2**63),
}.items():

    @corruption(f"initial: a state {_name}")
    def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator, first: Any = _first) -> Sequence[str]:
        arguments["initial"] = first
        return ["initial is state", f"expected a state in 0..{sketch.sizes[1] - 1}"]


for _first in (0.0, 1.5, True, False, np.float64(0.0), np.bool_(True), np.array(0)):

    @corruption(f"initial: {_first!r}")
    def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator, first: Any = _first) -> Sequence[str]:
        arguments["initial"] = first
        return [f"initial is {first!r} ({type(first).__name__})", "expected a state in 0.."]


for _total in (0.0, 0.9, 1.001, 2.0):

    @corruption(f"initial: sums to {_total}")
    def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator, total: float = _total) -> Sequence[str]:
        arguments["initial"] = sketch.initial * total
        return [f"initial sums to {total:g};", "expected a probability distribution, sum 1"]


for _name, _horizon in {
    "zero": 0,
    "negative": -3,
    "a float": 2.0,
    "a fraction": 2.5,
    "True": True,
    "True of NumPy": np.bool_(True),
    "text": "3",
    "a list": [3],
    "an array": np.array(3),
    "NaN": np.nan,
    "complex": 3j,
    "beyond every float": 10**400,
    "too long to print": -(10**5000),
}.items():

    @corruption(f"horizon: {_name}")
    def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator, horizon: Any = _horizon) -> Sequence[str]:
        arguments["horizon"] = horizon
        return ["horizon is ", "expected", "at least 1"]


@corruption("horizon: missing", (DENSE[1], SPARSE[1]))
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    arguments["horizon"] = None
    return ["transitions are stationary", "pass horizon=H"]


@corruption("horizon: another number than the transitions have", (DENSE[0], SPARSE[0]))
def _(arguments: Arguments, sketch: Sketch, rng: np.random.Generator) -> Sequence[str]:
    H = sketch.sizes[0]
    arguments["horizon"] = H + 1
    return [f"transitions have {H} stages but horizon is {H + 1}", "expected the same"]


def check_refusal(chosen: Corruption, sketch: Sketch, seed: int) -> None:
    arguments = sketch.arguments()
    wanted = chosen.apply(arguments, sketch, np.random.default_rng(seed))
    with pytest.raises(InvalidModelError) as caught:
        TabularCMDP(**arguments)
    message = str(caught.value)
    assert [words for words in wanted if words not in message] == [], message
    assert message.endswith((".", ")")), message


@st.composite
def corrupted(draw: st.DrawFn) -> tuple[Corruption, Sketch, int]:
    chosen = draw(st.sampled_from(CORRUPTIONS))
    return chosen, draw(sketches(forms=chosen.forms)), draw(SEEDS)


@settings(max_examples=max(500, settings().max_examples))
@given(corrupted())
def test_every_corrupted_model_is_refused_in_words_that_lead_to_the_mistake(case: tuple[Corruption, Sketch, int]):
    check_refusal(*case)


@pytest.mark.parametrize("chosen", CORRUPTIONS, ids=repr)
def test_each_kind_of_corruption_is_refused(chosen: Corruption):
    for number, form in enumerate(chosen.forms):
        check_refusal(chosen, sketch_of(number, form=form, constraints=2, first_state="random"), seed=number)


@settings(max_examples=max(200, settings().max_examples))
@given(sketches())
def test_valid_models_are_never_refused(sketch: Sketch):
    cmdp = sketch.build()
    assert (cmdp.horizon, cmdp.num_states, cmdp.num_actions, cmdp.num_constraints) == sketch.sizes


def test_errors_are_of_this_package_and_value_errors():
    assert issubclass(InvalidModelError, OpdopError)
    assert issubclass(InvalidModelError, ValueError)


# Messages, word by word: what was found, where, and what was expected

TWO_STATES = np.zeros((2, 2, 2))
TWO_STATES[:, 0, 0] = TWO_STATES[:, 1, 1] = 1.0
ITSELF = (
    "TabularCMDP does so itself if it is told a range, as in reward_range=(low, high), or given costs= with budgets=."
)
VALID = {
    "transitions": TWO_STATES,
    "rewards": np.zeros((2, 2)),
    "utilities": np.ones((2, 2)),
    "thresholds": 2.0,
    "horizon": 3,
}


def changed(array: Any, index: Any, value: float) -> np.ndarray:
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"transitions": changed(TWO_STATES, (1, 0, 1), 0.001)},
            "transitions[1, 0, :] sums to 1.001; expected a probability distribution, sum 1.",
        ),
        (
            {"transitions": sparse.csr_array(changed(TWO_STATES, (1, 0, 1), 0.25).reshape(4, 2))},
            "transitions[2, :] sums to 1.25; expected a probability distribution, sum 1. (state 1, action 0)",
        ),
        (
            {"transitions": changed(TWO_STATES, (0, 1, 0), -0.5)},
            "transitions[0, 1, 0] is -0.5; expected a probability, at least 0.",
        ),
        (
            {"transitions": np.zeros((4, 2))},
            "transitions have shape [4, 2]; expected [H,S,A,S], [S,A,S] with horizon=H, "
            "or scipy.sparse [S*A,S] (one with horizon=H, or a list of H).",
        ),
        (
            {"rewards": changed(np.zeros((2, 2)), (1, 0), 5.0)},
            "rewards[1, 0] is 5; signals must lie in [0, 1], and rewards spans [0, 5]. Rescale: (value - 0) / 5 for a "
            "reward; 1 - cost / max_cost with threshold H - budget / max_cost for a cost that must stay below a "
            f"budget. {ITSELF}",
        ),
        (
            {"rewards": [[-2.0, 0.0], [0.0, 2.0]]},
            "rewards[0, 0] is -2; signals must lie in [0, 1], and rewards spans [-2, 2]. Rescale: (value - -2) / 4 for "
            "a reward; 1 - cost / max_cost with threshold H - budget / max_cost for a cost that must stay below a "
            f"budget. {ITSELF}",
        ),
        ({"rewards": changed(np.zeros((2, 2)), (0, 1), np.nan)}, "rewards[0, 1] is nan; expected a finite number."),
        (
            {"rewards": np.zeros((3, 2))},
            "rewards have shape [3, 2]; expected [S,A] = [2,2] or [H,S,A] = [3,2,2].",
        ),
        (
            {"thresholds": [1.0, 1.0]},
            "utilities have shape [2, 2]; expected [I,H,S,A] = [2,3,2,2] or [I,S,A] = [2,2,2], I = 2 being the number "
            "of thresholds.",
        ),
        (
            {"thresholds": 3.5},
            "thresholds[0] is 3.5; expected a value in (0, H] = (0, 3]: a utility totals 0 to H.",
        ),
        ({"initial": 2}, "initial is state 2; expected a state in 0..1 or a distribution [S] = [2]."),
        ({"initial": [0.5, 0.4]}, "initial sums to 0.9; expected a probability distribution, sum 1."),
        ({"horizon": None}, "transitions are stationary, so horizon is needed: pass horizon=H."),
        ({"horizon": 3.0}, "horizon is 3.0 (float); expected a whole number, at least 1."),
        ({"display": "chain"}, "display is 'chain' (str); expected an opdop.Display."),
    ],
)
def test_message_says_what_was_found_where_and_what_was_expected(arguments: Arguments, message: str):
    with pytest.raises(InvalidModelError) as caught:
        TabularCMDP(**{**VALID, **arguments})
    assert str(caught.value) == message


def test_rescaling_as_the_message_says_makes_the_model_valid():
    costs = np.array([[3.0, 0.0], [12.0, 6.0]])
    with pytest.raises(InvalidModelError, match="Rescale"):
        TabularCMDP(**{**VALID, "utilities": costs})
    horizon, budget = 3, 18.0
    cmdp = TabularCMDP(**{**VALID, "utilities": 1.0 - costs / 12.0, "thresholds": horizon - budget / 12.0})
    assert cmdp.thresholds[0] == 1.5


def test_a_signal_a_hair_above_one_does_not_read_as_one():
    with pytest.raises(InvalidModelError, match=r"rewards\[0, 0\] is 1\.0000000000000002;"):
        TabularCMDP(**{**VALID, "rewards": np.full((2, 2), np.nextafter(1.0, 2.0))})


def test_rows_that_miss_one_by_rounding_are_taken_and_made_exact():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(40), (40, 3)).astype(np.float32)
    assert np.abs(P.astype(float).sum(axis=-1) - 1.0).max() > 1e-9
    signals = np.full((40, 3), 0.5)
    for form in (P, sparse.csr_array(P.reshape(-1, 40))):
        cmdp = TabularCMDP(form, signals, signals, 1.0, initial=np.full(40, 1 / 40, dtype=np.float32), horizon=2)
        np.testing.assert_allclose(cmdp.transition_matrix(0).sum(axis=1), 1.0, rtol=0, atol=1e-14)
        np.testing.assert_allclose(cmdp.initial.sum(), 1.0, rtol=0, atol=1e-14)


# Policies

POLICY = np.full((3, 2, 4), 0.25)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed(POLICY, (2, 1, 3), np.nan), "policy[2, 1, 3] is nan; expected a finite number."),
        (changed(POLICY, (2, 1, 3), np.inf), "policy[2, 1, 3] is inf; expected a finite number."),
        (changed(POLICY, (2, 1, 3), -0.25), "policy[2, 1, 3] is -0.25; expected a probability, at least 0."),
        (changed(POLICY, (2, 1, 3), 0.26), "policy[2, 1, :] sums to 1.01; expected a probability distribution, sum 1."),
        (changed(POLICY, (0, 0), 0.0), "policy[0, 0, :] sums to 0; expected a probability distribution, sum 1."),
        (POLICY * 1.7e308 * 4, "policy[0, 0, :] sums to inf; expected a probability distribution, sum 1."),
        (POLICY[0], "policy has shape [2, 4]; expected [H,S,A], none of them 0."),
        (POLICY[None], "policy has shape [1, 3, 2, 4]; expected [H,S,A], none of them 0."),
        (POLICY[:0], "policy has shape [0, 2, 4]; expected [H,S,A], none of them 0."),
        (POLICY[:, :0], "policy has shape [3, 0, 4]; expected [H,S,A], none of them 0."),
        (POLICY[..., :0], "policy has shape [3, 2, 0]; expected [H,S,A], none of them 0."),
        (0.5, "policy has shape []; expected [H,S,A], none of them 0."),
        (None, "policy has None (NoneType); expected real numbers, action probabilities [H,S,A]."),
        ("uniform", "policy has 'uniform' (str); expected real numbers, action probabilities [H,S,A]."),
        (POLICY + 0j, "policy has entries of type complex128; expected real numbers, action probabilities [H,S,A]."),
        (POLICY.astype(object), "policy has entries of type object; expected real numbers, action probabilities"),
        ([[[0.5, 0.5]], [[1.0]]], "policy cannot be read as an array"),
        (np.ma.masked_equal(POLICY, 0.25), "policy has masked entries; expected numbers everywhere"),
        (sparse.csr_array(POLICY[0]), "policy is a scipy.sparse matrix; expected a plain array"),
        (PolicyMixture([POLICY]), "policy has PolicyMixture(1 policies) (PolicyMixture); expected real numbers"),
    ],
)
def test_a_table_that_is_no_policy_is_refused(table: Any, message: str):
    with pytest.raises(InvalidModelError) as caught:
        TabularPolicy(table)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("actions", "num_actions", "message"),
    [
        ([[0, 4]], 4, "actions[0, 1] is 4; expected a whole number in 0..3."),
        ([[-1, 0]], 4, "actions[0, 0] is -1; expected a whole number in 0..3."),
        ([[0.5, 0]], 4, "actions[0, 0] is 0.5; expected a whole number in 0..3."),
        ([[np.nan, 0]], 4, "actions[0, 0] is nan; expected a finite number."),
        ([0, 1], 4, "actions have shape [2]; expected [H,S], none of them 0."),
        (np.zeros((0, 3), dtype=int), 4, "actions have shape [0, 3]; expected [H,S], none of them 0."),
        ([[0, 1], [0]], 4, "actions cannot be read as an array"),
        ([["left"]], 4, "actions has entries of type"),
        ([[0]], 0, "num_actions is 0; expected at least 1"),
        ([[0]], True, "num_actions is True (bool); expected a whole number, at least 1."),
    ],
)
def test_actions_that_are_not_there_are_refused(actions: Any, num_actions: Any, message: str):
    with pytest.raises(InvalidModelError) as caught:
        TabularPolicy.deterministic(actions, num_actions)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, -1, 1), (1, 1, 2.0), (True, 1, 1), (None, 1, 1), ("1", 1, 1)])
def test_a_uniform_policy_needs_sizes(sizes: tuple[Any, Any, Any]):
    with pytest.raises(InvalidModelError, match=r"expected .*at least 1"):
        TabularPolicy.uniform(*sizes)


@pytest.mark.parametrize(
    ("parts", "weights", "message"),
    [
        ([], None, "a mixture needs at least one policy."),
        (None, None, "the mixture's parts are NoneType; expected a sequence of policies."),
        (TabularPolicy(POLICY), None, "the mixture's parts are TabularPolicy; expected a sequence of policies."),
        (POLICY, None, "policy has shape [2, 4]; expected [H,S,A]"),
        ([POLICY, "uniform"], None, "policy has 'uniform' (str)"),
        (
            [POLICY, POLICY[:2]],
            None,
            "the mixture's policies have shapes [(2, 2, 4), (3, 2, 4)]; expected all the same.",
        ),
        ([POLICY, POLICY], [1.0], "weights have shape [1]; expected [2]."),
        ([POLICY, POLICY], [[0.5, 0.5]], "weights have shape [1, 2]; expected [2]."),
        ([POLICY, POLICY], [0.5, 0.6], "weights sums to 1.1; expected a probability distribution, sum 1."),
        ([POLICY, POLICY], [1.5, -0.5], "weights[1] is -0.5; expected a probability, at least 0."),
        ([POLICY, POLICY], [np.nan, 1.0], "weights[0] is nan; expected a finite number."),
        (
            [POLICY, POLICY],
            "half",
            "weights has 'half' (str); expected real numbers, one weight for each of 2 policies.",
        ),
        ([POLICY, POLICY], {}, "weights has {} (dict)"),
    ],
)
def test_a_mixture_of_what_does_not_mix_is_refused(parts: Any, weights: Any, message: str):
    with pytest.raises(InvalidModelError) as caught:
        PolicyMixture(parts, weights)
    assert str(caught.value).startswith(message)
