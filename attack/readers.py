"""Hostile models, policies, logs and journals: each reader gives its data or one clear error, in bounded memory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import struct
import sys
import tomllib
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.lib import format as npy

import opdop
from attack.mutations import damage, json_text, mutate_array, mutate_json, mutate_toml
from attack.sandbox import Wrong
from opdop.model.spaces import Axis, Space
from opdop.runs.log_task import read_task

# Reading a file may take so many bytes, and so many for each byte of the file; docs/reliability.md says so.
MEMORY, PER_BYTE = 2**30, 64
_KIB = 1024 if sys.platform != "darwin" else 1  # the unit of ru_maxrss
SHOP = """format = "opdop.model/1"
states = ["open", "closed"]
actions = ["wait", "sell"]
horizon = 4
initial = "open"
budgets = {work = 5.0}
rows = [
  {state = "open", action = "wait", next = "open"},
  {state = "open", action = "sell", next = {open = 0.5, closed = 0.5}, reward = 30, costs = {work = 3}},
  {state = "closed", action = "wait", next = "open", costs = {work = 1}},
  {state = "closed", action = "sell", next = "closed"},
]
"""
PRISM = """format = "opdop.model/1"
horizon = 4
budgets = {fuel = 2}
[prism]
transitions = "model.tra"
labels = "model.lab"
reward = "model.srew"
costs = {fuel = "fuel.srew"}
"""
TASK = """horizon = 2
states = ["low", "high"]
actions = 2
initial = "low"
stationary = true
[reward]
column = "profit"
range = [-5, 5]
[[constraint]]
column = "dollars"
budget = 3.5
range = [0, 4]
unit = "dollars"
"""
MARK = "code-was-run"  # the file that the code in a pickle makes


class _Code:
    """An object whose pickle runs code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (MARK, "w")


def prepare(folder: Path) -> Path:
    """Write a valid file of each kind, and the journal of an agent; return the folder, which becomes the current."""
    os.chdir(folder)
    factored = opdop.make("factored").tabular()
    opdop.save_model(factored, "dense.npz")
    opdop.save_model(factored.sparse(), "sparse.npz")
    for kind in ("mixture", "embedding"):
        opdop.save_model(opdop.make(f"random-{kind}", states=6, stages=2), f"{kind}.npz")
    random = np.random.default_rng(5)
    stages = [random.dirichlet(np.ones(2), size=(2, 2)) for _ in range(3)]
    by_stage = opdop.TabularCMDP(np.stack(stages), random.random((3, 2, 2)), random.random((3, 2, 2)), 1.0)
    opdop.save_model(by_stage.sparse(), "stages.npz")
    Path("shop.toml").write_text(SHOP)
    Path("shop.json").write_text(json.dumps(tomllib.loads(SHOP)))
    Path("prism.toml").write_text(PRISM)
    Path("model.tra").write_text("2 4 5\n0 0 0 1\n0 1 0 0.5\n0 1 1 0.5\n1 0 1 1\n1 1 0 1\n")
    Path("model.lab").write_text('0="init" 1="deadlock"\n0: 0\n1: 1\n')
    for name in ("model.srew", "fuel.srew"):
        Path(name).write_text("2 1\n1 1\n")
    space = Space(observations=(Axis.bins([0.5]), Axis(size=1)), actions=(Axis(size=2),))
    one = opdop.TabularPolicy(np.full((3, 2, 2), 0.5), space=space)
    for suffix in ("npz", "json"):
        one.save(f"one.{suffix}")
        opdop.PolicyMixture([one, one], [0.25, 0.75]).save(f"several.{suffix}")
    log = pl.DataFrame(
        {
            "episode": np.repeat(np.arange(30), 2),
            "stage": np.tile([0, 1], 30),
            "state": ["low", "high"] * 30,
            "action": random.integers(2, size=60),
            "profit": np.tile([1.5, -2.0], 30),
            "dollars": np.tile([3.0, 0.0], 30),
            "next_state": ["high", "low"] * 30,
        }
    )
    log.write_csv("log.csv")
    log.write_parquet("log.parquet")
    log.write_parquet("plain.parquet", compression="uncompressed", statistics=False)
    Path("task.toml").write_text(TASK)
    for subject in SUBJECTS:  # also loads what is compiled, whose memory is not that of a reader
        _read(subject)
    agent = _agent()
    for _ in range(5):  # last: reading the journal empties it
        for stage in range(factored.horizon):
            agent.act(stage % 3)
            agent.observe(0.5, [1.0], (stage + 1) % 3)
    agent._owner.close()  # as if it were killed: close() would empty the journal too
    return folder


def _agent() -> opdop.Agent:
    return opdop.Agent(opdop.make("factored"), folder="agent", algorithm="opdop", episodes=20, slater_gap=1.0)


def _read_model(path: Path) -> None:
    model = opdop.load_model(path)
    text = repr(model) + model._repr_html_()
    if not all(letter.isprintable() or letter == "\n" for letter in text):
        raise Wrong(f"control characters: {text!r}")


def _read_policy(path: Path) -> None:
    policy = opdop.load_policy(path)
    repr(policy)
    with contextlib.suppress(opdop.OpdopError):
        policy.act([0.0, 0], 0, np.random.default_rng(0))


def _read_log(path: Path) -> None:
    opdop.certify(path, task="task.toml")


def _read_agent(path: Path) -> None:
    agent = _agent()
    agent.close()
    if not (agent.episodes <= 5 and abs(agent.totals[0] - 3.0 * agent.episodes) < 1e-9):
        raise Wrong(f"an agent has {agent.totals[0]} of {agent.episodes} episodes")


SUBJECTS: dict[str, Callable[[Path], None]] = {
    **dict.fromkeys(
        (
            "dense.npz",
            "sparse.npz",
            "stages.npz",
            "mixture.npz",
            "embedding.npz",
            "shop.toml",
            "shop.json",
            "prism.toml",
        ),
        _read_model,
    ),
    **dict.fromkeys(("model.tra", "model.lab", "model.srew"), lambda _: _read_model(Path("prism.toml"))),
    **dict.fromkeys(("one.npz", "several.npz", "one.json", "several.json"), _read_policy),
    **dict.fromkeys(("log.csv", "log.parquet", "plain.parquet"), _read_log),
    "task.toml": lambda path: read_task(path) and None,
    "agent/episodes.jsonl": _read_agent,
    "agent/agent.npz": _read_agent,
}
COMMANDS = {
    _read_model: "check {}",
    _read_policy: "certify dense.npz --episodes 2 --policy {}",
    _read_log: "certify {} --task task.toml",
}


def _read(subject: str) -> None:
    SUBJECTS[subject](Path(subject))


def probe(state: Path, case: int) -> str:
    """Change one file, and read it; in one case of 16 by a command."""
    os.chdir(state)
    random = np.random.default_rng([8, case])
    subject = list(SUBJECTS)[case % len(SUBJECTS)]
    path = Path(subject)
    before = path.read_bytes()
    shutil.copytree("agent", "kept-agent")
    try:
        how = _change(path, random)
        size = path.stat().st_size if path.is_file() else 0
        peak = _peak()
        try:
            command = COMMANDS.get(SUBJECTS[subject])
            if command is not None and random.integers(16) == 0:
                return _by_command(command.format(subject).split(), how)
            _read(subject)
        finally:
            if _peak() > max(peak, MEMORY + PER_BYTE * size):
                raise Wrong(f"{subject}, {how}: {_peak() / 2**30:.2f} GiB of memory for {size} bytes")
            if os.path.exists(MARK):
                raise Wrong(f"{subject}, {how}: code was run")
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif os.path.lexists(path):
            path.unlink()
        shutil.rmtree("agent")
        os.rename("kept-agent", "agent")
        path.write_bytes(before)
    return "right"


def _peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


def _by_command(words: list[str], how: str) -> str:
    """Read a file by a command: it ends with a known status, and an error is one line."""
    from attack.command_line import STATUSES, call

    status, printed = call(words)
    if status not in STATUSES or "Traceback (most recent" in printed:
        raise AssertionError(f"opdop {words!r}, {how}, ends with {status!r}:\n{printed[-2000:]}")
    if any(not letter.isprintable() and letter != "\n" for letter in printed):
        raise AssertionError(f"opdop {words!r}, {how}, prints control characters: {printed[-500:]!r}")
    if status == 2 and (not printed.startswith("error: ") or printed.count("\n") != 1):
        raise AssertionError(f"opdop {words!r}, {how}, prints more than a line:\n{printed[-2000:]}")
    return "right" if status in (0, 1) else "refused"


# Changes ---------------------------------------------------------------------------------------------------------


def _change(path: Path, random: np.random.Generator) -> str:
    """Change a file in one of the ways that suit its kind; return how."""
    ways: list[Callable[[Path, np.random.Generator], str]] = [damage, damage, _other_kind_of_file]
    if path.name == "agent.npz":  # `files` has what a checksum seals
        pass
    elif path.suffix == ".npz":
        ways += [_entries, _entries, _zip]
    elif path.suffix in (".json", ".jsonl"):
        ways += [_json, _json, _hostile_text]
    elif path.suffix == ".toml":
        ways += [_toml, _toml, _hostile_text]
    elif path.suffix == ".parquet":
        ways += [_footer, _columns]
    else:
        ways += [_words, _words, _hostile_text]
    return ways[int(random.integers(len(ways)))](path, random)


def _other_kind_of_file(path: Path, random: np.random.Generator) -> str:
    path.unlink()
    kind = int(random.integers(5))
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind < 4:
        path.symlink_to("/dev/zero" if kind == 2 else "nowhere")
    return f"kind {kind} of file"


def _entries(path: Path, random: np.random.Generator) -> str:
    """Change an array of an .npz file, or the JSON text of its header."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    name = list(arrays)[int(random.integers(len(arrays)))]
    how = name
    if name == "header":
        changed, how = mutate_json(json.loads(str(arrays[name])), random)
        arrays[name] = np.array(json_text(changed))
    elif random.integers(8) == 0:
        arrays.pop(name)
    else:
        with np.errstate(all="ignore"):
            arrays[name] = mutate_array(arrays[name], random)
    (np.savez_compressed if random.integers(2) else np.savez)(path, **arrays)
    return f"entry {how}"


def _zip(path: Path, random: np.random.Generator) -> str:
    """Write an .npz file with one hostile entry: a bomb, a pickle, or a header that lies."""
    with zipfile.ZipFile(path) as archive:
        entries = {item.filename: archive.read(item) for item in archive.infolist()}
    names = list(entries)
    name = names[int(random.integers(len(names)))]
    kind = int(random.integers(10))
    shapes = ((2**62,), (10**6, 10**6), (-1,), (-2, -3), (0, 10**30), (1,) * 40)
    if kind == 0:
        entries[name] = _npy((2**28 // 8,), "<f8") + bytes(2**28)
    elif kind == 1:
        stream = io.BytesIO()
        npy.write_array(stream, np.array([_Code()], dtype=object), allow_pickle=True)
        entries[name] = stream.getvalue()
    elif kind == 2:
        shape = shapes[int(random.integers(len(shapes)))]
        entries[name] = _npy(shape, "<f8") + bytes(48)
    elif kind == 3:
        types = ("|O", "<U2000000000", "|V100", "<M8[s]", "<c16", ">f8", "|S5", "<f2", [("a", "<f8")], "<q8", "x")
        entries[name] = _npy((6,), types[int(random.integers(len(types)))]) + bytes(48)
    elif kind == 4:
        entries[name] = entries[name][:6] + bytes([int(random.integers(1, 5)), 0]) + entries[name][8:]
    elif kind == 5:
        entries[f"../{name}"] = entries.pop(name)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in entries.items():
            archive.writestr(each, data)
        if kind == 6:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                archive.writestr(name, entries[name])
    data = bytearray(written.getvalue())
    if kind >= 7:  # another size, offset or flag in a directory entry
        at = data.find(b"PK\x01\x02") if kind < 9 else data.find(b"PK\x03\x04")
        field = (8, 16, 20, 24, 42)[int(random.integers(5))]
        value = (0, 1, 2**31 - 1, 2**32 - 2, 99)[int(random.integers(5))]
        data[at + field : at + field + 4] = struct.pack("<I", value)
    path.write_bytes(bytes(data))
    return f"zip {kind} of {name}"


def _npy(shape: tuple[int, ...], descr: Any) -> bytes:
    """Return the header of an .npy file that says what it is told to say."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _json(path: Path, random: np.random.Generator) -> str:
    lines = path.read_text().splitlines()
    at = int(random.integers(len(lines)))
    text, space, check = lines[at].rpartition(" ") if path.suffix == ".jsonl" else (lines[at], "", "")
    changed, how = mutate_json(json.loads(text), random)
    lines[at] = json_text(changed) + space + check
    path.write_text("\n".join(lines) + "\n")
    return how


def _toml(path: Path, random: np.random.Generator) -> str:
    text, how = mutate_toml(path.read_text(), random)
    path.write_text(text)
    return how


def _hostile_text(path: Path, random: np.random.Generator) -> str:
    """Write a text that makes a careless parser slow, deep, large or wrong."""
    text = path.read_text()
    names = ("format", "rows", "states", "tables", "horizon")
    name = names[int(random.integers(len(names)))]
    texts: tuple[str | bytes, ...] = (
        "[" * 100_000,
        '{"a":' * 100_000,
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 100_000,
        ".".join("a" * 50_000) + " = 1\n" + text,
        ".".join(['"a"'] * 50_000) + " = 1\n" + text,
        "[" + ".".join("a" * 50_000) + "]\n" + text,
        text.replace("1", "9" * 5000),
        text.replace("2", "1e999"),
        text.replace("2", "NaN"),
        text.replace(":", f': 1, "{name}":', 1),
        f"{name} = 1\n{text}",
        text.replace("4", str(2**31 - 1)),
        text.replace("4", str(10**12)),
        text.replace('["open", "closed"]', str(2**28)),
        text.replace("open", "\\ud800"),
        text.replace("open", "x" * 10**6),
        text.encode("utf-16"),
        text.encode() + b"\xff\xfe",
        b"\xef\xbb\xbf" + text.encode(),
        text.replace("\n", "\r"),
        text.replace(" ", "\0"),
        text * 50,
        "\n" * 10**6,
        "",
    )
    kind = int(random.integers(len(texts)))
    chosen = texts[kind]
    path.write_bytes(chosen if isinstance(chosen, bytes) else chosen.encode(errors="surrogatepass"))
    return f"text {kind}"


def _words(path: Path, random: np.random.Generator) -> str:
    """Replace, remove or repeat words of lines of numbers, as those of PRISM and CSV have."""
    separator = "," if path.suffix == ".csv" else " "
    lines = path.read_text().splitlines()
    at = int(random.integers(len(lines)))
    words = lines[at].split(separator)
    place = int(random.integers(len(words)))
    values = (
        "-1",
        "1e400",
        "nan",
        "inf",
        "9" * 30,
        "",
        "x",
        '"',
        "0x1",
        "1.5",
        "2147483647",
        "\u0663",
        "é",
        "1_0",
        "=",
    )
    what = int(random.integers(6))
    if what == 0:
        words.pop(place)
    elif what == 1:
        words.insert(place, words[place])
    else:
        words[place] = values[int(random.integers(len(values)))]
    lines[at] = separator.join(words)
    path.write_text("\n".join(lines) + "\n")
    return f"line {at}: {lines[at]!r:.60}"


def _footer(path: Path, random: np.random.Generator) -> str:
    """Damage bytes of the footer of a Parquet file, which says how large everything is."""
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - length
    if random.integers(6) == 0:
        data[-8:-4] = struct.pack("<I", int(random.choice([0, 1, length - 1, length + 1, 2**31, 2**32 - 1])))
        path.write_bytes(bytes(data))
        return "length of the footer"
    for _ in range(1 + int(random.integers(3))):
        at = start + int(random.integers(length))
        data[at] = int(random.choice([0, 0xFF, 0x7F, 0x80, data[at] ^ (1 << int(random.integers(8)))]))
    path.write_bytes(bytes(data))
    return f"footer at {at - start} of {length}"


def _columns(path: Path, random: np.random.Generator) -> str:
    """Write a Parquet file whose columns have other types or values."""
    log = pl.read_parquet(path)
    name = log.columns[int(random.integers(len(log.columns)))]
    values: tuple[Any, ...] = (
        pl.lit(None),
        pl.lit(b"\xff"),
        pl.lit([1, 2]),
        pl.lit("x\x1b"),
        pl.lit(float("nan")),
        pl.lit(2**62),
        pl.lit(-1),
        pl.lit(True),
        pl.struct(pl.lit(1).alias("a")),
        pl.date(2020, 1, 1),
    )
    kind = int(random.integers(len(values) + 1))
    log = log.drop(name) if kind == len(values) else log.with_columns(values[kind].alias(name))
    log.write_parquet(path)
    return f"column {name}, {kind}"
