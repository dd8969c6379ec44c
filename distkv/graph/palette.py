"""The colours of pictures: by what made a node move, for light and for dark screens, and one for each digest.

Knows: which kinds belong together.  Does not know shapes.

Invariant: every text colour has a contrast of 4.5 or more to the card it stands on; what a colour says is also said in
words or by a shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.graph.trace import StepKind
from distkv.wire.gossip import GossipKind

GROUPS: Final[Mapping[str, str]] = {
    **dict.fromkeys((StepKind.SET, StepKind.DELETE, StepKind.BATCH, StepKind.REQUEST), "client"),
    **dict.fromkeys(GossipKind, "info"),  # so that a kind without a colour of its own has one
    GossipKind.UPDATE: "update",
    GossipKind.PING: "ping",
    **dict.fromkeys(
        (
            "ask maps", StepKind.OFFERED, StepKind.MAPS, "ask events", StepKind.EVENTS, StepKind.KNOWN,
            "ask snapshot", StepKind.JOINER, StepKind.SNAPSHOT, "ask pages", StepKind.PAGES, StepKind.LINKED,
            StepKind.TOLD, StepKind.DONE,
        ),
        "peer",
    ),
    **dict.fromkeys((StepKind.WAKE, StepKind.ANNOUNCE, StepKind.MEMBERS), "clock"),
}  # fmt: skip
"""What is not named here befell a node: it started, ended, lost its transport."""
LIFE: Final = "life"

_LIGHT: Final = {
    "card": "#ffffff", "ink": "#1b1f27", "soft": "#59616f", "line": "#d9dde4", "missing": "#c0182b",
    "client": "#1a7f37", "update": "#0b5cd5", "ping": "#8250df", "info": "#0a7481", "peer": "#a75300",
    "clock": "#59616f", "life": "#c0182b", "digest-depth": "62%", "digest-light": "45%",
}  # fmt: skip
_DARK: Final = {
    "card": "#1a1e26", "ink": "#e7eaf0", "soft": "#a3acba", "line": "#333a46", "missing": "#ff7b85",
    "client": "#56d364", "update": "#79b0ff", "ping": "#c8a6ff", "info": "#5fd0dd", "peer": "#ffb066",
    "clock": "#a3acba", "life": "#ff8f96", "digest-depth": "60%", "digest-light": "62%",
}  # fmt: skip


def group_of(kind: str) -> str:
    """To which colour a kind of moment or message belongs."""
    return GROUPS.get(kind, LIFE)


def variables() -> str:
    """The colours as variables of a style sheet: `var(--ping)`."""
    light, dark = _declared(_LIGHT), _declared(_DARK)
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


class DigestColours:
    """Equal digests have equal colours; those met first differ most."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def colour(self, digest: str) -> str:
        """For a style sheet in which the variables are."""
        if not digest:
            return "var(--line)"
        number = self._numbers.setdefault(digest, len(self._numbers))
        hue = (205 + number * 137.508) % 360  # the golden angle
        return f"hsl({hue:.0f} var(--digest-depth) var(--digest-light))"


def _declared(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())
