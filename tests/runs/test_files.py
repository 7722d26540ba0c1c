"""Files are written whole or not at all, come back bit for bit, and are never trusted when they are read."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import hashlib
import io
import json
import os
import pickle
import resource
import signal
import struct
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy

from opdop import ModelSimulator, OpdopError, PolicyMixture, Run, TabularPolicy, Task, make, train
from opdop.runs import DamagedFileError, files
from opdop.runs.files import read_arrays, write_arrays, write_whole
from opdop.runs.saved_run import KIND as RUN_KIND
from tests.support.crash_child import Unknown
from tests.support.same_runs import assert_same_run, same
from tests.support.sealed_files import SEAL, seal

KIND = "a test"
MUCH_MEMORY = 32 * 2**20
LONG = 10.0  # seconds


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return read_arrays(path, kind=KIND)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fail if this takes long or needs much memory."""

    def too_long(number: int, frame: Any) -> None:
        pytest.fail(f"still at it after {LONG} seconds")  # a BaseException: nobody catches it on the way

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, LONG)
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MUCH_MEMORY
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def refused(path: Path, load: Callable[[Path], Any] = read) -> str:
    """Check that a file gives the one clear error, in bounds; return what it says."""
    with bounded(), pytest.raises(DamagedFileError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "delete it and run again" in message
    assert len(message) < 700 + len(str(path))
    assert message.isprintable()
    return message


def folder_refused(folder: Path) -> str:
    """The same for a folder with a run."""
    return refused(folder / "run.npz", lambda path: Run.load(path.parent))


@pytest.fixture(scope="module")
def run() -> Run:
    return train("factored", episodes=40, records=6)


@pytest.fixture(scope="module")
def simulated() -> Run:
    """A run against a simulator whose model is not known."""
    cmdp = make("factored")
    problem = Unknown(ModelSimulator(cmdp, seed=3))
    return train(problem, task=Task.of(cmdp, episodes=40), episodes=40, records=6)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.npz"
    write_arrays(path, {"kind": KIND, "x": 1}, {"a": np.arange(3.0), "b": np.array(True)})
    return path


# Writing and reading back


def any_bits(seed: int, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return an array of any numbers, NaN and infinity among them."""
    rng = np.random.default_rng(seed)
    if dtype == "?":
        return rng.random(shape) < 0.5
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(rng.bytes(size), dtype).reshape(shape)


JSON = st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(max_size=8)
ARRAYS = st.builds(
    any_bits,
    st.integers(0, 2**32),
    st.sampled_from(["<f8", "<i8", "<i4", "?", "u1", "<f4", "<c16", ">f8"]),
    st.lists(st.integers(0, 5), max_size=4).map(tuple),
)


@given(
    meta=st.dictionaries(st.text(max_size=8), JSON | st.lists(JSON, max_size=3), max_size=3),
    arrays=st.dictionaries(st.sampled_from(["a", "learner.q", "_1", "9-x", "A" * 200]), ARRAYS, max_size=4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("quick_disk")
def test_what_is_written_comes_back_bit_for_bit(tmp_path: Path, meta: dict[str, Any], arrays: Any) -> None:
    path = tmp_path / "x.npz"
    meta = {**meta, "kind": KIND}
    write_arrays(path, meta, arrays)
    there, found = read(path)
    assert there == meta
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
        assert found[name].flags.writeable


def test_columns_of_a_matrix_come_back_in_order(tmp_path: Path) -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    write_arrays(tmp_path / "x.npz", {"kind": KIND}, {"transposed": matrix.T, "column": matrix[:, 1]})
    found = read(tmp_path / "x.npz")[1]
    np.testing.assert_array_equal(found["transposed"], matrix.T)
    np.testing.assert_array_equal(found["column"], matrix[:, 1])


def test_numpy_can_open_the_file(small: Path) -> None:
    with np.load(small, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["a"], np.arange(3.0))
        assert json.loads(archive["meta.json"])["x"] == 1


def test_the_same_content_gives_the_same_bytes(small: Path, tmp_path: Path) -> None:
    write_arrays(tmp_path / "again.npz", {"kind": KIND, "x": 1}, {"a": np.arange(3.0), "b": np.array(True)})
    assert (tmp_path / "again.npz").read_bytes() == small.read_bytes()


def test_numbers_of_numpy_may_be_in_the_data(tmp_path: Path) -> None:
    meta = {"kind": KIND, "whole": np.int64(3), "real": np.float32(0.5), "list": np.arange(2), "yes": np.True_}
    write_arrays(tmp_path / "x.npz", meta, {})
    assert read(tmp_path / "x.npz")[0] == {"kind": KIND, "whole": 3, "real": 0.5, "list": [0, 1], "yes": True}


@pytest.mark.parametrize(
    ("meta", "arrays"),
    [
        ({"set": {1, 2}}, {}),
        ({"self": object()}, {}),
        ({("a", "b"): 1}, {}),
        ({"large": "x" * (17 * 2**20)}, {}),
        ({}, {"objects": np.array([None])}),
        ({}, {"text": np.array(["a"])}),
        ({}, {"../escape": np.zeros(1)}),
        ({}, {"/root": np.zeros(1)}),
        ({}, {"": np.zeros(1)}),
    ],
)
def test_data_that_could_not_be_read_back_are_not_written(small: Path, meta: dict[Any, Any], arrays: Any) -> None:
    before = small.read_bytes()
    with pytest.raises(OpdopError, match=r"small\.npz cannot be written"):
        write_arrays(small, {"kind": KIND, **meta}, arrays)
    assert small.read_bytes() == before
    assert os.listdir(small.parent) == ["small.npz"]


# Whole or not at all


def test_a_failing_writer_leaves_the_old_file_and_nothing_else(small: Path) -> None:
    before = small.read_bytes()

    def write(file: Any) -> None:
        file.write(b"half")
        file.flush()
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_whole(small, write)
    assert small.read_bytes() == before
    assert os.listdir(small.parent) == ["small.npz"]


@pytest.mark.parametrize("content", ["one line\n", "größer\n", b"\x00\xff", memoryview(b"abc")])
def test_text_and_bytes_are_written_as_they_are(tmp_path: Path, content: Any) -> None:
    write_whole(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == (content.encode() if isinstance(content, str) else bytes(content))
    assert os.listdir(tmp_path) == ["file"]


def test_the_final_name_never_holds_a_part(small: Path) -> None:
    before = small.read_bytes()
    seen = []

    def write(file: Any) -> None:
        for _ in range(20):
            file.write(b"x" * 10_000)
            file.flush()
            seen.append(small.read_bytes())

    write_whole(small, write)
    assert set(seen) == {before}
    assert small.read_bytes() == b"x" * 200_000


def test_the_disk_is_told_before_the_name_changes(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            calls.append(name)
            return original(*args)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    write_whole(small, lambda file: file.write(b"x"))
    assert calls == ["fsync", "replace", "fsync"]


def test_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_whole(tmp_path / "ours", lambda file: file.write(b""))
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_full_disk_is_one_clear_error_and_keeps_the_old_file(
    small: Path, monkeypatch: pytest.MonkeyPatch, error: int, place: str
) -> None:
    before = small.read_bytes()

    def fail(*args: Any) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, place, fail)
    with pytest.raises(OpdopError, match=r"small\.npz cannot be written: .*\. What was there before is unchanged"):
        write_arrays(small, {"kind": KIND}, {"a": np.zeros(1000)})
    assert small.read_bytes() == before
    assert os.listdir(small.parent) == ["small.npz"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_device_that_is_full_is_one_clear_error(small: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    before = small.read_bytes()

    def full(path: Path, mode: str, **options: Any) -> Any:
        Path(path).touch()
        return open("/dev/full", "w+b")

    with monkeypatch.context() as patch:
        patch.setattr(files, "open", full, raising=False)
        with pytest.raises(OpdopError, match="No space left on device"):
            write_arrays(small, {"kind": KIND}, {"a": np.zeros(size)})
    assert small.read_bytes() == before
    assert os.listdir(small.parent) == ["small.npz"]


def test_a_limit_on_file_sizes_is_one_clear_error(small: Path) -> None:
    before = small.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OpdopError, match="File too large"):
            write_arrays(small, {"kind": KIND}, {"a": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert small.read_bytes() == before
    assert os.listdir(small.parent) == ["small.npz"]


def test_folders_that_cannot_be_written_are_one_clear_error(small: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "folder.npz").mkdir()
    for path in (small / "below" / "x.npz", tmp_path / "folder.npz", Path("/proc/none/x.npz"), tmp_path / ("x" * 300)):
        with pytest.raises(OpdopError, match="cannot be written") as caught:
            write_arrays(path, {"kind": KIND}, {})
        assert str(path) in str(caught.value)
    with pytest.raises(OpdopError, match="cannot be written: Not a directory"):
        run.save(small / "folder")
    assert sorted(os.listdir(tmp_path)) == ["folder.npz", "small.npz"]


def test_old_leftovers_are_removed_and_young_ones_are_not(small: Path) -> None:
    folder = small.parent
    names = [".small.npz.0123.tmp", ".small.npz.4567.tmp", ".other.npz.0123.tmp", "small.npz.tmp"]
    now = time.time()
    for name, age in zip(names, (3600, 60, 3600, 3600), strict=True):
        (folder / name).write_bytes(b"left by a killed process")
        os.utime(folder / name, (now - age, now - age))
    write_whole(small, lambda file: file.write(b"x"))
    assert sorted(os.listdir(folder)) == sorted(["small.npz", *names[1:]])


def test_a_name_with_wildcards_has_leftovers_of_its_own(tmp_path: Path) -> None:
    old = [".a.0.tmp", ".[ab].0.tmp"]
    for name in old:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    write_whole(tmp_path / "[ab]", lambda file: file.write(b"x"))
    assert sorted(os.listdir(tmp_path)) == [".a.0.tmp", "[ab]"]


def test_a_process_whose_file_was_removed_writes_it_again(small: Path) -> None:
    calls = []

    def write(file: Any) -> None:
        file.write(b"x")
        calls.append(1)
        if len(calls) == 1:  # it slept for long, and another process took its file for a leftover
            (mine,) = small.parent.glob(".*.tmp")
            os.utime(mine, (0, 0))
            write_whole(small, lambda other: other.write(b"y"))
            assert not mine.exists()

    write_whole(small, write)
    assert small.read_bytes() == b"x"
    assert os.listdir(small.parent) == ["small.npz"]


def test_many_writers_at_once_leave_one_whole_file(small: Path) -> None:
    def write_often(value: float) -> None:
        for _ in range(25):
            write_arrays(small, {"kind": KIND}, {"a": np.full(2000, value)})

    write_arrays(small, {"kind": KIND}, {"a": np.zeros(2000)})
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write_often, float(n)) for n in range(3)]
        while not all(writer.done() for writer in writers):
            a = read(small)[1]["a"]
            assert (a == a[0]).all()
        for writer in writers:
            writer.result()
    assert os.listdir(small.parent) == ["small.npz"]


# Damage


def test_a_file_cut_off_anywhere_is_refused(small: Path) -> None:
    content = small.read_bytes()
    for length in range(len(content)):
        small.write_bytes(content[:length])
        with pytest.raises(DamagedFileError, match=r"small\.npz cannot be used as a test: .*delete it and run again"):
            read(small)


def test_every_flipped_bit_is_noticed(small: Path) -> None:
    content = bytearray(small.read_bytes())
    for place in range(len(content)):
        bit = 1 << (place % 8)
        content[place] ^= bit
        small.write_bytes(content)
        with pytest.raises(DamagedFileError, match=r"small\.npz cannot be used"):
            read(small)
        content[place] ^= bit


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("quick_disk")
def test_random_damage_to_a_run_is_noticed(data: st.DataObject, run: Run, tmp_path: Path) -> None:
    path = run.save(tmp_path) / "run.npz"
    original = path.read_bytes()
    content = bytearray(original)
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=20)):
        content[place] = byte
    begin, end = sorted((data.draw(places), data.draw(places)))
    how = data.draw(st.sampled_from(["change", "cut out", "double", "append", "zero"]))
    if how == "cut out":
        del content[begin:end]
    elif how == "double":
        content[begin:begin] = content[begin:end]
    elif how == "append":
        content += content[begin : begin + 1]
    elif how == "zero":
        content[begin:end] = bytes(end - begin)
    path.write_bytes(content)
    if bytes(content) == original:
        Run.load(tmp_path)
    else:
        with pytest.raises(DamagedFileError, match=r"run\.npz cannot be used as an opdop run"):
            Run.load(tmp_path)


@given(content=st.binary(max_size=400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DamagedFileError):
        read(tmp_path / "x.npz")


# Foreign files


def savez(path: Path, **arrays: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000049454e44ae426082")

FOREIGN: dict[str, Callable[[Path], Any]] = {
    "nothing in it": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("episode,reward\n1,2\n" * 100),
    "a picture": lambda path: path.write_bytes(PNG),
    "somebody else's npz": lambda path: savez(path, a=np.zeros(3)),
    "one with our names": lambda path: savez(path, meta=np.zeros(3), policy=np.zeros(3)),
    "an empty zip": lambda path: zipfile.ZipFile(path, "w").close(),
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a pickle": lambda path: path.write_bytes(pickle.dumps({"kind": KIND})),
    "a parquet file": lambda path: pl.DataFrame({"a": [1]}).write_parquet(path),
    "a terabyte of nothing": lambda path: path.touch() or os.truncate(path, 2**40),  # type: ignore[func-returns-value]
    "zeros": lambda path: path.write_bytes(bytes(10_000)),
    "our ending alone": lambda path: path.write_bytes(SEAL + hashlib.sha256(SEAL).hexdigest().encode()),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files_are_refused(tmp_path: Path, what: str) -> None:
    FOREIGN[what](tmp_path / "run.npz")
    refused(tmp_path / "run.npz")
    folder_refused(tmp_path)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=r"there is no file .*x\.npz\."):
        read(tmp_path / "x.npz")
    with pytest.raises(DamagedFileError, match=r"there is no file .*run\.npz\."):
        Run.load(tmp_path / "none")
    with pytest.raises(DamagedFileError, match="cannot be used"):
        read(tmp_path / "x.npz" / "\0")


def test_one_kind_of_file_is_not_another(small: Path, run: Run, tmp_path: Path) -> None:
    assert "it is not an opdop run" in refused(small, lambda path: read_arrays(path, kind="an opdop run"))
    assert "it is not a test" in refused(run.save(tmp_path / "run") / "run.npz")


# Files made to do harm: everything about them is right, up to the checksum


def zipped(entries: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip of these entries, ready to be sealed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.comment = SEAL + b"0" * 64
        for name, data in entries:
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, compression
            archive.writestr(info, data)
    return stream.getvalue()


def array_bytes(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    npy.write_array(stream, array, **options)
    return stream.getvalue()


def headed(header: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """Return an .npy with any header."""
    text = header.encode("latin1")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return npy.magic(*version) + length + text + data


def described(descr: str = "'<f8'", shape: str = "(1,)", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


META = ("meta.json", json.dumps({"kind": KIND}).encode())
ONE = ("a.npy", array_bytes(np.zeros(1)))


class Trap:
    """Unpickling this leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def test_the_sealing_of_these_tests_is_right(tmp_path: Path) -> None:
    seal(tmp_path / "x.npz", zipped([META, ONE, ("b.npy", headed(described(), bytes(8)))]))
    assert list(read(tmp_path / "x.npz")[1]) == ["a", "b"]


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    pickled = pickle.dumps(Trap(mark))
    pickle.loads(pickled)
    assert mark.exists()  # it would work
    mark.unlink()
    trap = np.array([Trap(mark)], dtype=object)
    path = tmp_path / "run.npz"
    objects = array_bytes(trap, allow_pickle=True)
    for entries in ([META, ("a.npy", objects)], [("meta.json", pickled)], [META, ("a.npy", pickled)], [("a", objects)]):
        seal(path, zipped(entries))
        refused(path)
        folder_refused(tmp_path)
    for content in (pickled, objects):
        path.write_bytes(content)
        refused(path)
    with path.open("wb") as file:
        np.savez(file, meta=trap, policy=trap)
    refused(path)
    assert not mark.exists()


ARRAY_HEADERS = {
    "huge": described(shape="(1099511627776,)"),
    "huger": described(shape="(4611686018427387904, 4611686018427387904)"),
    "absurd": described(shape=f"({'9' * 4000},)"),
    "nothing times very much": described(shape="(0, 9223372036854775808)"),
    "negative": described(shape="(-1,)"),
    "twice negative": described(shape="(-1, -1)"),
    "too short": described(shape="(0,)"),
    "too long": described(shape="(2,)"),
    "no numbers": described(shape="('a',)"),
    "no shape": described(shape="None"),
    "a yes": described(shape="(True,)"),
    "many axes": described(shape=f"({'1,' * 100})"),
    "objects": described("'|O'"),
    "text": described("'<U2'"),
    "bytes": described("'|S8'"),
    "times": described("'<M8[s]'"),
    "void": described("'|V8'"),
    "fields": described("[('a', '<f4'), ('b', '<f4')]"),
    "many fields": described("[" + ",".join(f"('f{i}','<f8')" for i in range(300)) + "]"),
    "arrays in arrays": described("('<f8', (1,))"),
    "no dtype": described("'nonsense'"),
    "columns first": described(fortran="True"),
    "no dictionary": "[1, 2]\n",
    "other keys": "{'a': 1}\n",
    "code": "__import__('os').abort()\n",
    "nested": "(" * 5000 + "\n",
    "nested dictionary": "{'descr':" * 1000 + "\n",
    "long": described(shape="(1,)").replace("\n", " " * 60_000 + "\n"),
    "not Python": "\0\xff\n",
    "empty": "",
    "long integers of Python 2": described(shape="(1L,)"),
}


@pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file required additional header parsing")
@pytest.mark.parametrize("what", ARRAY_HEADERS)
def test_headers_of_arrays_are_not_trusted(tmp_path: Path, what: str) -> None:
    seal(tmp_path / "x.npz", zipped([META, ("a.npy", headed(ARRAY_HEADERS[what], bytes(8)))]))
    if what == "long integers of Python 2":  # odd, but it says the truth
        assert read(tmp_path / "x.npz")[1]["a"].tolist() == [0.0]
    else:
        refused(tmp_path / "x.npz")


NOT_ARRAYS = {
    "empty": b"",
    "short": b"\x93NUMPY",
    "text": b"hello",
    "another version": headed(described(), bytes(8), (2, 0)),
    "a version to come": headed(described(), bytes(8), (9, 9)),
    "a header longer than the file": npy.magic(1, 0) + b"\xff\xff{}",
    "a bool of 2": headed(described("'|b1'"), b"\x02"),
    "data left over": ONE[1] + b"\0",
    "data missing": ONE[1][:-1],
}


@pytest.mark.parametrize("what", NOT_ARRAYS)
def test_what_is_no_array_is_refused(tmp_path: Path, what: str) -> None:
    seal(tmp_path / "x.npz", zipped([META, ("a.npy", NOT_ARRAYS[what])]))
    refused(tmp_path / "x.npz")


METAS = {
    "empty": b"",
    "a list": b"[]",
    "a word": b'"an opdop run"',
    "another kind": b'{"kind": "another"}',
    "no kind": b"{}",
    "a kind of numbers": b'{"kind": NaN}',
    "a kind of lists": b'{"kind": ["a test"]}',
    "cut off": b'{"kind": "a te',
    "not UTF-8": b'{"kind": "a test", "x": "\xff"}',
    "nested": b'{"kind": "a test", "x": ' + b"[" * 200_000,
    "nested and closed": b'{"kind": "a test", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nested objects": b'{"a":' * 200_000,
    "a long number": b'{"kind": "a test", "x": ' + b"9" * 100_000 + b"}",
    "large": b" " * (17 * 2**20) + b'{"kind": "a test"}',
    "a pickle": pickle.dumps({"kind": KIND}),
}


@pytest.mark.parametrize("what", METAS)
def test_odd_data_are_refused(tmp_path: Path, what: str) -> None:
    seal(tmp_path / "x.npz", zipped([("meta.json", METAS[what]), ONE]))
    refused(tmp_path / "x.npz")


NAMES = [
    "../a.npy",
    "../../../../tmp/a.npy",
    "/tmp/a.npy",
    "..\\a.npy",
    "C:\\a.npy",
    "folder/a.npy",
    "folder/",
    ".npy",
    "..npy",
    "",
    "a",
    "a.npy.exe",
    "a.pkl",
    "a\x1b[31m.npy",
    "a\n.npy",
    "ä.npy",
    "x" * 60_000 + ".npz",
    "Meta.json",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    seal(tmp_path / "x.npz", zipped([META, (name, ONE[1])]))
    refused(tmp_path / "x.npz")
    assert os.listdir(tmp_path) == ["x.npz"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("entries", [[META, ONE, ONE], [META, META, ONE], [ONE], []], ids=["a", "meta", "no meta", "0"])
def test_names_that_are_there_twice_or_not_at_all_are_refused(tmp_path: Path, entries: Any) -> None:
    seal(tmp_path / "x.npz", zipped(entries))
    refused(tmp_path / "x.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, compression: int) -> None:
    bomb = headed(described(shape=f"({2**22},)"), bytes(2**25))
    seal(tmp_path / "x.npz", zipped([META, ("a.npy", bomb)], compression))
    assert (tmp_path / "x.npz").stat().st_size < 2**17
    assert "compressed" in refused(tmp_path / "x.npz")


def central(content: bytes, entry: int) -> int:
    """Return where a zip's directory tells of an entry."""
    place = -1
    for _ in range(entry + 1):
        place = content.index(b"PK\x01\x02", place + 1)
    return place


def changed(content: bytes, place: int, form: str, value: int) -> bytes:
    new = bytearray(content)
    struct.pack_into(form, new, place, value)
    return bytes(new)


def overlapping(content: bytes) -> bytes:
    """Return a zip whose directory names one large entry a hundred times."""
    begin, end = central(content, 1), content.index(b"PK\x05\x06")
    entry, tail = content[begin:end], bytearray(content[end:])
    struct.pack_into("<HHI", tail, 8, 101, 101, (begin - content.index(b"PK\x01\x02")) + 100 * len(entry))
    copies = [entry[:46] + f"{n:05d}".encode() + entry[51:] for n in range(100)]
    return content[:begin] + b"".join(copies) + bytes(tail)


LARGE = ("aaaaa.npy", array_bytes(np.zeros(2**17)))
STRUCTURES: dict[str, Callable[[bytes], bytes]] = {
    "encrypted": lambda zip: changed(zip, central(zip, 1) + 8, "<H", 1),
    "encrypted in both places": lambda zip: changed(
        changed(zip, central(zip, 1) + 8, "<H", 1), zip.index(b"PK\x03\x04", 50) + 6, "<H", 1
    ),
    "strongly encrypted": lambda zip: changed(zip, central(zip, 1) + 8, "<H", 0x41),
    "patched": lambda zip: changed(zip, central(zip, 1) + 8, "<H", 0x20),
    "an unknown compression": lambda zip: changed(zip, central(zip, 1) + 10, "<H", 99),
    "a wrong checksum": lambda zip: changed(zip, central(zip, 1) + 16, "<I", 1),
    "another packed size": lambda zip: changed(zip, central(zip, 1) + 20, "<I", 100),
    "a larger size": lambda zip: changed(zip, central(zip, 1) + 24, "<I", 2**31),
    "a size slightly larger": lambda zip: changed(zip, central(zip, 1) + 24, "<I", len(LARGE[1]) + 1),
    "a smaller size": lambda zip: changed(zip, central(zip, 1) + 24, "<I", 50),
    "sizes beyond 32 bits that are not there": lambda zip: changed(zip, central(zip, 1) + 24, "<I", 2**32 - 1),
    "an entry elsewhere": lambda zip: changed(zip, central(zip, 1) + 42, "<I", 7),
    "an entry beyond the end": lambda zip: changed(zip, central(zip, 1) + 42, "<I", 2**31),
    "the data of another entry": lambda zip: changed(zip, central(zip, 1) + 42, "<I", 0),
    "another name in the entry itself": lambda zip: zip.replace(b"aaaaa.npy", b"bbbbb.npy", 1),
    "a version to come": lambda zip: changed(zip, central(zip, 1) + 6, "<H", 255),
    "a directory elsewhere": lambda zip: changed(zip, zip.index(b"PK\x05\x06") + 16, "<I", 3),
    "a directory beyond the end": lambda zip: changed(zip, zip.index(b"PK\x05\x06") + 16, "<I", 2**31),
    "a directory of no size": lambda zip: changed(zip, zip.index(b"PK\x05\x06") + 12, "<I", 0),
    "a directory of absurd size": lambda zip: changed(zip, zip.index(b"PK\x05\x06") + 12, "<I", 2**32 - 1),
    "no directory": lambda zip: zip.replace(b"PK\x01\x02", b"PK\x01\x03"),
    "no end": lambda zip: zip.replace(b"PK\x05\x06", b"PK\x05\x07"),
    "entries that overlap": overlapping,
}


@pytest.mark.parametrize("what", STRUCTURES)
def test_odd_archives_are_refused(tmp_path: Path, what: str) -> None:
    seal(tmp_path / "x.npz", STRUCTURES[what](zipped([META, LARGE])))
    refused(tmp_path / "x.npz")


def test_many_entries_cost_no_more_than_a_multiple_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    seal(path, zipped([META, *((f"{n}.npy", b"") for n in range(5000))]))
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFileError):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 20 * path.stat().st_size
    finally:
        tracemalloc.stop()


def test_arrays_inside_of_arrays_are_refused(tmp_path: Path) -> None:
    """Each entry's data hold the next entry as a whole; one by one all of them are right."""
    data, infos = bytes(2**20), []
    for n in range(100):
        info = zipfile.ZipInfo(f"{n}.npy")
        data = headed(described("'|u1'", f"({len(data)},)"), data)
        info.file_size = info.compress_size = len(data)
        info.CRC = zlib.crc32(data)
        data = info.FileHeader() + data
        infos.append((info, len(data)))
    for info, length in infos:
        info.header_offset = len(data) - length
    stream = io.BytesIO(data)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.comment = SEAL + b"0" * 64
        archive.writestr(*META)
        for info, _ in infos:
            archive.filelist.append(info)
            archive.NameToInfo[info.filename] = info
    seal(tmp_path / "x.npz", stream.getvalue())
    assert "larger than the file" in refused(tmp_path / "x.npz")


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("quick_disk")
def test_random_changes_with_the_right_checksum_give_a_run_or_the_one_error(
    data: st.DataObject, run: Run, tmp_path: Path
) -> None:
    path = run.save(tmp_path) / "run.npz"
    content = bytearray(path.read_bytes())
    places = st.integers(0, len(content) - 1 - 64 - len(SEAL))
    lengths = st.sampled_from([1, 1, 1, 2, 4, 8, 40])
    for _ in range(data.draw(st.integers(1, 4))):
        place, length = data.draw(places), data.draw(lengths)
        new = data.draw(
            st.binary(min_size=length, max_size=length) | st.sampled_from([bytes(length), b"\xff" * length])
        )
        content[place : place + length] = new
    seal(path, bytes(content)[: len(content) - 64 - len(SEAL)] + SEAL + b"0" * 64)
    with bounded(), contextlib.suppress(DamagedFileError):
        Run.load(tmp_path)


# Runs


def test_a_run_comes_back_as_it_was(run: Run, simulated: Run, tmp_path: Path) -> None:
    assert run.optimum is not None
    assert simulated.optimum is None
    assert isinstance(simulated.mixture, PolicyMixture)
    for each in (run, simulated):
        loaded = Run.load(each.save(tmp_path))
        assert_same_run(each, loaded)
        assert loaded.snapshot is None
        assert sorted(os.listdir(tmp_path)) == ["history.parquet", "run.npz"]


@pytest.mark.parametrize("problem", ["gridworld", "inventory", "media-streaming", "queue", "river-crossing"])
def test_the_words_of_a_problem_come_back_with_the_run(run: Run, problem: str, tmp_path: Path) -> None:
    told = Run(**{**{f.name: getattr(run, f.name) for f in fields(Run)}, "display": make(problem).display})
    assert Run.load(told.save(tmp_path)).display == told.display


def test_a_policy_that_sums_to_nearly_one_comes_back_bit_for_bit(run: Run, tmp_path: Path) -> None:
    table = np.array(run.policy.table)
    table[0, 0] = [0.3, 0.7 + 1e-12]
    odd = Run(**{**{f.name: getattr(run, f.name) for f in fields(Run)}, "policy": TabularPolicy.trusted(table)})
    assert same(Run.load(odd.save(tmp_path)).policy, odd.policy)


def test_a_run_is_saved_whatever_a_learner_calls_a_constant(run: Run, tmp_path: Path) -> None:
    constants = {"a": np.float64(1.0), "b": np.arange(3), "c": object, "d": float("inf"), "e": Path("x")}
    odd = Run(**{**{f.name: getattr(run, f.name) for f in fields(Run)}, "constants": constants})
    loaded = Run.load(odd.save(tmp_path)).constants
    assert loaded == {"a": 1.0, "b": [0, 1, 2], "c": str(object), "d": float("inf"), "e": "x"}


def test_the_history_is_there_for_other_programs_and_not_read_again(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path)
    assert same(pl.read_parquet(tmp_path / "history.parquet"), run.history_in_units())
    for content in (b"", b"PAR1", (tmp_path / "history.parquet").read_bytes()[:-20] + bytes(20)):
        (tmp_path / "history.parquet").write_bytes(content)
        assert_same_run(run, Run.load(tmp_path))
    (tmp_path / "history.parquet").unlink()
    assert_same_run(run, Run.load(tmp_path))


def test_a_run_that_cannot_be_saved_leaves_the_one_before(
    run: Run, simulated: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.save(tmp_path)

    def fail(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OpdopError, match=r"run\.npz cannot be written: No space left on device"):
            simulated.save(tmp_path)
    assert_same_run(run, Run.load(tmp_path))


def nan_at_start(array: Any) -> Any:
    new = np.array(array)
    new.ravel()[0] = np.nan
    return new


CHANGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "a policy of NaN": lambda meta, arrays: arrays.update(policy=nan_at_start(arrays["policy"])),
    "a mixture of NaN": lambda meta, arrays: arrays.update(mixture=nan_at_start(arrays["mixture"])),
    "a policy that is none": lambda meta, arrays: arrays.update(policy=arrays["policy"] * 2),
    "a negative policy": lambda meta, arrays: arrays.update(policy=arrays["policy"] * [-1, 1]),
    "a policy in other numbers": lambda meta, arrays: arrays.update(policy=arrays["policy"].astype(np.float32)),
    "a mixture of another size": lambda meta, arrays: arrays.update(mixture=arrays["mixture"][:1]),
    "an optimum of another size": lambda meta, arrays: arrays.update(optimum_policy=arrays["optimum_policy"][:, :1]),
    "thresholds of NaN": lambda meta, arrays: arrays.update(thresholds=nan_at_start(arrays["thresholds"])),
    "more thresholds": lambda meta, arrays: arrays.update(thresholds=np.ones(2)),
    "thresholds of another shape": lambda meta, arrays: arrays.update(thresholds=np.ones((1, 1))),
    "an average of another size": lambda meta, arrays: arrays.update(average=np.ones(5)),
    "complex values": lambda meta, arrays: arrays.update(last=arrays["last"].astype(complex)),
    "multipliers of NaN": lambda meta, arrays: arrays.update(optimum_dual=nan_at_start(arrays["optimum_dual"])),
    "no history": lambda meta, arrays: [arrays.pop(name) for name in list(arrays) if name.startswith("history")],
    "an empty history": lambda meta, arrays: arrays.update(
        {name: array[:0] for name, array in arrays.items() if name.startswith("history")}
    ),
    "a column of another length": lambda meta, arrays: arrays.update({"history.regret": np.zeros(3)}),
    "a column of whole numbers": lambda meta, arrays: arrays.update(
        {"history.regret": arrays["history.regret"].astype(np.int64)}
    ),
    "a column that is none": lambda meta, arrays: arrays.update({"history.x": np.zeros((2, 2))}),
    "episodes backwards": lambda meta, arrays: arrays.update({"history.episode": arrays["history.episode"][::-1]}),
    "episodes before the first": lambda meta, arrays: arrays.update({"history.episode": arrays["history.episode"] - 9}),
    "seconds that are none": lambda meta, arrays: meta.update(seconds="long"),
    "seconds of NaN": lambda meta, arrays: meta.update(seconds=float("nan")),
    "seconds of yes": lambda meta, arrays: meta.update(seconds=True),
    "a list for the arguments": lambda meta, arrays: meta.update(config=[]),
    "no constants": lambda meta, arrays: meta.pop("constants"),
    "a number for the display": lambda meta, arrays: meta.update(display=3),
    "a name that is none": lambda meta, arrays: meta["display"].update(name=["x"]),
    "names that are none": lambda meta, arrays: meta["display"].update(state_names=[1]),
    "a quantity that is none": lambda meta, arrays: meta["display"].update(quantities=[{"name": "x"}]),
    "a scale that is none": lambda meta, arrays: meta["display"]["quantities"][0].update(scale="x"),
    "a map that is none": lambda meta, arrays: meta["display"].update(geometry={"cells": 3}),
    "parameters that are none": lambda meta, arrays: meta["display"].update(parameters=[1]),
    "a method that is none": lambda meta, arrays: meta.update(optimum={"method": 1, "passes": 1}),
    "passes that are none": lambda meta, arrays: meta["optimum"].update(passes="1"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_files_with_a_right_checksum_that_are_not_runs_are_refused(run: Run, tmp_path: Path, what: str) -> None:
    path = run.save(tmp_path) / "run.npz"
    meta, arrays = read_arrays(path, kind=RUN_KIND)
    CHANGES[what](meta, arrays)
    write_arrays(path, meta, arrays)
    folder_refused(tmp_path)


@pytest.mark.usefixtures("quick_disk")
def test_nothing_in_a_run_can_be_left_out(run: Run, simulated: Run, tmp_path: Path) -> None:
    for each in (run, simulated):
        path = each.save(tmp_path) / "run.npz"
        meta, arrays = read_arrays(path, kind=RUN_KIND)
        for name in arrays:
            if name != "last":  # a run without a model has none
                write_arrays(path, meta, {key: array for key, array in arrays.items() if key != name})
                folder_refused(tmp_path)
        for name in meta:
            write_arrays(path, {key: value for key, value in meta.items() if key != name}, arrays)
            folder_refused(tmp_path)
