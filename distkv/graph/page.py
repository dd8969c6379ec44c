"""A picture as a page of its own, in which one can filter, follow an event or a tick, and go through time.

Knows: what the script of the page (page.js) is given.  Does not know how it shows that.

Invariant: the page is one file that asks no network for anything, and what a trace says can only be text in it: the
data stands in an element that holds no markup, the script makes text of it, and the page's policy forbids the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import islice
from typing import Final

import attrs

from distkv.graph.arrows import Arrow, single_ticks
from distkv.graph.palette import group_of, variables
from distkv.graph.picture import Picture, View, kinds_of
from distkv.graph.trace import EventShown, Moment, Plain, Said

MOMENTS_MAX: Final = 5000
"""So many are shown smoothly, also on a slow machine."""
TAGS_MAX: Final = 40
"""So many things of one moment are offered to be followed."""

RANGES: Final = frozenset({"update", "events", "known", "ask events"})
"""Messages whose ticks are ranges of events; the others name single ticks, or all that a node holds."""


def page(picture: Picture) -> str:
    """The whole document."""
    home = files("distkv.graph")
    parts = {
        "@TITLE@": escape(picture.title),
        "@ABOUT@": escape(picture.left_out),
        "@STYLE@": variables() + home.joinpath("page.css").read_text(encoding="utf-8"),
        "@SCRIPT@": home.joinpath("page.js").read_text(encoding="utf-8"),
        "@DATA@": _embedded(data_of(picture)),
    }
    frame = home.joinpath("page.html").read_text(encoding="utf-8")
    return re.sub("|".join(parts), lambda found: parts[found[0]], frame)


def data_of(picture: Picture) -> Plain:
    """What page.js reads. Nodes, kinds and views are named by their numbers."""
    kinds: dict[str, int] = {}
    views: list[Plain | None] = []
    number = {kind: kinds.setdefault(kind, len(kinds)) for kind in _kinds(picture)}
    return {
        "nodes": list(picture.lanes),
        "moments": [
            {
                **_moment(moment, words, number),
                "n": picture.lanes.index(moment.node) if moment.node else -1,
                "s": [[lane, _place(view, views)] for lane, view in _changes(picture.views, at)],
            }
            for at, (moment, words) in enumerate(zip(picture.moments, picture.words, strict=True))
        ],
        "arrows": [_arrow(arrow, picture.lanes, number) for arrow in picture.arrows],
        "kinds": [{"name": kind, "group": group_of(kind)} for kind in kinds],
        "views": views,
    }


# -- inside -------------------------------------------------------------------------------------------------------


def _embedded(data: Plain) -> str:
    """JSON that cannot end its element, nor begin a comment in it."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _kinds(picture: Picture) -> list[str]:
    """All that occur, those of a colour side by side."""
    found = {kind for moment in picture.moments for kind in kinds_of(moment)}
    found |= {arrow.said.kind for arrow in picture.arrows}
    return sorted(found, key=lambda kind: (group_of(kind), kind))


def _moment(moment: Moment, words: str, number: dict[str, int]) -> Plain:
    said = [*([moment.heard] if moment.heard else []), *moment.sent]
    own, *sent = (number[kind] for kind in kinds_of(moment))
    ranges = [moment.ticks, *(one.ticks for one in said if one.kind in RANGES)]
    return {
        "t": moment.at_ms,
        "k": own,
        "o": sent,
        "x": words,
        "d": [*map(_event, moment.events), *_details(moment)],
        "e": " ".join(dict.fromkeys(filter(None, ranges))),
        "w": _single_words(said),
        "g": list(islice(_tags(moment, said), TAGS_MAX)),
    }


def _arrow(arrow: Arrow, lanes: Sequence[str], number: dict[str, int]) -> Plain:
    said = arrow.said
    return {
        "f": arrow.start,
        "t": arrow.end,
        "a": lanes.index(arrow.source),
        "b": lanes.index(arrow.target) if arrow.target else -1,
        "k": number[said.kind],
        "l": arrow.is_lost,
        "p": not arrow.is_gossip,
        "e": said.ticks if said.kind in RANGES else "",
        "w": _single_words([said]),
    }


def _single_words(said: Iterable[Said]) -> str:
    """What messages name one by one: themselves, and the ticks in chains and infos."""
    words: dict[str, None] = {}
    for one in said:
        ticks = one.ticks if one.kind == "info" else ""
        words.update(dict.fromkeys([one.key, one.ask, *one.chain.split(), *ticks.split()]))
    return " ".join(filter(None, words))


def _tags(moment: Moment, said: Sequence[Said]) -> Iterator[str]:
    """What one may want to follow: the events of a moment first, then its messages, then what those name."""
    ticks = " ".join(dict.fromkeys([moment.ticks, *(one.ticks for one in said if one.kind in RANGES)]))
    seen: dict[str, None] = {}
    for tag in [*islice(single_ticks(ticks), TAGS_MAX), *_single_words(said).split()]:
        if tag not in seen:
            seen[tag] = None
            yield tag


def _event(event: EventShown) -> str:
    value = "deleted" if event.value is None else f"= {event.value}"
    return f"{event.tick} {event.path} {value} ({event.fate})"


def _details(moment: Moment) -> Iterator[str]:
    if moment.heard is not None:
        yield f"heard {_said(moment.heard)}"
    yield from (f"sent {_said(said)}" for said in moment.sent)
    if moment.closed:
        yield f"closed {moment.closed}"
    yield from moment.notes


def _said(said: Said) -> str:
    to = f" to {said.to}" if said.to else ""
    chain = f"[{said.chain}]" if said.chain else ""
    return " ".join(filter(None, [f"{said.kind} {said.key}{to}:", said.ticks, chain, said.about])).rstrip(":")


def _changes(views: Sequence[View], at: int) -> Iterator[tuple[int, Moment | None]]:
    """In which lanes a view differs from the one before."""
    before = views[at - 1] if at else (None,) * len(views[at])
    yield from ((lane, now) for lane, (old, now) in enumerate(zip(before, views[at], strict=True)) if old is not now)


def _place(moment: Moment | None, views: list[Plain | None]) -> int:
    """Where a view stands among all; -1: there is no process."""
    if moment is None:
        return -1
    wanted = ("state", "tick", "tock", "digest", "chain", "missing", "lost")
    views.append(attrs.asdict(moment, filter=lambda field, _: field.name in wanted))
    return len(views) - 1
