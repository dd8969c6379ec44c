"""The documentation agrees with the code, as far as a machine can see.

Knows: how the documents are marked up.  Does not judge what they say; `tests/process/test_pages.py` runs their
commands, `test_reference` looks at what is generated, and `make docs` builds it all.
"""

from __future__ import annotations

import inspect
import io
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from random import Random

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives

from distkv import errors
from distkv.config import Limits
from distkv.core import election, handover, startup
from distkv.core.ready import CoreSettings
from distkv.core.replica import Replica
from distkv.core.server_tree import phase
from distkv.engine.commit import Committer
from distkv.engine.driver import Driver
from distkv.model.event import Event, ExpiringEvent, FencedEvent, Kind, NodeName, Tick, Tock
from distkv.model.fence import Fence
from distkv.model.pages import Page
from distkv.model.path import Path as StorePath
from distkv.model.ranges import Ranges
from distkv.services.status import get_state
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
    State,
    TickMaps,
    Tombstone,
    Update,
)
from distkv.wire.replies import Hello, encode_hello
from distkv.wire.request import GetState
from tests.process.pages import console_blocks
from tests.process.readers import ELSEWHERE, READERS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.rst"
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.rst"))
BESIDE = ("CONTRIBUTING.rst", "tests/README.rst", "changelog/README.rst", "packaging/bench/README.rst")
"""Documents for those who change distkv; no pages of the documentation."""
DOCUMENTS = [README, *PAGES, *(ROOT / name for name in BESIDE)]

LABEL = re.compile(r"\* \[([A-Z]+)-([0-9]+)\] ")

def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


class _Ignored(Directive):
    """What only Sphinx knows."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return []


directives.register_directive("toctree", _Ignored)
directives.register_directive("literalinclude", _Ignored)


def _parsed(path: Path) -> tuple[nodes.document, str]:
    """The document, and what docutils has to complain about."""
    complaints = io.StringIO()
    settings = {
        "warning_stream": complaints,
        "report_level": 2,
        "halt_level": 5,
        "syntax_highlight": "none",
        "_disable_config": True,
    }
    found = publish_doctree(path.read_text(encoding="utf-8"), source_path=str(path), settings_overrides=settings)
    return found, complaints.getvalue()


def _section(path: Path, title: str) -> nodes.section:
    """The one section whose title begins so."""
    document, _ = _parsed(path)
    found = [part for part in document.findall(nodes.section) if part[0].astext().startswith(title)]
    assert len(found) == 1, f"{_name(path)} has {len(found)} sections that begin with {title!r}"
    return found[0]


def _rows(part: nodes.Element) -> list[list[str]]:
    """The rows of all tables in a part of a document, without heads."""
    bodies = part.findall(nodes.tbody)
    return [[cell.astext() for cell in row] for body in bodies for row in body.findall(nodes.row)]


# -- form ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_document_parses_without_a_warning(path: Path) -> None:
    assert _parsed(path)[1] == ""


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_links_to_files_have_a_target(path: Path) -> None:
    uris = [part["refuri"] for part in _parsed(path)[0].findall(nodes.reference) if "refuri" in part]
    places = [uri for uri in uris if "://" not in uri and not uri.startswith("mailto:")]
    assert [place for place in places if not (path.parent / place).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_named_source_files_exist(path: Path) -> None:
    named = re.findall(r"``((?:distkv|tests|packaging|docs)/[\w/.-]+\.\w+)``", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_index_names_every_page() -> None:
    named = re.findall(r"<([\w/-]+\.rst)>", _text("index.rst"))
    assert set(named) == {path.relative_to(DOCS).as_posix() for path in PAGES} - {"index.rst"}


def test_every_page_with_commands_has_readers_who_type_them() -> None:
    assert {_name(page) for page in DOCUMENTS if console_blocks(page)} == READERS.keys() | ELSEWHERE.keys()
    assert [test for page, test in ELSEWHERE.items() if Path(page).name not in (ROOT / test).read_text("utf-8")] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_commands_stand_in_blocks_that_are_looked_for(path: Path) -> None:
    assert re.findall(r":: (?:bash|sh|shell|shell-session|zsh)$", path.read_text("utf-8"), re.MULTILINE) == []


@pytest.mark.parametrize("name", READERS)
def test_every_block_of_commands_has_a_reader(name: str) -> None:
    assert len(READERS[name]) in (1, len(console_blocks(ROOT / name)))


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    targets = re.findall(r"``make ([a-z]+)", path.read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = re.findall(r"^([a-z ]+):", makefile, re.MULTILINE)
    assert set(targets) - {target for rule in rules for target in rule.split()} == set()


def _excerpts() -> Iterator[tuple[str, str]]:
    pattern = r"^\.\. excerpt: (\S+)\n\.\. code-block:: python\n\n((?:   [^\n]*\n|\n)+)"
    for name, block in re.findall(pattern, _text("architecture.rst"), re.MULTILINE):
        yield name, textwrap.dedent(block).strip("\n")


def test_architecture_quotes_code() -> None:
    assert len(list(_excerpts())) == _text("architecture.rst").count("code-block:: python")


@pytest.mark.parametrize(("name", "code"), list(_excerpts()))
def test_quoted_code_is_still_there(name: str, code: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    length = len(code.splitlines())
    runs = (textwrap.dedent("\n".join(lines[at : at + length])) for at in range(len(lines)))
    assert code in runs, f"{name} has no such lines any more: bring docs/architecture.rst in line"


def test_architecture_names_every_layer() -> None:
    package = ROOT / "distkv"
    layers = {path.name for path in package.iterdir() if (path / "__init__.py").exists()} | {"config", "errors"}
    assert {row[0] for row in _rows(_section(DOCS / "architecture.rst", "Layers"))} == layers


# -- for those who change it --------------------------------------------------------------------------------------


def _blocks_of_text(path: Path) -> list[str]:
    return [part.astext() for part in _parsed(path)[0].findall(nodes.literal_block)]


def test_map_has_the_layers_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    names = {path.stem for path in (ROOT / "distkv").iterdir()} - {"__main__"}
    there = [[name for name in re.findall(r"\w+", line) if name in names] for line in layers]
    (shown,) = (block for block in _blocks_of_text(ROOT / "CONTRIBUTING.rst") if block.startswith("cli  "))
    assert [re.split(r"  +", line)[0].split(" | ") for line in shown.splitlines()] == [line for line in there if line]


def test_readme_of_tests_has_every_folder() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("**/test_*.py"))}
    assert {row[0] for row in _rows(_parsed(ROOT / "tests" / "README.rst")[0])} == folders


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
    cited = set(re.findall(r"\b[A-Z]{3,}-[0-9]+\b", _text("deviations.rst")))
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


@pytest.mark.parametrize(
    ("machine", "drawn"),
    [
        ("election", transitions_table(election.TRANSITIONS, "phase")),
        ("startup", transitions_table(startup.TRANSITIONS, "state")),
        ("handover", transitions_table(handover.TRANSITIONS, "phase")),
        ("server tree", transitions_table(phase.TRANSITIONS, "phase")),
    ],
)
def test_table_of_a_machine_is_that_of_the_code(machine: str, drawn: str) -> None:
    _, _, rest = _text("protocol.rst").partition(f".. begin transitions of {machine}\n")
    assert rest.partition(".. end transitions")[0].strip() == drawn


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


@pytest.mark.parametrize("title", FIELDS)
def test_protocol_lists_the_fields_that_are_sent(title: str) -> None:
    document, _ = _parsed(DOCS / "protocol.rst")
    titles = [part for part in document.findall(nodes.section) if re.match(rf"{title}(:|$)", part[0].astext())]
    assert [{row[0] for row in _rows(part)} for part in titles] == [FIELDS[title]]


# -- client protocol ----------------------------------------------------------------------------------------------


def _actions() -> set[str]:
    return {row.action for row in ROWS}


def test_client_protocol_has_a_section_for_every_action() -> None:
    part = _section(DOCS / "client-protocol.rst", "Requests and replies")
    assert {inner[0].astext() for inner in part.findall(nodes.section)} - {"Requests and replies"} == _actions()


def test_client_protocol_lists_every_code() -> None:
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.DistkvError)]
    rows = _rows(_section(DOCS / "client-protocol.rst", "Codes"))
    assert sorted(row[0] for row in rows) == sorted({kind.code for kind in kinds})


def test_client_protocol_lists_the_fields_of_the_greeting() -> None:
    sent = packing.unpack(encode_hello(Hello((0, 1, 0), NODE, TICK, TOCK, State.READY, HASH, 0)))
    assert {row[0] for row in _rows(_section(DOCS / "client-protocol.rst", "Greeting"))} == _names(sent)


@pytest.mark.trio
async def test_client_protocol_lists_the_fields_of_get_state() -> None:
    settings = CoreSettings(NODE, "h:1", Start(1.0, 1), network_id=HASH)  # a node without data: it waits for something
    driver = Driver(Replica(settings, Random(0)), Committer(open_log(MemoryDisk())), None, PeerCaller(), Limits())
    driver.begin()
    sent = packing.unpack(get_state(driver, GetState(1)))
    assert {row[0] for row in _rows(_section(DOCS / "client-protocol.rst", "get_state"))} == _names(sent) - {"seq"}
