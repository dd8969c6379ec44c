"""A picture as a Mermaid sequence diagram, for what shows those: most places where Markdown is read.

Knows: Mermaid's few rules for text.  Does not know what is said.

Invariant: no text of a trace, whatever is in it, ends a line or a statement.

Mermaid has no slanted arrows: a message stands where it arrived, and one that was lost where it left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from distkv.graph.arrows import Arrow
from distkv.graph.picture import Picture

MOMENTS_MAX: Final = 250
"""Mermaid refuses diagrams that are much larger, and nobody could read them."""

_SPECIAL: Final = re.compile(r"[^ \w.,:@=()\[\]+*/'-]", re.ASCII)


def mermaid(picture: Picture) -> str:
    """The whole diagram, with a line end."""
    return "".join(f"{line}\n" for line in _lines(picture))


def _lines(picture: Picture) -> Iterator[str]:
    lanes = {name: f"p{number}" for number, name in enumerate(picture.lanes)}
    yield "sequenceDiagram"
    yield f"  %% {_plain(picture.title)}"
    yield from (f"  participant {alias} as {_text(name)}" for name, alias in lanes.items())
    wide = ",".join(dict.fromkeys([*lanes.values()][:1] + [*lanes.values()][-1:]))
    if picture.left_out:
        yield f"  Note over {wide}: {_text(picture.left_out)}"
    arriving: dict[int, list[Arrow]] = {}
    leaving: dict[int, list[Arrow]] = {}
    for arrow in picture.arrows:
        if arrow.end is not None:
            arriving.setdefault(arrow.end, []).append(arrow)
        elif arrow.start is not None:
            leaving.setdefault(arrow.start, []).append(arrow)
    for number, (moment, words) in enumerate(zip(picture.moments, picture.words, strict=True)):
        said = _text(f"{moment.at_ms / 1000:.3f} {words}")
        if number in arriving:
            arrow, *others = arriving[number]
            yield f"  {lanes[arrow.source]}{_shaft(arrow)}{lanes[arrow.target]}: {said}"
            yield from (f"  {lanes[a.source]}{_shaft(a)}{lanes[a.target]}: (the same)" for a in others)
        else:
            yield f"  Note over {lanes.get(moment.node, wide)}: {said}"
        yield from (_left(arrow, lanes) for arrow in leaving.get(number, ()))


def _left(arrow: Arrow, lanes: dict[str, str]) -> str:
    source, target = lanes[arrow.source], lanes.get(arrow.target or arrow.source, lanes[arrow.source])
    what = f"{arrow.said.kind} {'lost' if arrow.target else 'reaches nobody'}" if arrow.is_lost else arrow.said.kind
    return f"  {source}{_shaft(arrow)}{target}: {_text(what)}"


def _shaft(arrow: Arrow) -> str:
    """Gossip in whole lines, conversations over TCP dashed; a cross for what was lost."""
    if arrow.is_lost:
        return "-x" if arrow.is_gossip else "--x"
    return "->>" if arrow.is_gossip else "-->>"


def _text(text: str) -> str:
    """Characters that could mean something to Mermaid by their numbers."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text)


def _plain(text: str) -> str:
    return " ".join(_SPECIAL.sub(" ", text).split())
