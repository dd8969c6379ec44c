"""docs/python.rst is true: its examples run as they are printed, in their order, and print what it says they print.

Knows: how to find examples, and the port that stands in them.  Does not know what they mean.
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

DOCUMENT = Path(__file__).parents[2] / "docs" / "python.rst"

EXAMPLE = re.compile(r"^\.\. code-block:: (python|text)\n\n((?:    .*\n|\n)+)", re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    """Programs, and what each prints."""
    found: list[tuple[str, str]] = []
    for kind, block in EXAMPLE.findall(DOCUMENT.read_text(encoding="utf-8")):
        text = textwrap.dedent(block).strip("\n") + "\n"
        if kind == "python":
            found.append((text, ""))
        else:
            found[-1] = (found[-1][0], text)
    return found


def test_examples_print_what_is_shown(servers: Servers) -> None:
    server = servers.start("a", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    ran = []
    for program, _ in examples():
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program.replace("27586", str(server.port))],
            env=os.environ | servers.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        ran.append((program, done.stdout + done.stderr))
    assert ran == examples()


def test_every_example_is_found() -> None:
    assert len(examples()) == DOCUMENT.read_text(encoding="utf-8").count("code-block:: python")


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
