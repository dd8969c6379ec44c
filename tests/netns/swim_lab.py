"""Nodes of the transport swim in network namespaces: a server on each host, and no agent.

Knows: how they are started, and what is done to datagrams alone.  Does not know what a test looks at.

Invariant: as that of `open_fleet` and of `open_network`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.netns.network import Network, open_network
from tests.process.cluster import UNFORESEEN
from tests.process.forks import CHECKOUT
from tests.process.servers import Server, open_servers
from tests.process.swim_fleet import Fleet, new_secret

PORT = 27586
START_S = 60.0


@attrs.define
class SwimLab(Fleet):
    """Servers by name, each on the host of its name."""

    network: Network = attrs.field(kw_only=True)
    sockets: Path = attrs.field(kw_only=True)
    """A directory with a short name."""

    def add(self, name: str, secret: str | None = None) -> Server:
        server = super().add(name, secret)
        server.program = (*self.network.hosts[name].program, *CHECKOUT)
        server.host, server.port = self.network.addresses[name], PORT
        server.socket_path = self.sockets / name
        return server

    def block_datagrams(self, of: str) -> None:
        """From now on this host hears nothing by UDP, and nobody hears it so; connections stay."""
        for name, host in self.network.hosts.items():
            words = ("-p", "udp") if name == of else ("-p", "udp", "-s", self.network.addresses[of])
            host.run("iptables", "-w", "-A", "INPUT", *words, "-j", "DROP")

    def map_port(self, of: str, outside: int) -> None:
        """From now on this host is reached at another port, too, and what its node begins itself comes from a third
        one, as if both went through a router."""
        host, address = self.network.hosts[of], self.network.addresses[of]
        for kind in ("udp", "tcp"):
            words = ("-p", kind, "--dport", str(outside), "-j", "REDIRECT", "--to-ports", str(PORT))
            host.run("iptables", "-w", "-t", "nat", "-A", "PREROUTING", *words)
        words = ("-p", "udp", "--sport", str(PORT), "-j", "SNAT", "--to-source", f"{address}:{outside + 1}")
        host.run("iptables", "-w", "-t", "nat", "-A", "POSTROUTING", *words)

    def lose_datagrams(self, share: float) -> None:
        """From now on each host loses so many of those that come."""
        words = ("-p", "udp", "-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP")
        for host in self.network.hosts.values():
            host.run("iptables", "-w", "-A", "INPUT", *words)


@contextmanager
def open_swim_lab(directory: Path, names: str, *, settings: str = "") -> Iterator[SwimLab]:
    """A network of ready nodes with a secret; the first one founded it."""
    with (
        tempfile.TemporaryDirectory(prefix="distkv") as sockets,
        open_network(names) as network,
        open_servers(directory) as servers,
    ):
        lab = SwimLab(servers, new_secret(), settings, network=network, sockets=Path(sockets))
        first, *others = names
        lab.add(first).start("--init", "1").wait_ready(START_S)
        for name in others:
            lab.join(name, first)
        for name in others:
            lab[name].wait_ready(START_S)
        lab.wait_members(dict.fromkeys(names, "alive"), 20)
        yield lab
        errors = {server.name: server.errors for server in lab}
        assert not {name for name, text in errors.items() if any(word in text for word in UNFORESEEN)}, errors
