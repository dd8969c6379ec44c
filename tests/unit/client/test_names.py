"""What `import distkv` offers, what that costs, and that both clients are one API.

Knows: names, signatures, docstrings, and which modules an import loads.  Does not know what the names do.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import distkv
from distkv.errors import RequestError
from distkv.wire.replies import reply_error
from tests.offenders import assert_none
from tests.refusals import ERRORS

ROOT = Path(__file__).parents[3]
LOOPS = {"trio", "anyio", "asyncio"}


def _errors() -> dict[str, type[Exception]]:
    """The exported errors by their name."""
    found = {name: getattr(distkv, name) for name in distkv.__all__}
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, Exception)}


def loaded_by(code: str) -> set[str]:
    """The modules that a new interpreter has after some code; -I keeps what a user set up out of it."""
    program = f"import sys; sys.path[:0] = {[str(ROOT), *sys.path]!r}\n{code}\nprint(*sys.modules)"
    call = [sys.executable, "-I", "-c", program]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300, check=True)
    return set(done.stdout.split())


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", distkv.__all__)
def test_name_is_there(name: str) -> None:
    assert getattr(distkv, name) is not None
    assert name in dir(distkv)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NotThere'"):
        distkv.NotThere  # noqa: B018


@pytest.mark.parametrize("code", sorted({kind.code for kind in ERRORS if issubclass(kind, RequestError)}))
def test_every_refusal_of_a_node_has_a_name(code: str) -> None:
    refusal = reply_error({"seq": 1, "error": "words", "code": code})
    named = {getattr(distkv, name) for name in distkv.__all__}
    assert type(refusal) in named


def test_errors_are_named_as_what_went_wrong() -> None:
    renamed = {name: kind for name, kind in _errors().items() if name != kind.__name__}
    assert renamed
    assert {f"{name}Error": kind for name, kind in renamed.items()} == {
        kind.__name__: kind for kind in renamed.values()
    }


@pytest.mark.parametrize("name", ["Exists", "ChainMismatch", "ValueMismatch"])
def test_conditions_that_do_not_hold_are_conflicts(name: str) -> None:
    assert issubclass(getattr(distkv, name), distkv.Conflict)


def test_lost_connection_is_a_kind_of_unreachable() -> None:
    assert issubclass(distkv.ConnectionLost, distkv.Unreachable)


# -- what an import costs -----------------------------------------------------------------------------------------


def test_import_of_the_package_loads_nothing_of_it() -> None:
    assert {name for name in loaded_by("import distkv") if name.startswith("distkv.")} == set()


def test_blocking_client_loads_no_event_loop() -> None:
    loaded = loaded_by("import distkv; distkv.connect; distkv.Entry; distkv.NotReady")
    assert "distkv.client.blocking" in loaded
    assert loaded & LOOPS == set()


def test_command_line_loads_no_event_loop_of_ours() -> None:
    assert loaded_by("import distkv.cli.main, distkv.cli.client") & {"trio", "anyio"} == set()


def test_async_client_loads_anyio() -> None:
    assert "anyio" in loaded_by("import distkv; distkv.open_client")


# -- two clients, one API -----------------------------------------------------------------------------------------


def _methods(kind: type) -> dict[str, object]:
    """Those of all its parts."""
    ends = {"close", "aclose"}  # what is awaited to close has another name, as in the standard library
    return {name: found for name, found in inspect.getmembers(kind) if not name.startswith("_") and name not in ends}


METHODS = sorted(_methods(distkv.Client))


def test_clients_have_the_same_methods() -> None:
    assert {"state", "get", "watch", "token", "wait_events"} <= {*METHODS}
    assert sorted(_methods(distkv.AsyncClient)) == METHODS


@pytest.mark.parametrize("kind", [distkv.Client, distkv.AsyncClient])
def test_methods_are_described(kind: type) -> None:
    assert_none([name for name, found in _methods(kind).items() if not inspect.getdoc(found)])


@pytest.mark.parametrize("name", [name for name in METHODS if inspect.isfunction(getattr(distkv.Client, name))])
def test_method_takes_the_same_arguments(name: str) -> None:
    blocking, other = (inspect.signature(getattr(kind, name)) for kind in (distkv.Client, distkv.AsyncClient))
    assert blocking.parameters == other.parameters


def test_both_are_opened_alike() -> None:
    blocking = dict(inspect.signature(distkv.connect).parameters)
    other = dict(inspect.signature(distkv.open_client).parameters)
    del other["open_max"]
    assert blocking == other
