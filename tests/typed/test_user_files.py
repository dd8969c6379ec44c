"""The package is typed for those who use it: mypy, strict, as a user runs it on a file of his.

Knows: how to install the package as a user has it, with its `py.typed`, and which pages of the documentation have
examples.  Does not know what the types are: the two files beside this one do.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.process.test_python_docs import DOCS, PAGES, examples

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "distkv"

COMPLAINT = re.compile(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]$")


def install(directory: Path, *, is_typed: bool = True) -> Path:
    """An environment with this package and what it needs; its interpreter."""
    venv.create(directory, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    shutil.copytree(PACKAGE, site / "distkv", ignore=shutil.ignore_patterns("__pycache__"))
    if not is_typed:
        (site / "distkv" / "py.typed").unlink()
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return directory / "bin" / "python"


def check(python: Path, directory: Path, *names: str) -> tuple[int, str]:
    """What mypy says of these files of the directory, where nothing but they is in reach."""
    arguments = ["--strict", "--no-error-summary", "--config-file=", "--cache-dir", str(directory / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments, "--python-executable", str(python), *names],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def bring(directory: Path, *names: str) -> None:
    """Copy files that lie beside this one."""
    for name in names:
        shutil.copy(HERE / name, directory)


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """By file: the lines that mypy complains of, and its codes."""
    directory = tmp_path_factory.mktemp("user")
    bring(directory, "user_file.py", "wrong_file.py")
    _, output = check(install(directory / "venv"), directory, "user_file.py", "wrong_file.py")
    found: dict[str, list[tuple[int, str]]] = {"user_file.py": [], "wrong_file.py": []}
    for line in output.splitlines():
        if ": note: " not in line:
            match = COMPLAINT.match(line)
            assert match, output
            found[match[1]].append((int(match[2]), match[3]))
    return found


def test_good_use_is_accepted(complaints: dict[str, list[tuple[int, str]]]) -> None:
    assert complaints["user_file.py"] == []


def test_each_wrong_use_is_refused(complaints: dict[str, list[tuple[int, str]]]) -> None:
    lines = (HERE / "wrong_file.py").read_text(encoding="utf-8").splitlines()
    marked = [(at, line.rpartition("  # ")[2]) for at, line in enumerate(lines, 1) if "  # " in line]
    assert complaints["wrong_file.py"] == marked


def test_package_without_its_marker_would_be_refused(tmp_path: Path) -> None:
    bring(tmp_path, "user_file.py")
    code, output = check(install(tmp_path / "venv", is_typed=False), tmp_path, "user_file.py")
    assert code == 1
    assert "module is installed, but missing library stubs or py.typed marker" in output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_examples_of_the_documentation_are_accepted(tmp_path: Path, page: Path) -> None:
    names = []
    for number, (program, _) in enumerate(examples(page)):
        names.append(f"example_{number}.py")
        (tmp_path / names[-1]).write_text(program, encoding="utf-8")
    assert names
    assert check(install(tmp_path / "venv"), tmp_path, *names) == (0, "")
