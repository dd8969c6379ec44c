"""The documentation agrees with the code, as far as a machine can see.

Knows: how the documents are marked up.  Does not judge what they say; `tests/process/test_pages.py` runs their
commands, `test_reference` looks at what is generated, and `make docs` builds it all.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from random import Random

import pytest
from docutils import nodes

from distkv.config import Limits
from distkv.core import election, handover, startup
from distkv.core.replica import Replica
from distkv.core.server_tree import phase
from distkv.engine.commit import Committer
from distkv.engine.driver import Driver
from distkv.model.event import Event, ExpiringEvent, FencedEvent, Kind, NodeName, Tick, Tock
from distkv.model.fence import Fence
from distkv.model.pages import Page
from distkv.model.path import Path as StorePath
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.services.status import get_state
from distkv.sim.told import core_settings
from distkv.storage.log import open_log
from distkv.storage.memory import MemoryDisk
from distkv.transport.pull import PeerCaller
from distkv.wire import codec, gossip, packing
from distkv.wire.frames import ROWS
from distkv.wire.message import (
    EventBatch,
    Header,
    Info,
    Ping,
    PingLink,
    PullEnd,
    SnapshotHead,
    Start,
    TickMaps,
    Tombstone,
    Update,
)
from distkv.wire.node_requests import GetState
from distkv.wire.replies import Hello, encode_hello
from tests.offenders import assert_none
from tests.process.pages import console_blocks
from tests.process.readers import ELSEWHERE, READERS
from tests.refusals import ERRORS
from tests.tidy.documents import DOCS, DOCUMENTS, PAGES, README, parsed, rows, section, text_of
from tests.tidy.sources import ROOT, file_name

LABEL = re.compile(r"\* \[([A-Z]+)-([0-9]+)\] ")
SCREEN_LINES = 24


def _text(name: str) -> str:
    return text_of(DOCS / name)


# -- form ---------------------------------------------------------------------------------------------------------


def test_document_parses_without_a_warning() -> None:
    assert_none({file_name(path): complaints for path in DOCUMENTS if (complaints := parsed(path)[1])})


def _linked_files(path: Path) -> list[str]:
    uris = [part["refuri"] for part in parsed(path)[0].findall(nodes.reference) if "refuri" in part]
    return [uri for uri in uris if "://" not in uri and not uri.startswith("mailto:")]


def test_links_to_files_have_a_target() -> None:
    linked = [(path, place) for path in DOCUMENTS for place in _linked_files(path)]
    assert linked
    assert_none([(file_name(path), place) for path, place in linked if not (path.parent / place).exists()])


def _named(pattern: str) -> list[tuple[str, str]]:
    """What documents name in this way, with the name of the document."""
    return [(file_name(path), name) for path in DOCUMENTS for name in re.findall(pattern, text_of(path), re.MULTILINE)]


def test_named_source_files_exist() -> None:
    named = _named(r"``((?:distkv|tests|packaging|docs)/[\w/.-]+\.\w+)``")
    assert named
    assert_none([(file, name) for file, name in named if not (ROOT / name).exists()])


def test_index_names_every_page() -> None:
    named = re.findall(r"<([\w/-]+\.rst)>", _text("index.rst"))
    assert set(named) == {path.relative_to(DOCS).as_posix() for path in PAGES} - {"index.rst"}


def test_every_page_with_commands_has_readers_who_type_them() -> None:
    assert {file_name(page) for page in DOCUMENTS if console_blocks(page)} == READERS.keys() | ELSEWHERE.keys()
    assert [test for page, test in ELSEWHERE.items() if Path(page).name not in (ROOT / test).read_text("utf-8")] == []


def test_readme_shows_a_command_on_its_first_screen() -> None:
    screen = text_of(README).splitlines()[:SCREEN_LINES]
    assert any(line.startswith("   $ distkv ") for line in screen)


def test_commands_stand_in_blocks_that_are_looked_for() -> None:
    assert_none(_named(r":: (?:bash|sh|shell|shell-session|zsh)$"))


def test_every_block_of_commands_has_a_reader() -> None:
    counts = {name: (len(readers), len(console_blocks(ROOT / name))) for name, readers in READERS.items()}
    assert counts
    assert_none({name: (here, blocks) for name, (here, blocks) in counts.items() if here not in (1, blocks)})


def test_make_targets_that_are_named_exist() -> None:
    rules = re.findall(r"^([a-z ]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    named = _named(r"``make ([a-z]+)")
    assert named
    assert_none([(file, target) for file, target in named if target not in targets])


def _excerpts() -> Iterator[tuple[str, str]]:
    pattern = r"^\.\. excerpt: (\S+)\n\.\. code-block:: python\n\n((?:   [^\n]*\n|\n)+)"
    for name, block in re.findall(pattern, _text("architecture.rst"), re.MULTILINE):
        yield name, textwrap.dedent(block).strip("\n")


def test_architecture_quotes_code() -> None:
    count = len(list(_excerpts()))
    assert count > 0
    assert count == _text("architecture.rst").count("code-block:: python")


def _has_lines(name: str, code: str) -> bool:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    length = len(code.splitlines())
    return any(code == textwrap.dedent("\n".join(lines[at : at + length])) for at in range(len(lines)))


def test_quoted_code_is_still_there() -> None:
    gone = [(name, code) for name, code in _excerpts() if not _has_lines(name, code)]
    assert_none(gone, "no such lines stand there any more: bring docs/architecture.rst in line")


def test_architecture_names_every_layer() -> None:
    package = ROOT / "distkv"
    layers = {path.name for path in package.iterdir() if (path / "__init__.py").exists()} | {"config", "errors"}
    assert {row[0] for row in rows(section(DOCS / "architecture.rst", "Layers"))} == layers


# -- for those who change it --------------------------------------------------------------------------------------


def _blocks_of_text(path: Path) -> list[str]:
    return [part.astext() for part in parsed(path)[0].findall(nodes.literal_block)]


def test_map_has_the_layers_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    names = {path.stem for path in (ROOT / "distkv").iterdir()} - {"__main__"}
    there = [[name for name in re.findall(r"\w+", line) if name in names] for line in layers]
    (shown,) = (block for block in _blocks_of_text(ROOT / "CONTRIBUTING.rst") if block.startswith("cli  "))
    assert [re.split(r"  +", line)[0].split(" | ") for line in shown.splitlines()] == [line for line in there if line]


def test_readme_of_tests_has_every_folder() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("**/test_*.py"))}
    table = next(parsed(ROOT / "tests" / "README.rst")[0].findall(nodes.table))
    assert {row[0] for row in rows(table)} == folders


# -- protocol -----------------------------------------------------------------------------------------------------


def test_labels_of_the_protocol_count_from_one() -> None:
    found: dict[str, list[int]] = {}
    for group, number in LABEL.findall(_text("protocol.rst")):
        found.setdefault(group, []).append(int(number))
    assert found
    assert {group: numbers for group, numbers in found.items() if numbers != [*range(1, len(numbers) + 1)]} == {}


def test_every_sentence_of_the_protocol_has_a_label() -> None:
    items = re.findall(r"^\* .*", _text("protocol.rst"), re.MULTILINE)
    assert [item for item in items if not LABEL.match(item)] == []


def test_labels_that_are_cited_exist() -> None:
    labels = {f"{group}-{number}" for group, number in LABEL.findall(_text("protocol.rst"))}
    for page in ("deviations.rst", "swim.rst"):
        cited = set(re.findall(r"\b[A-Z]{3,}-[0-9]+\b", _text(page)))
        assert cited
        assert cited - labels - {"UTF-8", "CRC-32"} == set()


def transitions_table(transitions: Mapping[tuple[StrEnum, StrEnum], StrEnum], word: str) -> str:
    """The state table of a machine as reST; `word` is what it calls a state."""
    rows = [(before.value, cause.value, after.value) for (before, cause), after in transitions.items()]
    table = [(word, "cause", f"next {word}"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


MACHINES = {
    "election": transitions_table(election.TRANSITIONS, "phase"),
    "startup": transitions_table(startup.TRANSITIONS, "state"),
    "handover": transitions_table(handover.TRANSITIONS, "phase"),
    "server tree": transitions_table(phase.TRANSITIONS, "phase"),
}


def _shown_table(machine: str) -> str:
    _, _, rest = _text("protocol.rst").partition(f".. begin transitions of {machine}\n")
    return rest.partition(".. end transitions")[0].strip()


def test_table_of_a_machine_is_that_of_the_code() -> None:
    assert {machine: _shown_table(machine) for machine in MACHINES} == MACHINES


NODE, TICK, TOCK = NodeName("a"), Tick(1), Tock(1)
HASH = bytes(8)
HEADER = Header(NODE, TICK, TOCK, 0, HASH, Start(1.0, 1))
CHAIN = (PingLink(NODE, TICK, TOCK),)
TICKS, HELD = {NODE: [TICK]}, {NODE: Ranges([(1, 2)])}
VALUE = Event(StorePath(("x",)), Kind.SET, b"\x01", ((NODE, TICK),), TOCK, 1.0)
EXPIRY = Event(StorePath(("x",)), Kind.EXPIRE, b"", ((NODE, TICK),), TOCK, 1.0)
FLEETING = ExpiringEvent(StorePath(("x",)), b"\x01", ((NODE, TICK),), TOCK, 1.0, False, 2.0)
FENCED = FencedEvent(StorePath(("x",)), Kind.SET, b"\x01", ((NODE, TICK),), TOCK, 1.0, False, 2.0, Fence(0, 1, 1, "t"))
INFO = Info(HEADER, "h:1", State.READY, TICKS, HASH, HELD, HELD, HELD, CHAIN, CHAIN)
PING = Ping(HEADER, CHAIN, "h:1", State.READY, 0, HASH)
STONE = Tombstone(StorePath(("x",)), ((NODE, TICK),), TOCK)
MAPS = TickMaps(HEADER, "h:1", State.READY, TICKS, HELD, HELD, 0, (STONE,), ((NODE, TICK),), 1, True)
SHORT_MAPS = TickMaps(HEADER, "h:1", State.READY, TICKS, {}, {}, 0, ticks_hash=HASH)
SNAPSHOT = SnapshotHead(HEADER, 1, TICKS, HELD, 1, is_stale=True)


def _names(fields: object) -> set[str]:
    assert isinstance(fields, dict)
    return set(fields)


def _message_names(message: Update | Ping | Info) -> set[str]:
    return _names(packing.unpack(gossip.encode_message(message)))


def _event_names(event: Event) -> set[str]:
    fields = codec.payload_fields(EventBatch((event,)))["events"]
    assert isinstance(fields, list)
    return _names(fields[0])


OF_HEADER = {"node", "tick", "tock", "life", "network", "start"}

FIELDS = {
    "Header": _message_names(Update(HEADER, ())) - {"events"},
    "Event": _event_names(VALUE) | _event_names(EXPIRY) | _event_names(FLEETING) | _event_names(FENCED),
    "Update": _message_names(Update(HEADER, ())) - OF_HEADER,
    "Ping": _message_names(PING) - OF_HEADER,
    "Info": _message_names(INFO) - OF_HEADER,
    "Exchange": set().union(*(_names(codec.payload_fields(maps)["maps"]) for maps in (MAPS, SHORT_MAPS))) - OF_HEADER,
    "Pull": _names(codec.payload_fields(PullEnd(HELD, HELD))["pulled"]),
    "Comparison": _names(codec.payload_fields(Page(StorePath(("x",)), 1))["page"]),
    "Download": _names(codec.payload_fields(SNAPSHOT)["snapshot"]) - OF_HEADER,
}


def _listed_fields(title: str) -> list[set[str]]:
    """Those of each section that has this title."""
    sections = parsed(DOCS / "protocol.rst")[0].findall(nodes.section)
    titled = [part for part in sections if re.match(rf"{title}(:|$)", part[0].astext())]
    return [{row[0] for row in rows(part)} for part in titled]


def test_protocol_lists_the_fields_that_are_sent() -> None:
    listed = {title: _listed_fields(title) for title in FIELDS}
    wrong = {title: found for title, found in listed.items() if found != [FIELDS[title]]}
    assert_none({title: f"{found} on the page, {FIELDS[title]} in messages" for title, found in wrong.items()})


# -- client protocol ----------------------------------------------------------------------------------------------


def _actions() -> set[str]:
    return {row.action for row in ROWS}


def test_client_protocol_has_a_section_for_every_action() -> None:
    part = section(DOCS / "client-protocol.rst", "Requests and replies")
    assert {inner[0].astext() for inner in part.findall(nodes.section)} - {"Requests and replies"} == _actions()


def test_client_protocol_lists_every_code() -> None:
    listed = rows(section(DOCS / "client-protocol.rst", "Codes"))
    assert sorted(row[0] for row in listed) == sorted({kind.code for kind in ERRORS})


def test_client_protocol_lists_the_fields_of_the_greeting() -> None:
    sent = packing.unpack(encode_hello(Hello((0, 1, 0), NODE, TICK, TOCK, State.READY, HASH, 0, request_bytes=9)))
    assert {row[0] for row in rows(section(DOCS / "client-protocol.rst", "Greeting"))} == _names(sent)


@pytest.mark.trio
async def test_client_protocol_lists_the_fields_of_get_state() -> None:
    settings = core_settings(NODE, "h:1", Start(1.0, 1), network_id=HASH)  # a node without data: it waits for something
    driver = Driver(Replica(settings, Random(0)), Committer(open_log(MemoryDisk())), None, PeerCaller(), Limits())
    driver.begin()
    sent = packing.unpack(get_state(driver, GetState(1)))
    assert {row[0] for row in rows(section(DOCS / "client-protocol.rst", "get_state"))} == _names(sent) - {"seq"}
