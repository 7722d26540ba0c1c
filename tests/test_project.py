"""Facts about the repository itself: what is in it, and what must never be."""

import importlib
import pkgutil
import re
import shutil
import subprocess
import tomllib
from functools import reduce
from pathlib import Path

import pytest

import opdop

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Joined here, so that this file does not contain the names either.
REGISTRY_HOSTS = [
    ".".join(pieces)
    for pieces in [
        ("pypi", "org"),
        ("pypi", "python", "org"),
        ("pythonhosted", "org"),
        ("anaconda", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("deb", "debian", "org"),
    ]
]

# Words that mean two things or nothing in this field; CONTRIBUTING.md has those to use instead. In parts, as above.
FORBIDDEN = {
    "constraint or guarantee": re.compile("prom" + "is(e|es|ed|ing)(?![a-z])", re.IGNORECASE),
    "parameter": re.compile("kno" + "bs?(?![a-z])", re.IGNORECASE),
    "estimate": re.compile("belie" + "(ve|ves|ved|f|fs)(?![a-z])", re.IGNORECASE),
    "optimistic_init": re.compile("(?<![a-z])ho" + "pe[sd]?(?![a-z])", re.IGNORECASE),
}
TEXTS = {".py", ".md", ".toml", ".svg", ".html", ".txt", ".css", ""}


@pytest.fixture(scope="module")
def repository_files() -> list[Path]:
    """Return the files that are committed or would be: tracked files, and untracked ones that git does not ignore."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = [git, "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in listed.split("\0") if name]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.lower().replace("_", "-").split("==") for line in lines)


def test_no_cache_or_environment_is_in_the_repository(repository_files: list[Path]) -> None:
    unwanted = [
        file
        for file in repository_files
        if file.suffix in {".nbc", ".nbi", ".pyc"} or {"__pycache__", ".venv"} & set(file.parts)
    ]
    assert unwanted == []


@pytest.mark.parametrize("name", ["kernel.cache.nbi", "kernel.cache.1.nbc", "__pycache__/kernel.pyc"])
def test_git_ignores_compiled_kernels(name: str, repository_files: list[Path]) -> None:
    command = ["git", "-c", "safe.directory=*", "check-ignore", "-q", f"src/opdop/kernels/{name}"]
    assert repository_files
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def test_no_file_names_a_package_registry(repository_files: list[Path]) -> None:
    naming = [
        (str(file), host)
        for file in repository_files
        if (ROOT / file).is_file()
        for host in REGISTRY_HOSTS
        if host.encode() in (ROOT / file).read_bytes().lower()
    ]
    assert naming == []


def test_no_name_of_a_file_is_too_long_to_be_asked_about(repository_files: list[Path]) -> None:
    """`Path.exists` and the like raise an OSError for a name of 400 letters, where `os.path.exists` says no."""
    asked = re.compile(r"\.(is_dir|is_file|exists)\(\)")
    sources = [file for file in repository_files if file.parts[0] == "src" and file.suffix == ".py"]
    assert len(sources) > 100
    assert [str(file) for file in sources if asked.search((ROOT / file).read_text(encoding="utf-8"))] == []


def test_files_use_the_words_of_the_field(repository_files: list[Path]) -> None:
    wrong = []
    for file in repository_files:
        if file.suffix not in TEXTS or file.name == "CHANGELOG.md" or not (ROOT / file).is_file():
            continue
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), start=1):
            wrong += [
                f"{file}:{number}: {found[0]!r}; write {better}"
                for better, words in FORBIDDEN.items()
                if (found := words.search(line))
            ]
    assert wrong == []


def test_tests_lie_in_rooms_that_mirror_the_source() -> None:
    def rooms(folder: Path) -> set[str]:
        return {file.parent.name for file in folder.glob("*/*.py")} - {"support"}

    assert rooms(ROOT / "tests") == rooms(ROOT / "src" / "opdop")


def test_every_benchmark_is_listed_with_its_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.__main__ import main

    assert main(["--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    names = sorted(file.stem.removeprefix("bench_") for file in (ROOT / "benchmarks").glob("bench_*.py"))
    assert [line.split()[0] for line in listed] == names
    assert all(line.endswith(".") for line in listed)


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for unwanted in ("http", "--index", "--extra-index", "--find-links", "@ "):
        assert unwanted not in text
    for line in text.splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line


def test_every_core_and_dev_dependency_is_pinned() -> None:
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    names = {re.split(r"[<>=!~\[; ]", requirement)[0].lower() for requirement in wanted}
    assert names - pins().keys() == set()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "exec make test"


def test_package_is_typed() -> None:
    assert (Path(opdop.__file__).parent / "py.typed").is_file()


def test_version_is_the_same_everywhere() -> None:
    assert opdop.__version__ == PROJECT["version"]


def test_public_names_exist_and_are_listed_once() -> None:
    names = list(getattr(opdop, "__all__", []))
    assert [name for name in names if not hasattr(opdop, name)] == []
    assert len(names) == len(set(names))


def test_no_name_shadows_a_module() -> None:
    names = [found.name for found in pkgutil.walk_packages(opdop.__path__, "opdop.") if "__main__" not in found.name]
    modules = {name: importlib.import_module(name) for name in names}
    shadowed = [name for name, module in modules.items() if reduce(getattr, name.split(".")[1:], opdop) is not module]
    assert len(modules) > 80
    assert shadowed == []


def test_the_package_of_algorithms_is_also_the_function_that_lists_them() -> None:
    import opdop.algorithms.lstd

    assert opdop.algorithms is importlib.import_module("opdop.algorithms")
    assert opdop.algorithms.lstd.LSTD is opdop.LSTD
    assert "opdop-lstd" in opdop.algorithms()
