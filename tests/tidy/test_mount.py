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
    r"|client/(\w*token\w*|holding\w*|claims|claim_table|keep_alive|data_writes|session_task|session_thread)\.py"
)
"""The files of the token service."""
IMPORT = re.compile(
    r"^ *(?:from|import) distkv\.(?:core\.tokens|(?:wire|doctor|cli|client|sim)\.(?:rules\.)?\w*token)", re.MULTILINE
)

YET = {
    "__init__.py", "client/arguments.py", "client/async_client.py", "client/blocking.py",
}
"""Those that name it still. A service whose parts are all found by `distkv.mount` needs none of them."""


def _naming() -> set[str]:
    files = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in ROOT.rglob("*.py")}
    return {name for name, text in files.items() if not OWN.search(name) and IMPORT.search(text)}


def test_no_other_file_imports_the_token_service() -> None:
    assert_none(_naming() - YET)


def test_each_file_that_is_listed_still_does() -> None:
    assert_none(YET - _naming())
