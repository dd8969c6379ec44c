"""The servers that are measured: how each is started, awaited and ended.

Knows: their command lines, and what /proc says of their processes.  Does not know what is measured.

Invariant: when `open_servers` is left, everything it started is dead, by its pid, however it was left; should the
benchmark itself be killed, the kernel kills them.  All listen on loopback only.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

ROOT: Final = Path(__file__).parents[2]
REDIS_CONFIG: Final = Path("/etc/redis/redis.conf")
"""Debian's; what its systemd unit starts Redis with."""
NUMBERS: Final = "distkv-numbers"
FENCED: Final = "distkv-fenced"
READY_S: Final = 60.0
STOP_S: Final = 30.0
PAUSE_S: Final = 0.002
"""Between two looks at whether a server is ready."""
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_GIVEN: Final[set[int]] = set()
"""Ports that were named to a server, which may not have bound them yet."""
_LIBC: Final = ctypes.CDLL(None)
_PR_SET_PDEATHSIG: Final = 1


class ServerError(Exception):
    """A server did not do what it should; the message has the end of its log."""


@attrs.define
class Server:
    """One server process. It keeps its port and its data when it is started again."""

    name: str
    protocol: str
    """How it is talked to: distkv, numbers, fenced, held, redis, etcd, nats, or serf."""
    port: int
    directory: Path
    """Its log and its data."""
    command: Sequence[str]
    is_ready: Callable[[Server], bool]
    first_options: Sequence[str] = ()
    """Added to the command the first time."""
    code: Path = ROOT
    """Where the folder distkv is."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """Its stdout and stderr."""
        return self.directory / "log"

    @property
    def pid(self) -> int:
        if self.process is None:
            raise ServerError(f"{self.name} does not run")
        return self.process.pid

    def start(self) -> float:
        """Start it and wait until it serves; how many seconds that took.

        Raises:
            ServerError: it ended, or does not serve.
        """
        began = self.launch()
        self.wait_ready()
        return time.perf_counter() - began

    def launch(self) -> float:
        """Start it; when that was."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("DISTKV_", "ETCD_"))}
        environment |= {"PYTHONPATH": str(self.code), "HOME": str(self.directory)}
        command = [*self.command, *self.first_options]
        self.first_options = ()
        with self.log.open("wb") as log:
            began = time.perf_counter()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, env=environment,
                process_group=0, preexec_fn=_die_with_parent,
            )  # fmt: skip
        return began

    def wait_ready(self) -> None:
        """Until it serves.

        Raises:
            ServerError: it ended, or does not serve.
        """
        deadline = time.perf_counter() + READY_S
        while not self.is_ready(self):
            if self.process is None or self.process.poll() is not None:
                ended = "" if self.process is None else f" with {self.process.returncode}"
                raise ServerError(f"{self.name} ended{ended}:\n{self.log_end()}")
            if time.perf_counter() > deadline:
                raise ServerError(f"{self.name} is not ready within {READY_S:g} s:\n{self.log_end()}")
            time.sleep(PAUSE_S)

    def end(self, number: signal.Signals) -> None:
        """Signal it, and wait until it is gone. Does nothing when it does not run."""
        if self.process is None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def log_end(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def resident_bytes(self) -> int:
        """Its memory, as the kernel counts it (VmRSS)."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def cpu_s(self) -> float:
        """The processor time that it used since its start."""
        after_name = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
        user, system = after_name.split()[11:13]
        return (int(user) + int(system)) * _TICK_S


@contextmanager
def open_servers(servers: Mapping[str, Server], *, is_cluster: bool = False) -> Iterator[Mapping[str, Server]]:
    """Start all, one after another; kill all at the end. Those of a cluster are not ready before the others are."""
    try:
        for server in servers.values():
            server.launch()
            if not is_cluster:
                server.wait_ready()
        for server in servers.values():
            server.wait_ready()
        yield servers
    finally:
        for server in servers.values():
            server.end(signal.SIGKILL)


def free_port() -> int:
    """A loopback port that is free for TCP and UDP at this moment, and was not given before."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = int(tcp.getsockname()[1])
            try:
                udp.bind(("127.0.0.1", port))
            except OSError:
                continue
            if port not in _GIVEN:
                _GIVEN.add(port)
                return port


# -- the kinds ----------------------------------------------------------------------------------------------------


def distkv(
    directory: Path,
    name: str = "distkv",
    *,
    is_first: bool = True,
    options: Sequence[str] = ("--transport", "solo"),
    config: str = "{}\n",
) -> Server:
    """A node, by default with the default settings; the first one of a network founds it."""
    port, home = free_port(), _made(directory / name)
    settings = home / "config.yaml"
    settings.write_text(config)
    command = [sys.executable, "-m", "distkv", "-c", str(settings), "server", name, "--bind", f"127.0.0.1:{port}"]
    command += ["--data-dir", str(home / "data"), *options]
    return Server(name, "distkv", port, home, command, _distkv_is_ready, ["--init", "bench"] if is_first else [])


def with_numbers(node: Server) -> Server:
    """The same process of a node that runs, asked for paths whose names are numbers."""
    return attrs.evolve(node, name=NUMBERS, protocol="numbers")


def with_fences(node: Server) -> Server:
    """The same process of a node that runs, asked for other paths, which are set under a fence."""
    return attrs.evolve(node, name=FENCED, protocol="fenced")


def redis(directory: Path, *, is_durable: bool) -> Server:
    """Redis with Debian's configuration; durable: with an append-only file, synced before each answer."""
    name = "redis-always" if is_durable else "redis"
    port, home = free_port(), _made(directory / name)
    command = ["redis-server", str(REDIS_CONFIG), "--daemonize", "no", "--supervised", "no", "--port", str(port)]
    command += ["--dir", str(home), "--logfile", "", "--pidfile", str(home / "pid")]
    if is_durable:
        command += ["--appendonly", "yes", "--appendfsync", "always"]
    return Server(name, "redis", port, home, command, _redis_is_ready)


def etcd(directory: Path) -> Server:
    """One etcd with its defaults, which are Debian's, too."""
    (server,) = etcds(directory, ["etcd"]).values()
    return server


def etcds(directory: Path, names: Sequence[str]) -> dict[str, Server]:
    """One cluster of etcds with their defaults."""
    peers = {name: f"http://127.0.0.1:{free_port()}" for name in names}
    cluster = ",".join(f"{name}={url}" for name, url in peers.items())
    return {name: _etcd(directory, name, url, cluster) for name, url in peers.items()}


def _etcd(directory: Path, name: str, peer_url: str, cluster: str) -> Server:
    port, home = free_port(), _made(directory / name)
    url = f"http://127.0.0.1:{port}"
    command = ["etcd", "--name", name, "--data-dir", str(home / "data")]
    command += ["--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer_url]
    command += ["--initial-advertise-peer-urls", peer_url, "--initial-cluster", cluster]
    return Server(name, "etcd", port, home, command, _etcd_is_ready)


def etcd_leader(servers: Mapping[str, Server]) -> Server:
    """Which one of a cluster carries out what all are asked.

    Raises:
        ServerError: none says so.
    """
    for server in servers.values():
        status = _etcd_answer(server, "maintenance/status", b"{}")
        if status and status["leader"] == status["header"]["member_id"]:
            return server
    raise ServerError("the etcds have no leader")


def nats(directory: Path, names: Sequence[str], *, is_keeping: bool = False) -> dict[str, Server]:
    """NATS servers with their defaults, each with a route to each other one; keeping: with JetStream."""
    routes = {name: f"nats://127.0.0.1:{free_port()}" for name in names}
    return {
        name: _nats(directory, name, routes[name], list(routes.values()), is_keeping=is_keeping) for name in names
    }


def _nats(directory: Path, name: str, own: str, routes: Sequence[str], *, is_keeping: bool) -> Server:
    port, status_port, home = free_port(), free_port(), _made(directory / name)
    command = ["nats-server", "--addr", "127.0.0.1", "--port", str(port), "--http_port", str(status_port)]
    command += ["--cluster_name", "bench", "--cluster", own, "--routes", ",".join(routes)]
    if is_keeping:
        command += ["--jetstream", "--store_dir", str(home / "data"), "--name", name]
    is_ready = partial(_nats_is_ready, status_port, len(routes) - 1)
    return Server(name, "nats", port, home, command, is_ready)


def serf_agent(directory: Path, name: str, join: str | None) -> tuple[Server, str]:
    """A Serf agent as packaged; its `port` is for RPC. And the address at which others join it."""
    rpc_port, gossip = free_port(), f"127.0.0.1:{free_port()}"
    command = ["serf", "agent", f"-node={name}", f"-bind={gossip}", f"-rpc-addr=127.0.0.1:{rpc_port}"]
    if join is not None:
        command.append(f"-join={join}")
    return Server(name, "serf", rpc_port, _made(directory / name), command, _serf_is_ready), gossip


# -- inside -------------------------------------------------------------------------------------------------------


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def _distkv_is_ready(server: Server) -> bool:
    return f"distkv: {server.name} ready on " in server.log.read_text(errors="replace")


def _redis_is_ready(server: Server) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", server.port), 1.0) as stream:
            stream.sendall(b"PING\r\n")
            return stream.recv(64) == b"+PONG\r\n"  # while it loads its data it says -LOADING
    except OSError:
        return False


def _etcd_is_ready(server: Server) -> bool:
    return bool(_etcd_answer(server, "kv/range", b'{"key":"eA=="}'))


def _etcd_answer(server: Server, place: str, question: bytes) -> dict[str, Any]:
    """Nothing when it does not answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v3/{place}", question)
    try:
        with urllib.request.urlopen(request, timeout=1.0) as reply:
            found: dict[str, Any] = json.load(reply)
            return found
    except (OSError, ValueError):
        return {}


def _nats_is_ready(status_port: int, routes: int, _: Server) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{status_port}/routez", timeout=1.0) as reply:
            return bool(json.load(reply)["num_routes"] >= routes)
    except (OSError, ValueError):
        return False


def _serf_is_ready(server: Server) -> bool:
    return serf_member_count(server) > 0


def serf_member_count(agent: Server) -> int:
    """How many alive members an agent sees; 0 while it does not answer."""
    command = ["serf", "members", f"-rpc-addr=127.0.0.1:{agent.port}", "-status=alive"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return len(done.stdout.splitlines()) if done.returncode == 0 else 0


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
