"""The pages for Python users are true: their examples run as they are printed, in their order, and print what is shown.

Knows: how to find examples, and the port that stands in them or is meant.  Does not know what they mean.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import distkv
from distkv import errors
from tests.process.servers import Servers

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = DOCS / "python.rst"
PAGES = [DOCUMENT, DOCS / "howto" / "python.rst", DOCS / "howto" / "topics.rst"]
OTHERS = {
    DOCS / "architecture.rst": "tests/tidy/test_docs.py",
    DOCS / "event-table.rst": "tests/unit/spark/test_table_docs.py",
    DOCS / "howto" / "activity.rst": "tests/process/test_activity.py",
    DOCS / "howto" / "spark.rst": "tests/spark/test_pages.py",
    DOCS / "pipeline.rst": "tests/spark/test_pages.py",
}
"""Pages whose examples are run, or compared with the code, by a test of their own."""

EXAMPLE = re.compile(r"^\.\. code-block:: (python|text)\n\n((?:    .*\n|\n)+)", re.MULTILINE)


def examples(page: Path) -> list[tuple[str, str]]:
    """Programs, and what each prints."""
    found: list[tuple[str, str]] = []
    for kind, block in EXAMPLE.findall(page.read_text(encoding="utf-8")):
        text = textwrap.dedent(block).strip("\n") + "\n"
        if kind == "python":
            found.append((text, ""))
        else:
            found[-1] = (found[-1][0], text)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_examples_print_what_is_shown(servers: Servers, tmp_path: Path, page: Path) -> None:
    server = servers.add("a")
    server.start("--transport", "solo", "--init", "hello", options=("-C", "tokens.servers=[a]"))
    server.wait_ready()
    ran = []
    for program, _ in examples(page):
        here = program.replace("27586", str(server.port)).replace("connect()", f"connect(port={server.port})")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", here],
            cwd=tmp_path,
            env=os.environ | servers.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        ran.append((program, done.stdout + done.stderr))
    assert ran == examples(page)


def test_every_example_is_found() -> None:
    shown = {page: page.read_text(encoding="utf-8").count("code-block:: python") for page in DOCS.rglob("*.rst")}
    assert {page for page, count in shown.items() if count} == {*PAGES, *OTHERS}
    assert [test for page, test in OTHERS.items() if page.name not in (DOCS.parent / test).read_text("utf-8")] == []
    assert [len(examples(page)) for page in PAGES] == [shown[page] for page in PAGES]


def test_table_of_errors_is_that_of_the_code() -> None:
    rows = re.findall(r"^``(\w+)`` +``(\w+)`` ", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    bases = {getattr(distkv, name): getattr(distkv, base) for name, base in rows}
    kinds = [getattr(distkv, name) for name in distkv.__all__]
    raised = {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, errors.DistkvError)}
    assert bases.keys() == raised - {distkv.DistkvError}
    assert bases == {kind: kind.__base__ for kind in bases}


@pytest.mark.parametrize("name", [name for name in distkv.__all__ if name[0].isupper()])
def test_every_class_is_mentioned_but_those_that_are_only_returned(name: str) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert name in {"AsyncClient", "Client", "Items", "Listed", "Written"} or re.search(rf"\b{name}\b", text)
