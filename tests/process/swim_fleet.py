"""Servers that find each other without an agent: what the tests of the transport swim share.

Knows: how to start such a fleet, and what each server believes of the others.  Does not know what a test does to it.
Everything here blocks.

Invariant: when `open_fleet` is left, every server is dead, by its pid, however the test ended; a server that met
something it did not expect fails the test that left it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import attrs

from tests.process.cluster import UNFORESEEN
from tests.process.servers import Server, Servers, open_servers, wait_until

CLOCK_S: Final = 1.0
Found = TypeVar("Found")


def new_secret() -> str:
    return base64.b64encode(os.urandom(32)).decode()


@attrs.define
class Fleet:
    """Servers by name."""

    servers: Servers
    secret: str | None
    settings: str = ""
    """More sections, as in a file."""

    def __getitem__(self, name: str) -> Server:
        return self.servers[name]

    def __iter__(self) -> Iterator[Server]:
        return iter(self.servers)

    def add(self, name: str, secret: str | None = None) -> Server:
        """A server that is not started yet; `secret`: another one than that of the fleet."""
        server = self.servers.add(name)
        file = server.directory / "config.yaml"
        found = secret or self.secret
        cluster = "" if found is None else f"cluster: {{secret: '{found}'}}\n"
        file.write_text(f"transport: swim\nping: {{clock: {CLOCK_S}}}\n{cluster}{self.settings}")
        file.chmod(0o600)
        server.environment = {**server.environment, "DISTKV_CONFIG": str(file)}
        return server

    def join(self, name: str, at: str, *arguments: str) -> Server:
        """Start one that has no data, and asks another one."""
        return self.add(name).start("--join", self[at].address, *arguments)

    def wait(self, condition: Callable[[], Found], what: str, deadline_s: float) -> Found:
        """As `wait_until`; a failure shows the states and the logs of all."""
        return wait_until(condition, what, deadline_s, self.servers.dump)

    def wait_members(self, states: Mapping[str, str], deadline_s: float, at: Iterable[str] | None = None) -> None:
        """Until all that run, or these, believe that of the nodes, and of no others."""
        for server in self._running(at):
            self.wait(lambda s=server: members(s) == states, f"{server.name} believes {states}", deadline_s)  # type: ignore[misc]

    def wait_equal(self, deadline_s: float, at: Iterable[str] | None = None) -> None:
        """Until all that run, or these, hold the same and miss nothing."""

        def are_equal() -> bool:
            states = [server.state() for server in self._running(at)]
            return len({str(state["digest"]) for state in states}) == 1 and not any(s["missing"] for s in states)

        self.wait(are_equal, "all hold the same", deadline_s)

    def _running(self, at: Iterable[str] | None) -> list[Server]:
        return [server for server in self if server.is_running] if at is None else [self[name] for name in at]


def members(server: Server) -> dict[str, str]:
    """The state of each, as this server believes."""
    return {str(one["node"]): str(one["state"]) for one in member_maps(server)}


def member_maps(server: Server) -> list[dict[str, object]]:
    with server.client() as client:
        found = client.request("get_members", is_read=True)["members"]
    assert isinstance(found, list)
    return found


def transport(server: Server) -> Mapping[str, object]:
    """What it says of its transport."""
    found = server.state()["transport"]
    assert isinstance(found, dict)
    return found


@contextmanager
def open_fleet(
    directory: Path, names: Sequence[str] = ("a", "b", "c"), *, secret: str | None = None, settings: str = ""
) -> Iterator[Fleet]:
    """A fleet that is ready; the first one founded the network with the value 1."""
    with open_servers(directory) as servers:
        fleet = Fleet(servers, secret, settings)
        first, *others = names
        fleet.add(first).start("--init", "1").wait_ready()
        for name in others:
            fleet.join(name, first)
        for name in others:
            fleet[name].wait_ready()
        fleet.wait_members(dict.fromkeys(names, "alive"), 20)
        yield fleet
        errors = {server.name: server.errors for server in fleet}
        failed = {name: text for name, text in errors.items() if any(word in text for word in UNFORESEEN)}
        assert not failed, failed
