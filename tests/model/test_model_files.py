"""Models come back from their files as they were; files written by hand or by PRISM are read; broken ones refused."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import opdop
from opdop import (
    InvalidModelError,
    InvalidParameterError,
    LinearCMDP,
    OpdopError,
    TabularCMDP,
    load_model,
    save_model,
    solve,
)
from opdop.model import features
from opdop.runs.checkpoint import fingerprint

SHOP: dict[str, Any] = {
    "format": "opdop.model/1",
    "name": "shop",
    "states": ["open", "closed"],
    "actions": ["wait", "sell"],
    "horizon": 4,
    "initial": "open",
    "budgets": {"work": 5.0},
    "units": {"reward": ["profit", "dollars"], "work": "hours"},
    "rows": [
        {"state": "open", "action": "wait", "next": "open"},
        {"state": "open", "action": "sell", "next": {"open": 0.5, "closed": 0.5}, "reward": 30, "costs": {"work": 3}},
        {"state": "closed", "action": "wait", "next": "open", "costs": {"work": 1}},
        {"state": "closed", "action": "sell", "next": "closed"},
    ],
}
TOML = """
format = "opdop.model/1"
name = "shop"
states = ["open", "closed"]
actions = ["wait", "sell"]
horizon = 4
initial = "open"
budgets = {work = 5.0}
units = {reward = ["profit", "dollars"], work = "hours"}
rows = [
  {state = "open", action = "wait", next = "open"},
  {state = "open", action = "sell", next = {open = 0.5, closed = 0.5}, reward = 30, costs = {work = 3}},
  {state = "closed", action = "wait", next = "open", costs = {work = 1}},
  {state = "closed", action = "sell", next = "closed"},
]
"""


def arrays_of(cmdp: TabularCMDP) -> list[np.ndarray]:
    return [*cmdp.transitions, cmdp.signals, cmdp.thresholds, cmdp.initial]


def written(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("form", ["dense", "sparse", "per-stage", "sparse per-stage"])
def test_saved_model_comes_back_bit_for_bit(form: str, tmp_path: Path) -> None:
    cmdp = opdop.make("inventory").tabular()
    if "per-stage" in form:
        kernels = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 3, 2))
        cmdp = TabularCMDP(kernels, np.ones((3, 2)) / 3, np.eye(3, 2), 1.0)
    if "sparse" in form:
        cmdp = cmdp.sparse()
    again = load_model(save_model(cmdp, tmp_path / "model.npz"))
    for ours, theirs in zip(arrays_of(again), arrays_of(cmdp), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (again.horizon, again.is_sparse) == (cmdp.horizon, cmdp.is_sparse)
    assert again.display.quantities == cmdp.display.quantities


def linear(kind: str) -> LinearCMDP:
    """Return a linear model of each family of features."""
    random = np.random.default_rng(3)
    if kind == "mixture":
        return cast(LinearCMDP, opdop.make("random-mixture", states=6, stages=3))
    if kind == "embedding":
        return cast(LinearCMDP, opdop.make("random-embedding", states=6, stages=3))
    if kind == "one-hot":
        chances, signals = random.dirichlet(np.ones(3), size=(4, 3, 2)), random.random((2, 4, 6))
        return LinearCMDP(features.one_hot(3, 2), chances.reshape(4, -1), signals[0], signals[1], 1.0, [0.5, 0.5, 0.0])
    bases = random.dirichlet(np.ones(12 if kind == "lists" else 3), size=(2, 12 if kind == "lists" else 3, 2))
    if kind == "lists":
        bases = np.where(bases >= np.sort(bases)[..., -2:-1], bases, 0.0)
        bases /= bases.sum(axis=-1, keepdims=True)
    psi, varphi = np.moveaxis(bases, 0, -1), random.random((bases.shape[1], 2, 2)) / 2.0
    return LinearCMDP(features.array(psi, varphi), [0.25, 0.75], [1.0, 0.5], [0.5, 0.5], 1.0, horizon=3)


LINEAR = ["mixture", "embedding", "one-hot", "table", "lists"]


@pytest.mark.parametrize("kind", LINEAR)
def test_saved_linear_model_comes_back_bit_for_bit(kind: str, tmp_path: Path) -> None:
    cmdp = linear(kind)
    again = load_model(save_model(cmdp, tmp_path / "model.npz"))
    assert type(again) is LinearCMDP
    assert fingerprint(again) == fingerprint(cmdp)
    np.testing.assert_array_equal(again.kernel_weights, cmdp.kernel_weights)
    np.testing.assert_array_equal(again.signal_weights, cmdp.signal_weights)
    assert (again.display.name, again.display.quantities) == (cmdp.display.name, cmdp.display.quantities)
    if kind == "mixture":
        ours, theirs = (opdop.train(each, "opdop-lstd", episodes=20).regret for each in (again, cmdp))
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", LINEAR)
def test_damaged_linear_models_are_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    file = save_model(linear(kind), tmp_path / "model.npz")
    with np.load(file) as found:
        good = dict(found)
    random = np.random.default_rng(4)
    for name, array in good.items():
        for changed in (array.ravel()[:-1] if array.ndim else np.array(0), np.array(np.nan), None):
            arrays = {**good, name: changed} if changed is not None else {k: v for k, v in good.items() if k != name}
            np.savez(file, **arrays)
            with suppress(OpdopError):  # some entries may be missing or be another number
                again = load_model(file)
                assert name in ("initial", "horizon", "header", "thresholds")
                assert again.num_states >= 1
    header = json.loads(str(good["header"]))
    for key, value in (*((key, random.choice([-1, 10**9])) for key in header["features"]), ("form", "other")):
        about = {**header["features"], key: value.item() if hasattr(value, "item") else value}
        np.savez(file, **{**good, "header": np.array(json.dumps({**header, "features": about}))})
        if key not in ("kernel_norm", "signal_norm", "name"):
            with pytest.raises(InvalidModelError, match="holds no model") as refused:
                load_model(file)
            assert "\n" not in str(refused.value)


def test_small_file_of_a_large_linear_model_takes_no_memory(tmp_path: Path) -> None:
    S = 200_000
    about = {"name": "embedding", "num_states": S, "num_actions": 1, "kernel_dim": 1, "signal_dim": 1}
    header = {"format": "opdop.model/1", "features": {**about, "kernel_norm": 1, "signal_norm": 1, "form": "embedding"}}
    np.savez(
        tmp_path / "m.npz",
        header=np.array(json.dumps(header)),
        psi_left=np.ones((1, S)),
        psi_right=np.full((1, S), 1.0 / S),
        varphi=np.ones((1, S)),
        kernel_weights=np.ones(1),
        reward_weights=np.ones(1),
        utility_weights=np.ones(1),
        thresholds=np.array(1.0),
        horizon=np.array(2),
    )
    with pytest.raises(InvalidModelError, match="GB of memory"):
        load_model(tmp_path / "m.npz")


def test_plain_arrays_of_numpy_are_a_model(tmp_path: Path) -> None:
    P = np.random.default_rng(1).dirichlet(np.ones(3), size=(3, 2))
    costs = np.arange(6.0).reshape(3, 2)
    np.savez_compressed(
        tmp_path / "m.npz", transitions=P, rewards=costs, costs=costs, budgets=9.0, horizon=4, initial=1
    )
    cmdp = load_model(tmp_path / "m.npz")
    assert cmdp.display.quantities[1].constraint(float(cmdp.thresholds[0])) == "cost <= 9"
    assert cmdp.initial[1] == 1.0


def test_toml_json_and_python_are_the_same_model(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(TOML)
    toml, text = load_model(tmp_path / "shop.toml"), load_model(written(tmp_path / "shop.json", SHOP))
    kernel = np.array([[[1, 0], [0.5, 0.5]], [[1, 0], [0, 1]]])
    python = TabularCMDP(
        kernel, [[0, 30], [0, 0]], costs={"work": [[0, 3], [1, 0]]}, budgets={"work": 5.0}, horizon=4,
        units={"reward": ("profit", "dollars"), "work": "hours"},
    )  # fmt: skip
    for model in (toml, text):
        for ours, theirs in zip(arrays_of(model), arrays_of(python), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert model.display.state_names == ("open", "closed")
        assert str(solve(model)) == str(solve(python))


def test_prism_files_are_read_and_missing_choices_repeat_the_first(tmp_path: Path) -> None:
    (tmp_path / "m.tra").write_text("3 5 6\n0 0 1 0.5 go\n0 0 2 0.5 go\n0 1 0 1 stay\n1 0 2 1\n2 0 2 1\n2 1 0 1\n")
    (tmp_path / "m.lab").write_text('0="init" 1="deadlock" 2="goal"\n0: 0\n2: 2\n')
    (tmp_path / "m.srew").write_text("3 1\n2 4.0\n")
    (tmp_path / "fuel.srew").write_text("3 2\n0 1\n1 2.5\n")
    (tmp_path / "m.toml").write_text(
        'format = "opdop.model/1"\nhorizon = 5\nbudgets = {fuel = 6}\n'
        '[prism]\ntransitions = "m.tra"\nlabels = "m.lab"\nreward = "m.srew"\ncosts = {fuel = "fuel.srew"}\n'
    )
    cmdp = load_model(tmp_path / "m.toml").dense()
    kernel = cmdp.transition_matrix(0).reshape(3, 2, 3)
    np.testing.assert_array_equal(kernel[0], [[0, 0.5, 0.5], [1, 0, 0]])
    np.testing.assert_array_equal(kernel[1], [[0, 0, 1], [0, 0, 1]])
    assert cmdp.initial[0] == 1.0
    reward, fuel = cmdp.display.quantities
    assert reward.shown(5.0) == 20.0
    assert fuel.constraint(float(cmdp.thresholds[0])) == "fuel <= 6"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "x"}, "does not say format = 'opdop.model/1'"),
        ({"states": "open"}, "states are 'open'; expected a list of names, or a number"),
        ({"states": 10**12}, "states"),
        ({"rows": SHOP["rows"][:3]}, "rows are 3; expected 4, one for each state and action"),
        ({"rows": [SHOP["rows"][0]] * 4}, "is the second for state 'open' and action 'wait'"),
        ({"initial": "opne"}, "initial is 'opne'; expected one of the names. Did you mean 'open'"),
        ({"budget": {"work": 5}}, r"has 'budget'; expected .* Did you mean 'budgets'"),
        ({"budgets": {"work": 500}}, "the budget of 'work' is 500 hours; no policy can exceed it"),
        ({"budgets": {}}, "expected"),
        ({"horizon": 0}, "horizon is 0; expected at least 1"),
        ({"prism": {"transitions": "../secret.tra"}}, "expected"),
    ],
)
def test_wrong_models_in_text_are_refused_in_one_line(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = written(tmp_path / "shop.json", {**SHOP, **changes})
    with pytest.raises(InvalidModelError, match=message) as caught:
        load_model(file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{file} holds no model: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m.tra has no header"),
        ("999999999999 3 1\n0 0 0 1\n", "says 999999999999 states and 1 transitions, and has 1 lines"),
        ("1 1 1\n0 99999999 0 1\n", "a state or a choice beyond"),
        ("1 1 1\n0 0 0 one\n", "m.tra, line 2 has 'one'; expected a number"),
        ("1 1 1\n0 -1 0 1\n", "m.tra, line 2 has '-1'; expected a whole number"),
        ("1 1 1\n0 0 0 0.5\n", "sums to 0.5"),
    ],
)
def test_wrong_prism_files_name_the_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.tra").write_text(text)
    model = {"format": "opdop.model/1", "horizon": 2, "budgets": {"c": 1}, "prism": {"transitions": "m.tra"}}
    with pytest.raises(InvalidModelError, match=message):
        load_model(written(tmp_path / "m.json", model))


def test_damaged_archives_are_refused_in_one_line(tmp_path: Path) -> None:
    good = save_model(opdop.make("factored").tabular(), tmp_path / "good.npz").read_bytes()
    random, file = np.random.default_rng(2), tmp_path / "bad.npz"
    for _ in range(80):
        data = bytearray(good[: random.integers(1, len(good))] if random.random() < 0.5 else good)
        for place in random.integers(len(data), size=4):
            data[place] = random.integers(256)
        file.write_bytes(bytes(data))
        message = ""
        try:
            load_model(file)
        except OpdopError as error:
            message = str(error)
        assert "\n" not in message


def test_header_that_lies_takes_no_memory_and_nothing_is_unpickled(tmp_path: Path) -> None:
    header = np.lib.format.magic(1, 0)
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (100000, 100000, 100), }".ljust(117) + "\n"
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("transitions.npy", header + len(text).to_bytes(2, "little") + text.encode())
    with pytest.raises(InvalidModelError, match=r"transitions is float64 \[100000, 100000, 100\] in"):
        load_model(tmp_path / "m.npz")
    np.savez(tmp_path / "o.npz", transitions=np.array([{}], dtype=object))
    with pytest.raises(InvalidModelError, match="holds no model: transitions"):
        load_model(tmp_path / "o.npz")
    for name, words in (("none.npz", "there is no file"), ("model.pkl", "is no model file")):
        with pytest.raises(InvalidParameterError, match=words):
            load_model(tmp_path / name)
