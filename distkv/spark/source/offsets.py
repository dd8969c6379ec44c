"""How far somebody has read: a set of ticks, and the network in which they count.

Knows: the form of an offset as JSON.  Does not know who reads, nor what is new.

A tick means the same on every node, so an offset that one host gave is good at every other one. Ticks arrive late and
jump with each life, so the highest tick of a node would say nothing of those below it. An offset that ends a batch also
says which ticks of that batch were found to have no content: else a batch that is repeated could give other rows. It
says nothing of the gaps of earlier batches, which would become ever more.

Invariant: equal offsets are equal bytes as JSON: names and ranges are sorted, and keys stand in one order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from distkv.errors import DecodeError, SettingsError
from distkv.model.tick_ranges import TickRanges
from distkv.wire.fields import range_map, read_ranges

VERSION: Final = 1


@attrs.frozen
class Offset:
    """What was read. `network` is empty before the first answer of a node."""

    network: bytes
    ticks: TickRanges
    gaps: TickRanges = attrs.field(factory=dict)
    """Of `ticks` those that the batch which ends here gave as gaps."""

    def to_plain(self) -> dict[str, Any]:
        """As Spark keeps it: maps, lists, text and integers."""
        return {
            "version": VERSION,
            "network": self.network.hex(),
            "ticks": _sorted_map(self.ticks),
            "gaps": _sorted_map(self.gaps),
        }


def read_offset(given: Mapping[str, Any], network: bytes) -> Offset:
    """What `to_plain` wrote, of this network.

    Raises:
        SettingsError: it is none, was written by a later release, or belongs to another network.
    """
    version = given.get("version")
    if type(version) is not int or version < 1:
        raise SettingsError("the checkpoint has no offset of distkv: name that of this query, or an empty folder")
    if version > VERSION:
        raise SettingsError(f"the checkpoint has an offset of form {version}, this release reads {VERSION}: upgrade it")
    found = given.get("network")
    if found not in ("", network.hex()):
        raise SettingsError(
            f"the checkpoint belongs to the network {found}, and the hosts to {network.hex()}: name other hosts, or "
            "another checkpoint"
        )
    ticks = read_ticks(given.get("ticks"), "the checkpoint's ticks")
    return Offset(network, ticks, read_ticks(given.get("gaps", {}), "the checkpoint's gaps"))


def read_ticks(given: object, name: str) -> TickRanges:
    """Ticks as `held` of a node's state shows them, as JSON or as what JSON was read into.

    Raises:
        SettingsError: they are none.
    """
    try:
        plain = json.loads(given) if isinstance(given, str) else given
        return read_ranges(plain, "ticks")
    except (DecodeError, ValueError, RecursionError):
        raise SettingsError(
            f'{name} cannot be read: write each node with its ticks, as "held" of "distkv client state" has them: '
            '{"a": [1, [5, 9]]}'
        ) from None


def _sorted_map(ticks: TickRanges) -> dict[str, object]:
    return range_map({node: ticks[node] for node in sorted(ticks) if ticks[node]})
