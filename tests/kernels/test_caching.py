"""Facts about the cache of compiled code: it may be damaged, full, missing or foreign, and the program goes on."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from opdop.kernels import caching

SOURCE = """
from opdop.kernels.caching import njit

@njit(cache=True, fastmath=False)
def twice(x):
    return x + x
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Return a function that imports a small kernel anew, as another process would."""
    monkeypatch.setenv(caching._TOLD, "said")
    (tmp_path / "kernel.py").write_text(SOURCE)

    def load() -> Any:
        caching.source_stamp.cache_clear()
        spec = importlib.util.spec_from_file_location("kernel", tmp_path / "kernel.py")
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made.twice

    return load


def hits(kernel: Any) -> int:
    return sum(kernel.stats.cache_hits.values())


def cache_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.nb*") if path.is_file()]


def test_compiled_code_is_used_again(module: Callable[[], Any], tmp_path: Path) -> None:
    assert module()(1.5) == 3.0
    assert cache_files(tmp_path)
    again = module()
    assert again(1.5) == 3.0
    assert hits(again) == 1


def test_damaged_cache_files_are_compiled_again(module: Callable[[], Any], tmp_path: Path) -> None:
    """Each file emptied, cut in half, and with one flipped bit at random places."""
    module()(1.5)
    random = np.random.default_rng(0)
    for path in cache_files(tmp_path):
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[int(random.integers(len(whole)))] ^= 1 << int(random.integers(8))
        for damaged in (b"", whole[: len(whole) // 2], bytes(flipped)):
            path.write_bytes(damaged)
            again = module()
            assert again(1.5) == 3.0
            assert hits(again) == 0
            assert again.nopython_signatures
    intact = module()
    assert intact(1.5) == 3.0
    assert hits(intact) == 1


def test_an_edit_of_any_file_beside_it_drops_the_cache(module: Callable[[], Any], tmp_path: Path) -> None:
    module()(1.5)
    (tmp_path / "callee.py").write_text("x = 1\n")
    again = module()
    assert again(1.5) == 3.0
    assert hits(again) == 0


def test_code_without_checks_of_bounds_is_not_used_where_they_are_wanted(
    module: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module()(1.5)
    monkeypatch.setattr(caching.numba.config, "BOUNDSCHECK", 1)
    checked = module()
    assert checked(1.5) == 3.0
    assert hits(checked) == 0


def test_a_full_disk_is_said_once_and_the_kernel_runs(
    module: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(caching._TOLD)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching._CacheFile, "_dump", full)
    for _ in range(2):
        assert module()(1.5) == 3.0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "compiled code is not kept" in said
    assert "No space left on device" in said
    monkeypatch.delenv(caching._TOLD)


def test_without_any_folder_for_a_cache_the_program_works(tmp_path: Path) -> None:
    """A package that cannot be written, no home, and no folder for temporary files: one line says so."""
    program = (
        "import os, tempfile\n"
        "from numba.core import caching\n"
        "def locator(kind):  # before Numba 0.61.1 the names began with _\n"
        "    name = kind + 'CacheLocator'\n"
        "    return getattr(caching, name, None) or getattr(caching, '_' + name)\n"
        "def never(self): raise OSError(30, 'Read-only file system')\n"
        "for each in (caching._CacheLocator, locator('InTree'), locator('UserWide')):\n"
        "    each.ensure_cache_path = never\n"
        "import opdop.kernels.loops, kernel\n"
        "print(kernel.twice(1.5))\n"
    )
    (tmp_path / "kernel.py").write_text(SOURCE)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "HOME": str(tmp_path / "missing"), "TMPDIR": "/nonexistent", "PYTHONPATH": paths}
    environment.pop(caching._TOLD, None)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3.0\n"
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("opdop: compiled code is not kept")


def test_who_waits_for_another_process_takes_what_that_has_compiled(
    module: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other, mine = module(), module()
    wait, waited = caching._wait_for_lock, []

    def compile_meanwhile(file: int) -> None:
        if not waited:
            waited.append(file)
            other(1.5)
        wait(file)

    monkeypatch.setattr(caching, "_wait_for_lock", compile_meanwhile)
    assert mine(1.5) == 3.0
    assert waited
    assert hits(mine) == 1
    assert hits(other) == 0


def test_a_process_that_stopped_while_it_compiled_is_not_waited_for_for_ever(
    module: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, mine = module(), module()
    stopped._cache._begin_turn((numba.types.float64,))
    monkeypatch.setattr(caching, "_PATIENCE", 0.05)
    assert mine(1.5) == 3.0
    stopped._cache.end_turn()


def test_a_turn_ends_when_a_kernel_is_compiled_and_when_it_cannot_be(module: Callable[[], Any], tmp_path: Path) -> None:
    kernel = module()
    assert kernel(1.5) == 3.0
    with pytest.raises(numba.TypingError):
        kernel(None)
    assert not list(tmp_path.rglob("*.lock"))


def test_processes_that_compile_for_different_types_at_the_same_time_keep_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(SOURCE)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    program = "import sys, numpy, kernel; kernel.twice(getattr(numpy, sys.argv[1])(3))"
    types = ("int64", "float64", "float32", "complex128")
    environment = {**os.environ, "PYTHONPATH": paths}
    started = [subprocess.Popen([sys.executable, "-c", program, name], env=environment) for name in types]
    assert [process.wait() for process in started] == [0] * len(types)
    kept = "import kernel; print(len(kernel.twice._cache._cache_file._load_index()))"
    done = subprocess.run([sys.executable, "-c", kept], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"{len(types)}\n"
