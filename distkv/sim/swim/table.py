"""The table of what fleets of bare machines were measured by, as the documentation has it.

Knows: lines and columns.  Does not know how a figure is taken (`figures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from distkv.sim.swim.figures import (
    Formed,
    deaths_ms,
    false_deaths,
    formed,
    heal_ms,
    hearings_ms,
    joins_ms,
    rest_bytes_per_s,
)

COLUMNS: Final = ("nodes", "loss", "what", "figure", "of")
HOUR_MS: Final = 3_600_000

Measure: TypeAlias = Callable[[Formed, int], list[int]]


@attrs.frozen
class Extent:
    """How much is measured of one fleet."""

    deaths: int
    joins: int
    messages: int
    rest_ms: int
    quiet_ms: int
    """So long nobody may be told dead."""
    cut_ms: int = 0
    """0: it is not cut."""


def rows(size: int, loss: float, extent: Extent, seed: int) -> Iterator[tuple[str, ...]]:
    """The lines of one fleet, each as soon as it is known."""
    fleet = formed(size, loss, seed)

    def row(what: str, figure: str, of: str) -> tuple[str, ...]:
        return str(size), f"{loss:.0%}", what, figure, of

    def times(what: str, measure: Measure, number: int, of: str) -> Iterator[tuple[str, ...]]:
        if number:
            yield row(what, _figure(measure(fleet, number)), f"{number} {of}")

    if extent.rest_ms:
        sent = rest_bytes_per_s(fleet, extent.rest_ms)
        yield row("sent by a node at rest", f"{sent:.0f} B/s", f"{extent.rest_ms // 1000} s")
    if extent.messages:
        heard = hearings_ms(fleet, extent.messages)
        part = len(heard) / extent.messages / (size - 1)
        yield row("a node has heard a message", _figure(heard), f"{part:.2%} of {extent.messages} messages")
    yield from times("all know of a death", deaths_ms, extent.deaths, "deaths")
    if extent.deaths and size <= 50:
        yield from times("all know of three deaths at once", _three, extent.deaths // 3, "times")
    yield from times("all know who came back", joins_ms, extent.joins, "joins")
    if extent.quiet_ms:
        told = false_deaths(fleet, extent.quiet_ms)
        yield row("live nodes told dead", str(told), f"{extent.quiet_ms / HOUR_MS:g} h")
    if extent.cut_ms:
        healed = heal_ms(fleet, extent.cut_ms)
        yield row("whole after a cut into halves", f"{healed / 1000:.1f} s", f"{extent.cut_ms // 1000} s of cut")


def _three(fleet: Formed, times: int) -> list[int]:
    return deaths_ms(fleet, times, at_once=3)


def _figure(times_ms: Sequence[int]) -> str:
    return f"median {quantile(times_ms, 0.5):.2f} s, p99 {quantile(times_ms, 0.99):.2f} s"


def quantile(times_ms: Sequence[int], part: float) -> float:
    """In seconds."""
    return sorted(times_ms)[min(len(times_ms) - 1, int(part * len(times_ms)))] / 1000
