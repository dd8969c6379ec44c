"""What code and comments refer to is in the repository: files by their names, documents by theirs.

Knows: how such names look.  Does not look into them; `test_docs` sees to the names in documents.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from tests.offenders import assert_none

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).relative_to(ROOT)
FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("distkv", "tests", "packaging", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".sh") and path.relative_to(ROOT) != HERE
)

NAMED = re.compile(r"(?<![\w/.{}-])(?:tests|docs|packaging|changelog)/(?:[\w-]+/)*[\w-]+(?:\.\w+)?(?![\w*{])")
"""A file of the repository, with or without its ending."""
FOREIGN = re.compile(r"(?<![\w/.{}-])(?:[\w-]+\.md\b|(?:design|specs|issues?)/\w+|[Ii]ssue #?[0-9]+)")
"""What a reader of the repository does not have."""


@functools.cache
def _is_there(name: str) -> bool:
    place = ROOT / name
    return place.exists() or any(place.parent.glob(f"{place.name}.*")) or any(place.parent.glob(f"{place.name}*"))


def _found(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """A file, and what stands in it."""
    return [(str(file), text) for file in FILES for text in pattern.findall((ROOT / file).read_text("utf-8"))]


def test_files_that_are_named_exist() -> None:
    named = _found(NAMED)
    assert named
    assert_none([(file, name) for file, name in named if not _is_there(name)])


def test_documents_from_elsewhere_are_not_cited() -> None:
    assert_none(_found(FOREIGN))
