"""Changelog fragments are named so that towncrier finds them, and say something.

Knows: changelog/README.rst's rule; the types are those of pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.offenders import assert_none

ROOT = Path(__file__).parents[2]
README = ROOT / "changelog" / "README.rst"
FRAGMENTS = sorted(path for path in README.parent.iterdir() if path != README)
"""None after a release."""


def _types() -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return [entry["directory"] for entry in tomllib.load(file)["tool"]["towncrier"]["type"]]


def _misnamed(names: list[str]) -> list[str]:
    pattern = re.compile(rf"\+[a-z-]+\.({'|'.join(_types())})(\.\d+)?\.rst")
    return [name for name in names if not pattern.fullmatch(name)]


def test_name_without_a_plus_or_a_known_type_is_found() -> None:
    wrong = ["watches.added.rst", "+watches.new.rst", "+watches.added.txt", "+7.added.rst"]
    assert _misnamed(["+watches.added.rst", "+watches.fixed.2.rst", *wrong]) == wrong


def test_fragment_names_have_a_word_and_a_known_type() -> None:
    assert_none(_misnamed([path.name for path in FRAGMENTS]))


def test_fragments_are_sentences() -> None:
    texts = {path.name: path.read_text(encoding="utf-8").rstrip() for path in FRAGMENTS}
    assert_none([name for name, text in texts.items() if not text.endswith(".")])


def test_readme_explains_each_type() -> None:
    text, types = README.read_text(encoding="utf-8"), _types()
    assert types
    assert_none([name for name in types if f"``{name}``" not in text])
