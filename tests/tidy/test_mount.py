"""Which files outside of a service's own import it: those that are listed here, and no others.

Knows: the folders and names that belong to each service.  Does not know what the files do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs
import pytest

from tests.offenders import assert_none

ROOT = Path(__file__).parents[2] / "distkv"


@attrs.frozen
class Names:
    """How one service is found in the sources."""

    own: re.Pattern[str]
    """Its files."""
    importing: re.Pattern[str]
    """What others write that import it."""
    methods: str = ""
    """What clients can do with it; empty: nothing."""
    asked_by: re.Pattern[str] = re.compile(r"$^")
    """The files of other services, which ask this one by its requests."""
    opened_by: frozenset[str] = frozenset()
    """Where its clients are named, if they are none of the store."""


def _importing(service: str, stem: str) -> re.Pattern[str]:
    layers = rf"(?:wire|doctor|cli|client|sim)\.(?:rules\.)?\w*{stem}"
    return re.compile(rf"^ *(?:from|import) distkv\.(?:core\.{service}|{layers})", re.MULTILINE)


SERVICES: Final = {
    "tokens": Names(
        re.compile(
            r"core/tokens/|wire/(tokens?[_.]|held_tokens)|doctor/tokens|cli/token|sim/tokens/|client/(\w*token\w*"
            r"|holding\w*|claims|claim_table|keep_alive|data_writes|session_talk|session_task|session_thread)\.py"
        ),
        _importing("tokens", "token"),
        "TokenMethods",
        re.compile(r"core/accounts/(changes|inquiries)\.py"),
    ),
    "topics": Names(
        re.compile(
            r"core/topics/|wire/topics?[_.]|doctor/topics|cli/topic|sim/topics/"
            r"|client/(\w*topic\w*|producing\w*|consuming\w*)\.py"
        ),
        _importing("topics", "topic"),
        "TopicMethods",
    ),
    "accounts": Names(
        re.compile(r"core/accounts/|wire/accounts?[_.]|doctor/accounts|cli/account|sim/accounts/"),
        _importing("accounts", "account"),
        asked_by=re.compile(r"core/activity/|services/activity/"),
        opened_by=frozenset({"__init__.py"}),
    ),
    "activity": Names(
        re.compile(
            r"(core|sim|services)/activity/|wire/activity[_.]|doctor/activity|cli/activity|client/\w*activity\w*\.py"
        ),
        _importing("activity", "activity"),
        opened_by=frozenset({"__init__.py"}),
    ),
}
PUBLIC = {"__init__.py", "client/async_client.py", "client/blocking.py"}
"""The public names of the client: an import, and a class that the client is of. All else is found by `distkv.mount`."""


@pytest.fixture(params=[*SERVICES.values()], ids=[*SERVICES])
def service(request: pytest.FixtureRequest) -> Names:
    names: Names = request.param
    return names


def _public(service: Names) -> set[str]:
    return PUBLIC if service.methods else {*service.opened_by}


def _naming(service: Names) -> set[str]:
    files = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in ROOT.rglob("*.py")}
    return {name for name, text in files.items() if not service.own.search(name) and service.importing.search(text)}


def test_no_other_file_imports_the_service(service: Names) -> None:
    assert_none({name for name in _naming(service) - _public(service) if not service.asked_by.search(name)})


def test_each_file_that_is_listed_still_does(service: Names) -> None:
    assert_none(_public(service) - _naming(service))


def test_clients_name_it_in_an_import_and_among_their_classes(service: Names) -> None:
    for name in _public(service) - {"__init__.py"}:
        text = (ROOT / name).read_text("utf-8")
        assert len(service.importing.findall(text)) == 1, name
        assert len(re.findall(rf"\w*{service.methods}", text)) == 2, name
