"""The nodes that a job asks, over blocking sockets.

Knows: addresses, and how a node's answers become views, places and pages.  Does not know what is planned or read.

Invariant: a host that is down, busy, not ready or talks nonsense is an answer like any other (`HOST_FAILURES`):
somebody else is asked then. Only hosts of two networks, or none that answers, are errors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import attrs

from distkv.client.addresses import Address, address_text, read_address
from distkv.client.blocking import Client
from distkv.client.changes import ChangePage, Located
from distkv.errors import DecodeError, DistkvError, PeerError, RequestError, SettingsError, UnreachableError
from distkv.model.event import NodeName
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges
from distkv.spark.nodes.planning import ALIVE, ContentQuestion, Plan, Planning, View, network_of, read_view

HOST_FAILURES: Final = (UnreachableError, PeerError, RequestError, DecodeError, SettingsError)
"""What says something about one host: it is gone, refuses, or answers nonsense."""


REST_S: Final = 60.0
"""So long a member that nobody named is not asked again when it did not answer."""


@attrs.frozen
class Patience:
    """How long a host may take."""

    connect_s: float = 5.0
    reply_s: float = 30.0


def check_whole(client: Client, path: Path) -> None:
    """Whether the host knows of all that is at and below a path: better asked before than met behind a million values.

    Raises:
        DamagedError: it lost some (docs/protocol, LIFE-13).
        DistkvError: another one of `HOST_FAILURES`.
    """
    for _ in client.get_tree(path, limit=0):
        pass


class Hosts:
    """Those that were named."""

    def __init__(self, addresses: Sequence[Address], patience: Patience = Patience()) -> None:
        self._addresses = tuple(addresses)
        self._patience = patience
        self.failures: dict[str, DistkvError] = {}
        """Why a host did not answer the last time, by its address."""
        self._resting: dict[str, float] = {}
        """Until when members that nobody named are not asked, by their addresses."""

    def views(self, *, discover: bool = False) -> list[View]:
        """What each host says of itself that answers; with `discover` also members that these see alive.

        Raises:
            UnreachableError: none does.
            PeerError: they belong to several networks.
        """
        found: dict[str, View] = {}
        self.failures = {}
        for address in self._addresses:
            name = address_text(address)
            try:
                with self._client(address) as client:
                    view = read_view(name, client.state())
            except HOST_FAILURES as error:
                self.failures[name] = error
            else:
                found.setdefault(view.node, view)
        if not found:
            why = "; ".join(str(error) for error in self.failures.values())
            raise UnreachableError(f"no host answers: {why}")
        views = list(found.values())
        network_of(views)
        return [*views, *self._others(views)] if discover else views

    def carry_out(self, planning: Planning, path: Path = ROOT) -> Plan:
        """Ask what a plan asks."""
        try:
            ask = next(planning)
            while True:
                ask = planning.send(self.locate(ask, path))
        except StopIteration as end:
            plan: Plan = end.value
            return plan

    def locate(self, ask: ContentQuestion, path: Path = ROOT) -> Located | None:
        """Which ticks have their content at a host; None when it does not answer."""
        try:
            with self.client(ask.addr) as client:
                found = list(client.get_changes(ask.ticks, path=path, content=False))
        except HOST_FAILURES as error:
            self.failures[ask.addr] = error
            return None
        return next((item for item in found if isinstance(item, Located)), None)

    def pages(self, addr: str, ticks: TickRanges, path: Path = ROOT) -> Iterator[tuple[NodeName, ChangePage]]:
        """The content that a host has of these ticks, each page with the name of the node that gave it.

        Raises:
            DistkvError: one of `HOST_FAILURES`, also in the middle.
        """
        with self.client(addr) as client, closing(client.get_changes(ticks, path=path)) as items:
            for item in items:
                if isinstance(item, ChangePage):
                    yield client.hello.node, item

    def _others(self, views: Sequence[View]) -> Iterator[View]:
        """What members say of themselves that nobody named."""
        now, seen = time.monotonic(), {view.node for view in views}
        members = {member.node: member for view in views for member in view.members if member.state == ALIVE}
        for node, member in sorted(members.items()):
            if node in seen or not member.addr or now < self._resting.get(member.addr, now):
                continue
            try:
                with self.client(member.addr) as client:
                    view = read_view(member.addr, client.state())
            except HOST_FAILURES as error:
                self.failures[member.addr] = error
                self._resting[member.addr] = now + REST_S
            else:
                if (view.node, view.network) == (node, views[0].network):  # else somebody else has its address
                    yield view

    def client(self, addr: str) -> Client:
        """A new connection; close it. Raises one of `HOST_FAILURES`."""
        return self._client(read_address(addr))

    def _client(self, address: Address) -> Client:
        return Client((address,), connect_s=self._patience.connect_s, reply_s=self._patience.reply_s)
