"""A picture as one SVG: lanes from left to right, time downward, the words beside them.

Knows: where everything stands, and its shape.  Does not know what is said.

Invariant: the file is whole by itself: no script, no font, no link; it follows the reader's light or dark screen.

A line of life has the colour of the node's state digest, is dashed while there is no process, and has a red edge while
something is missing.  Gossip is drawn in whole lines, conversations over TCP dashed; what was lost ends in a cross.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import Final
from xml.sax.saxutils import escape

from distkv.graph.arrows import Arrow
from distkv.graph.palette import DigestColours, group_of, variables
from distkv.graph.picture import Picture
from distkv.graph.trace import Moment

MOMENTS_MAX: Final = 1000
"""Past this a picture is too long to be looked at, and slow to draw."""

ROW: Final = 20
LANE: Final = 76
GUTTER: Final = 84
HEAD: Final = 54
CHARACTER: Final = 6.7
"""How wide one is, in the font and size of the words."""
WORDS_MAX: Final = 110
"""Characters; what is longer is cut here, and whole in the title that a pointer brings up."""

STYLE: Final = """\
text { font: 11px ui-monospace, "DejaVu Sans Mono", monospace; fill: var(--ink); }
.title { font: 600 14px system-ui, "DejaVu Sans", sans-serif; }
.lane { font: 600 12px system-ui, "DejaVu Sans", sans-serif; text-anchor: middle; }
.who { font-weight: 600; }
.time { fill: var(--soft); text-anchor: end; }
.left-out { fill: var(--missing); }
.arrow { fill: none; stroke-width: 1.3; }
.tcp { stroke-dasharray: 5 2; }
.lost { stroke: var(--missing); stroke-width: 1.6; }
.gone { stroke: var(--line); stroke-dasharray: 2 4; }
.life { stroke-width: 4; }
.missing { stroke: var(--missing); stroke-width: 2; }
.all { stroke: var(--life); stroke-dasharray: 8 4; }
circle { stroke: var(--card); stroke-width: 1.5; }
"""


def svg(picture: Picture) -> str:
    """The whole document, with a line end."""
    return "".join(f"{line}\n" for line in _SvgText(picture).lines())


class _SvgText:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._lanes = {name: number for number, name in enumerate(picture.lanes)}
        self._words_x = GUTTER + LANE * len(self._lanes)
        longest = max((len(_cut(words)) for words in picture.words), default=0)
        longest += 1 + max(map(len, picture.lanes), default=0)
        self._width = int(max(self._words_x + longest * CHARACTER + 12, len(picture.title) * 8.5 + 24))
        self._height = HEAD + ROW * len(picture.moments) + ROW // 2

    def lines(self) -> Iterator[str]:
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        yield f"<title>{_xml(self._picture.title)}</title>"
        yield f"<style>\n{variables()}{STYLE}</style>"
        yield '<rect width="100%" height="100%" style="fill: var(--card)"/>'
        yield _text(12, 18, self._picture.title, "title")
        if self._picture.left_out:
            yield _text(self._words_x, HEAD - 14, self._picture.left_out, "left-out")
        yield from (_text(self._x(name), HEAD - 14, name, "lane") for name in self._lanes)
        yield from self._lives()
        for arrow in self._picture.arrows:
            yield self._arrow(arrow)
        for number, (moment, words) in enumerate(zip(self._picture.moments, self._picture.words, strict=True)):
            yield from self._moment(number, moment, words)
        yield "</svg>"

    # -- parts

    def _lives(self) -> Iterator[str]:
        """Each lane from change to change."""
        colours = DigestColours()
        for lane, name in enumerate(self._lanes):
            x, row = self._x(name), 0
            for (stroke, is_whole), run in groupby(_look(view[lane], colours) for view in self._picture.views):
                top, row = self._y(row), row + len(list(run))
                bottom = self._y(row) if row < len(self._picture.views) else self._y(row) - ROW // 2
                if not stroke:
                    yield _line(x, top, x, bottom, 'class="gone"')
                    continue
                yield _line(x, top, x, bottom, f'class="life" style="stroke: {stroke}"')
                if not is_whole:
                    yield _line(x - 5, top, x - 5, bottom, 'class="missing"')

    def _arrow(self, arrow: Arrow) -> str:
        x1, x2 = self._x(arrow.source), self._x(arrow.target or arrow.source)
        way = (x2 > x1) - (x2 < x1) or 1
        y1 = self._y(arrow.row)
        y2 = self._y(arrow.end) if arrow.end is not None else y1
        said = f"{arrow.source} to {arrow.target or 'nobody'}: {arrow.said.kind} {arrow.said.key}"
        title = f"<title>{_xml(said)}</title>"
        form = f'class="arrow{"" if arrow.is_gossip else " tcp"}" style="stroke: var(--{group_of(arrow.said.kind)})"'
        if arrow.is_lost:
            x, y = x1 + way * 15, y1 + 9
            cross = f'<path class="lost" d="M{x - 3} {y - 3}l6 6m0 -6l-6 6"/>'
            return f'<g>{title}<path {form} d="M{x1 + way * 5} {y1}L{x} {y}"/>{cross}</g>'
        x1, x2 = x1 + way * 5, x2 - way * 6
        angle = math.atan2(y2 - y1, x2 - x1)
        wings = [
            f"{x2 - 7 * math.cos(angle + turn):.1f} {y2 - 7 * math.sin(angle + turn):.1f}" for turn in (0.4, -0.4)
        ]
        path = f"M{x1} {y1}L{x2} {y2}M{wings[0]}L{x2} {y2}L{wings[1]}"
        return f'<g>{title}<path {form} d="{path}"/></g>'

    def _moment(self, number: int, moment: Moment, words: str) -> Iterator[str]:
        y = self._y(number)
        if moment.node in self._lanes:
            fill = f"var(--{group_of(moment.kind)})"
            yield f'<circle cx="{self._x(moment.node)}" cy="{y}" r="4" style="fill: {fill}"/>'
        else:
            yield _line(GUTTER, y, self._words_x - 8, y, 'class="all"')
        yield _text(GUTTER - 12, y + 4, f"{moment.at_ms / 1000:.3f}", "time")
        cut = _cut(words)
        title = f"<title>{_xml(words)}</title>" if cut != words else ""
        name = f'<tspan class="who">{_xml(moment.node or "all")}</tspan> '
        yield f'<text x="{self._words_x}" y="{y + 4}">{title}{name}{_xml(cut)}</text>'

    # -- places

    def _x(self, lane: str) -> int:
        return GUTTER + LANE * self._lanes[lane] + LANE // 2

    def _y(self, number: int) -> int:
        return HEAD + ROW * number + ROW // 2


def _look(moment: Moment | None, colours: DigestColours) -> tuple[str, bool]:
    """The colour of a line of life, empty when there is none, and whether nothing is missing."""
    return ("", True) if moment is None else (colours.colour(moment.digest), not moment.missing)


def _cut(words: str) -> str:
    return words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - 1]}…"


def _line(x1: int, y1: int, x2: int, y2: int, form: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {form}/>'


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{_xml(text)}</text>'


def _xml(text: str) -> str:
    """Control characters cannot stand in XML at all."""
    return escape("".join(character if character.isprintable() else "\ufffd" for character in text))
