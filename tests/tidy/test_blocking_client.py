"""The blocking client says what the async one says: its methods are made of that one's.

Knows: what a method becomes.  Does not call any.
"""

from __future__ import annotations

import inspect

import blocking_client
import pytest

import distkv
from tests.offenders import assert_none

MODULES = {path.name: path.read_text(encoding="utf-8") for path in blocking_client.modules()}
"""In which something is generated, by their names."""


def test_every_part_of_the_client_is_generated() -> None:
    found = {kept[3] for text in MODULES.values() for kept in blocking_client.KEPT.finditer(text)}
    methods = {base.__name__ for base in distkv.AsyncClient.__bases__}
    parts = {"AsyncClient", "AsyncTokenHold", "AsyncConsumer", *methods}
    assert found == parts


@pytest.mark.parametrize("module", MODULES)
def test_generated_methods_are_up_to_date(module: str) -> None:
    text = MODULES[module]
    assert_none([module] if blocking_client.written(text) != text else [], "run: python packaging/blocking_client.py")


def test_words_that_differ_are_all_said() -> None:
    origins = {kept[2] for text in MODULES.values() for kept in blocking_client.KEPT.finditer(text)}
    texts = "".join(map(blocking_client.source, origins))
    assert_none([old for old, _ in blocking_client.WORDS if old not in texts], "nothing is said so: take it out")


def test_clients_are_opened_with_the_same_words() -> None:
    found = [head[3] for text in MODULES.values() for head in blocking_client.HEAD.finditer(text)]
    assert found == ["open_client"]
    blocking, both = inspect.signature(distkv.connect), inspect.signature(distkv.open_client)
    left = [name for name in both.parameters if name not in blocking.parameters]
    assert left == ["open_max"]  # how many are under way at once: of a blocking client it is one
    assert [*blocking.parameters.values()] == [one for name, one in both.parameters.items() if name not in left]
    words = [inspect.getdoc(opener) for opener in (distkv.connect, distkv.open_client)]
    arguments = [line for line in str(words[1]).split("Args:")[1].splitlines() if "open_max" not in line]
    assert [line for line in arguments if line not in str(words[0])] == [
        "    SettingsError: a host, a port, a time or a bound that is none."
    ]


SAMPLE = '''
from distkv.client import conflicts, questions
from distkv.client.watch import Change

class AsyncSample:
    """A part."""

    # -- first

    @property
    def name(self) -> str:
        return self._connection.name

    async def restore(self, id: str) -> int:
        """Restore it."""
        return await self._connection.ask(conflicts.restore(id, questions.now()))

    def told(self, path: str) -> Items[tuple[str, Change]]:
        """What comes."""
        return Items(self._connection, path, Change)
'''
MARKED = """class Sample:
    # -- begin generated from async_sample.AsyncSample{}: python ...
    old = 1

    # -- end generated

    by_hand = 2
"""


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_client, "source", lambda module: {"async_sample": SAMPLE}[module])


@pytest.mark.usefixtures("sample")
def test_method_waits_for_nothing_and_imports_late_what_is_long_to_load() -> None:
    assert blocking_client.written(MARKED.format("")) == '''class Sample:
    # -- begin generated from async_sample.AsyncSample: python ...

    # -- first

    @property
    def name(self) -> str:
        return self._connection.name

    def restore(self, id: str) -> int:
        """Restore it."""
        from distkv.client import conflicts

        return self._connection.ask(conflicts.restore(id, questions.now()))

    def told(self, path: str) -> Generator[tuple[str, Change], None, None]:
        """What comes."""
        from distkv.client.watch import Change

        return self._connection.items(path, Change)

    # -- end generated

    by_hand = 2
'''


@pytest.mark.usefixtures("sample")
def test_writing_anew_what_was_written_changes_nothing() -> None:
    made = blocking_client.written(MARKED.format(""))
    assert blocking_client.written(made) == made


@pytest.mark.usefixtures("sample")
def test_one_method_may_be_taken_alone() -> None:
    made = blocking_client.written(MARKED.format(".name"))
    assert "def name" in made
    assert "def told" not in made


def test_word_of_an_event_loop_that_has_no_other_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    method = "    def leave(self) -> None:\n        self._async_stack.leave()\n"
    monkeypatch.setattr(blocking_client, "source", lambda _: f'class AsyncSample:\n    """A part."""\n\n{method}')
    with pytest.raises(ValueError, match=r"WORDS is for this: self\._async_stack\.leave"):
        blocking_client.written(MARKED.format(""))


@pytest.mark.usefixtures("sample")
def test_head_of_a_function_is_made_and_its_body_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    head = "def open_client(host: str, *, s: float,\n    open_max: int = 1,\n) -> Opening:\n"
    opener = f'{head}    """Open it."""\n    return 1\n'
    monkeypatch.setattr(blocking_client, "source", lambda _: opener)
    begin = "# -- begin generated from async_client.open_client, its head: python ...\n"
    made = blocking_client.written(f"{begin}old = 1\n    # -- end generated\n    return 2\n")
    assert made == (
        f'{begin}def connect(\n    host: str,\n    *,\n    s: float,\n) -> Client:\n    """Open it."""\n'
        "    # -- end generated\n    return 2\n"
    )
