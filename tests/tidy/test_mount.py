"""Which files outside of a service's own import it: those that are listed here, and no others.

Knows: the folders and names that belong to tokens.  Does not know what the files do.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.offenders import assert_none

ROOT = Path(__file__).parents[2] / "distkv"
OWN = re.compile(
    r"core/tokens/|wire/(tokens?[_.]|held_tokens)|doctor/tokens|cli/token|sim/tokens/"
    r"|client/(\w*token\w*|holding\w*|claims|claim_table|keep_alive|data_writes|session_talk|session_task|session_thread)\.py"
)
"""The files of the token service."""
IMPORT = re.compile(
    r"^ *(?:from|import) distkv\.(?:core\.tokens|(?:wire|doctor|cli|client|sim)\.(?:rules\.)?\w*token)", re.MULTILINE
)

PUBLIC = {"__init__.py", "client/async_client.py", "client/blocking.py"}
"""The public names of the client: an import, and a class that the client is of. All else is found by `distkv.mount`."""


def _naming() -> set[str]:
    files = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in ROOT.rglob("*.py")}
    return {name for name, text in files.items() if not OWN.search(name) and IMPORT.search(text)}


def test_no_other_file_imports_the_token_service() -> None:
    assert_none(_naming() - PUBLIC)


def test_each_file_that_is_listed_still_does() -> None:
    assert_none(PUBLIC - _naming())


def test_clients_name_it_in_an_import_and_among_their_classes() -> None:
    for name in PUBLIC - {"__init__.py"}:
        text = (ROOT / name).read_text("utf-8")
        assert len(IMPORT.findall(text)) == 1, name
        assert len(re.findall(r"\w*TokenMethods", text)) == 2, name
