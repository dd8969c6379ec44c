"""Changelog fragments are named so that towncrier finds them, and say something.

Knows: changelog/README.rst's rule; the types are those of pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAGMENTS = sorted(path for path in (ROOT / "changelog").iterdir() if path.name != "README.rst")


def _types() -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return [entry["directory"] for entry in tomllib.load(file)["tool"]["towncrier"]["type"]]


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_fragment_name_has_a_word_and_a_known_type(path: Path) -> None:
    types = "|".join(_types())
    assert re.fullmatch(rf"\+[a-z-]+\.({types})(\.\d+)?\.rst", path.name)


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_fragment_is_a_sentence(path: Path) -> None:
    assert path.read_text(encoding="utf-8").rstrip().endswith(".")


@pytest.mark.parametrize("name", _types())
def test_readme_explains_each_type(name: str) -> None:
    assert f"``{name}``" in (ROOT / "changelog" / "README.rst").read_text(encoding="utf-8")
