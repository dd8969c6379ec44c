"""The content of ticks, and waiting for more of them, as a client asks for it: for programs that archive what happened.

Knows: the requests, and how their items are read.  Does not know how they travel (`protocol`), nor what becomes of the
content.

Invariant: a page's records are the node's own bytes, which nobody looked into; `ChangePage.events` checks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from distkv.client.arguments import as_path, check_flag
from distkv.client.questions import Question, Repeat
from distkv.errors import DecodeError, RequestError
from distkv.model.event import Event, NodeName
from distkv.model.lean import lean_value
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, up_to
from distkv.naming import is_node_name
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields, bad, read_node, read_ranges
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_records
from distkv.wire.request import EventsWait, GetChanges
from distkv.wire.row import WAIT_S_MAX

Ticks: TypeAlias = TickRanges | Mapping[str, Ranges | Iterable[int | Iterable[int]]]
"""Per node its ticks: `Ranges`, or a sorted list of ticks and [begin, end) pairs, as `held` of `get_state`."""

News: TypeAlias = TickRanges | Mapping[str, int | Ranges | Iterable[int | Iterable[int]]]
"""Per node what is no news: ticks, or one tick, which stands for all up to it."""


@lean_value
class ChangePage:
    """Changes of one node, in order of tick, as they are logged."""

    node: NodeName
    won: bytes
    """For each: 1 when it gave its path another value as it came to the node that tells of it, 0 when it did not, 2
    when that is not known any more."""
    records: bytes
    """The records, one after another (docs: client protocol, `get_changes`)."""

    def events(self) -> list[tuple[Event, float | None]]:
        """Each change, and when it came to the node that tells of it, by its clock; None where that is not known.

        Raises:
            DecodeError: a record cannot be read.
        """
        found: list[tuple[Event, float | None]] = []
        for record in decode_records(self.records):
            if not isinstance(record, EventRecord):
                raise bad("records", "records of events", record)
            found.append((record.event, record.arrived or None))
        return found


@lean_value
class Located:
    """Of the ticks that were asked for."""

    here: TickRanges
    """Those whose content the node has, at or below the path; empty behind pages, which have it."""
    absent: TickRanges
    """Those whose content the node has not: superseded or forgotten, or never heard of."""


def get_changes(nodes: Ticks, *, path: Path | str, content: bool = True) -> Question[ChangePage | Located]:
    """The content of ticks: a long result, whose last item says of which there is none.

    Raises:
        RequestError: `nodes` are no ticks.
    """
    wanted, place = as_ticks("nodes", nodes), as_path(path)
    check_flag("content", content)
    return Question(lambda seq: encode_request(GetChanges(seq, wanted, place, content)), _page, Repeat.ANYWHERE)


def events_wait(nodes: News, *, others: bool, timeout_s: float) -> Question[TickRanges]:
    """What is held besides these ticks, as soon as there is something.

    Raises:
        RequestError: an argument is none that a node takes.
    """
    check_flag("others", others)
    if not isinstance(nodes, Mapping):
        raise _no_ticks("nodes", nodes)
    by_tick = {node: tick for node, tick in nodes.items() if type(tick) is int}
    for node, tick in by_tick.items():
        if not is_node_name(node) or tick < 0:
            raise _no_ticks("nodes", nodes)
    known = up_to({NodeName(node): tick for node, tick in by_tick.items()})
    known |= as_ticks("nodes", {node: ticks for node, ticks in nodes.items() if not isinstance(ticks, int)})
    if type(timeout_s) not in (int, float) or not 0 <= timeout_s <= WAIT_S_MAX:
        raise RequestError(f"timeout_s is {timeout_s!r}: it must be from 0 to {WAIT_S_MAX:g}")
    return Question(
        lambda seq: encode_request(EventsWait(seq, known, timeout_s, others)),
        lambda reply: read_ranges(reply.get("held"), "held"),
        Repeat.ANYWHERE,
        wait_s=timeout_s,
    )


def as_ticks(name: str, given: object) -> TickRanges:
    """Ticks, however they were given.

    Raises:
        RequestError: they are none.
    """
    if not isinstance(given, Mapping):
        raise _no_ticks(name, given)
    try:
        return read_ranges({node: _as_list(ticks) for node, ticks in given.items()}, name)
    except (DecodeError, TypeError):
        raise _no_ticks(name, given) from None


# -- inside -------------------------------------------------------------------------------------------------------


def _as_list(ticks: object) -> list[object]:
    if isinstance(ticks, Ranges):
        return [*ticks.to_list()]
    if not isinstance(ticks, Iterable):
        raise TypeError
    return [part if isinstance(part, int) else [*part] for part in ticks]


def _no_ticks(name: str, given: object) -> RequestError:
    shown = repr(given)
    return RequestError(
        f"{name} is {shown if len(shown) <= 60 else type(given).__name__}: give each node's ticks, as 'held' of state()"
        " has them: {'a': [1, [5, 9]]}"
    )


def _page(item: Fields) -> ChangePage | Located:
    if "records" not in item:
        here = read_ranges(item["here"], "here") if "here" in item else {}
        return Located(here, read_ranges(item.get("absent"), "absent"))
    won, records = item.get("won"), item["records"]
    if type(won) is not bytes or type(records) is not bytes:
        raise bad("records", "bytes, as 'won' is", records)
    return ChangePage(read_node(item.get("node"), "node"), won, records)
