"""A network of its own for a test: a namespace per node, all on one bridge, cut and healed at will.

Knows: how to make namespaces, run programs in them, and drop what arrives from some nodes.  Does not know the programs.

Each namespace has no name and lives by a process that sleeps in it.  The bridge has a namespace, too, so that the host
gets no interface, address or rule.  Packets are dropped where they arrive: a drop where they leave would make `sendto`
fail, which an agent takes for a fault of its own.

Invariant: nothing is left when `open_network` is left.  Should the tests themselves be killed, the kernel kills the
sleepers, and with the last process of a namespace goes all that is in it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.process.fork_server import die_with_parent

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_ALL_PROTOCOLS = 3


def why_not() -> str:
    """Why there can be no networks here; empty when there can."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--net", "true"], check=False).returncode != 0:
        return "this user may not make network namespaces: be root"
    missing = [command for command in ("ip", "iptables", "nsenter") if shutil.which(command) is None]
    return f"no {', '.join(missing)} on PATH: apt-get install iproute2 iptables util-linux" if missing else ""


@attrs.frozen
class Namespace:
    """A network of one host, for as long as its process lives."""

    process: subprocess.Popen[bytes]

    @property
    def program(self) -> tuple[str, ...]:
        """What is typed before a command to run it here. It is the same process, so its pid is the command's."""
        return ("nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--")

    def run(self, *command: str, stdin: str = "") -> str:
        """Run a command to its end; what it printed."""
        done = subprocess.run([*self.program, *command], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def connect(self, port: int, timeout_s: float) -> socket.socket:
        """A connection within this host; whoever has it may be elsewhere."""
        with ThreadPoolExecutor(1) as pool:  # a thread of its own: it never leaves the network again
            return pool.submit(self._connect, port, timeout_s).result()

    def packets(self, interface: str) -> socket.socket:
        """All frames that an interface of this host takes and gives; whoever has it may be elsewhere."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self._packets, interface).result()

    def _connect(self, port: int, timeout_s: float) -> socket.socket:
        self._enter()
        return socket.create_connection(("127.0.0.1", port), timeout_s)

    def _packets(self, interface: str) -> socket.socket:
        self._enter()
        found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        found.bind((interface, _ALL_PROTOCOLS))
        return found

    def _enter(self) -> None:
        """This thread is in the network from now on."""
        with Path(f"/proc/{self.process.pid}/ns/net").open("rb") as network:
            if _LIBC.setns(network.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")


@attrs.frozen
class Network:
    """Hosts by name."""

    hosts: dict[str, Namespace]
    addresses: dict[str, str]

    def drop(self, at: Iterable[str], of: Iterable[str]) -> None:
        """From now on the hosts `at` hear nothing of the hosts `of`; the other way nothing changes."""
        sources = ",".join(self.addresses[name] for name in of)
        for name in at:
            self.hosts[name].run("iptables", "-w", "-A", "INPUT", "-s", sources, "-j", "DROP")

    def forbid(self, at: Iterable[str], of: Iterable[str], port: int) -> None:
        """From now on the hosts `of` have no connection to this port of the hosts `at`; what these open themselves
        stays, and so does all else."""
        sources = ",".join(self.addresses[name] for name in of)
        for name in at:
            words = ("-p", "tcp", "--dport", str(port), "-s", sources, "-j", "DROP")
            self.hosts[name].run("iptables", "-w", "-A", "INPUT", *words)

    def cut(self, *sides: Sequence[str]) -> None:
        """No packet arrives from another side."""
        for side in sides:
            self.drop(side, [name for other in sides if other is not side for name in other])

    def heal(self) -> None:
        """Everything arrives again."""
        for host in self.hosts.values():
            host.run("iptables", "-w", "-F", "INPUT")


@contextmanager
def open_network(names: Sequence[str]) -> Iterator[Network]:
    """Hosts that reach each other; the first has the address 10.77.0.1, the second 10.77.0.2, and so on.

    Several of these do not touch each other, so all have the same addresses.
    """
    sleepers: list[subprocess.Popen[bytes]] = []

    def make() -> Namespace:
        process = subprocess.Popen(["sleep", "infinity"], stdin=subprocess.DEVNULL, preexec_fn=_in_new_network)
        sleepers.append(process)
        return Namespace(process)

    try:
        hub = make()
        hub.run("ip", "link", "add", "bridge", "type", "bridge")
        hub.run("ip", "link", "set", "bridge", "up")
        network = Network({name: make() for name in names}, {name: f"10.77.0.{i}" for i, name in enumerate(names, 1)})
        for name, host in network.hosts.items():
            _plug(hub, host, f"to-{name}", network.addresses[name])
        yield network
    finally:
        for process in sleepers:
            process.kill()
            process.wait()


def _plug(hub: Namespace, host: Namespace, port: str, address: str) -> None:
    """A cable from a host to the bridge."""
    hub.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host.process.pid))
    hub.run("ip", "link", "set", port, "master", "bridge", "up")
    steps = ("link set lo up", f"address add {address}/24 dev eth0", "link set eth0 up")
    host.run("ip", "-batch", "-", stdin="\n".join(steps))


def _in_new_network() -> None:
    """Run in a child before its program: so the namespace is there when `Popen` returns."""
    die_with_parent()
    if _LIBC.unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
