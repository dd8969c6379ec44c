"""Settings and limits as frozen values, with their defaults.

Knows: what can be set and what each setting means.  Does not know where a setting comes from: finding and parsing
files and command lines is `cli.settings`; nor the settings of services, each of which names its own.

Invariant: a `Config` that exists is usable; a value that cannot be meant was refused when it was made.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, TypeVar

import attrs

from distkv.errors import SettingsError
from distkv.naming import is_node_name, parse_address, parse_socket

TRANSPORTS = ("serf", "swim", "solo")
ADMISSIONS = ("accept", "ignore", "closed")
LOG_FORMATS = ("text", "json")
S = TypeVar("S")
SECRET_BYTES: Final = 32
FILE: Final = "file:"
"""What the name of a file that holds a secret begins with; its path follows."""
IN_IPV6: Final = IPv6Address("::ffff:0.0.0.0")
"""0.0.0.0 as an IPv6 address."""


@attrs.frozen
class PingConfig:
    """The ping election."""

    clock_s: float = attrs.field(default=5.0)
    """Its unit of time, in seconds. At least twice the time of a message to all nodes; the same on all nodes."""
    length: int = attrs.field(default=4)
    """How many links a ping chain keeps. Set it to more than the parts into which the network may split."""

    @clock_s.validator
    def _check_clock(self, _: object, value: float) -> None:
        if not 0.5 <= value <= 3600:
            raise SettingsError(f"ping.clock is {value}: it must be 0.5 to 3600 seconds")

    @length.validator
    def _check_length(self, _: object, value: int) -> None:
        if not 2 <= value <= 32:
            raise SettingsError(f"ping.length is {value}: it must be 2 to 32")


def above_zero(_: object, attribute: attrs.Attribute[int], value: int) -> None:
    """For a limit: it is 1 or more."""
    if value < 1:
        raise SettingsError(f"limits.{attribute.name} is {value}: it must be 1 or more")


@attrs.frozen
class Limits:
    """The maximum of every queue, frame and loop. Reaching one is counted and shown by `get_state`."""

    request_bytes: int = attrs.field(default=1 << 20, validator=above_zero)
    """A larger request is refused with `too_large`."""
    open_requests: int = attrs.field(default=1024, validator=above_zero)
    """Unfinished long results of one connection, without watches; above it the server stops reading from it."""
    reply_bytes: int = attrs.field(default=1 << 20, validator=above_zero)
    """Unsent replies of one connection; above it the server sends them before it reads the next request."""
    half_bytes: int = attrs.field(default=16 << 20, validator=above_zero)
    """Bytes of requests of which a part came, on all connections; above it the connection whose request began first is
    ended with `busy`. So is one whose request is not whole after a minute."""
    connections: int = attrs.field(default=4096, validator=above_zero)
    """Open client and peer connections; further ones are closed with `busy`. A few are kept for other nodes. Where the
    process may open too few files, it takes fewer connections, and the log says how many."""
    uncommitted_bytes: int = attrs.field(default=64 << 20, validator=above_zero)
    """Records waiting for the disk; above it writers wait, and updates by gossip are dropped and pulled later."""
    outbox: int = attrs.field(default=4096, validator=above_zero)
    """Messages waiting for a commit; above it updates are announced instead of sent."""
    watches: int = attrs.field(default=1024, validator=above_zero)
    """Open watches of one connection; a further one is refused with `busy`."""
    watch_changes: int = attrs.field(default=4096, validator=above_zero)
    """Changes that wait for one watcher; above it they are dropped, and the watcher must resynchronise."""
    watch_bytes: int = attrs.field(default=4 << 20, validator=above_zero)
    """Bytes of changes that wait for one watcher; above it the same happens."""
    follow_events: int = attrs.field(default=65_536, validator=above_zero)
    """Events that wait for those who follow this node, in one queue; a follower that is further behind is served from
    what the node holds."""
    follow_bytes: int = attrs.field(default=16 << 20, validator=above_zero)
    """Bytes of such events; above it the same happens."""
    event_waits: int = attrs.field(default=16, validator=above_zero)
    """Open `events_wait` of one connection, also `follow`, and also writes that wait for replicas; a further one is
    refused with `busy`."""
    service_requests: int = attrs.field(default=16_384, validator=above_zero)
    """Requests to services of this node that are not answered; a further one is refused with `busy`. Each client of the
    activity network counts as one."""
    data_bytes: int = attrs.field(default=1 << 30, validator=above_zero)
    """Bytes of all rows that services of this node keep as data; a further row is refused with `no_space`. All of them
    are in memory."""
    tells: int = attrs.field(default=1024, validator=above_zero)
    """Messages of services that wait for a connection to one node; above it they are dropped, and sent again later."""
    tell_bytes: int = attrs.field(default=512 << 10, validator=above_zero)
    """Bytes of such messages; above it the same happens. It must be below `limits.request_bytes` of the other nodes."""
    change_reads: int = attrs.field(default=4, validator=above_zero)
    """How many `get_changes` prepare a page at the same time; others wait, but never for a slow reader."""
    traces: int = attrs.field(default=8, validator=above_zero)
    """How many clients may trace the steps of this node at once; a further one is refused with `busy`."""
    trace_moments: int = attrs.field(default=4096, validator=above_zero)
    """Steps that wait for one such client; above it they are dropped, and the client is told how many."""
    tock_jump: int = attrs.field(default=1 << 32, validator=above_zero)
    """A message this far ahead of the node's Lamport clock is refused."""
    batch_ops: int = attrs.field(default=1000, validator=above_zero)
    """How many operations a batch may have, and how many values `delete_tree` deletes in one step."""
    batch_bytes: int = attrs.field(default=8 << 20, validator=above_zero)
    """Bytes of values in the reply to one batch."""
    pull_events: int = attrs.field(default=20_000, validator=above_zero)
    """The maximum number of events in the answer to one pull."""


@attrs.frozen
class LinksConfig:
    """The connections on which changes come as soon as another node has them on its disk."""

    follow: bool = attrs.field(default=True)
    """Whether this node follows the others. If not, changes come by gossip and pulls only."""
    fanout: int = attrs.field(default=16, validator=above_zero)
    """How many nodes follow a writer itself; in a larger network the others follow through these. The
    same on all nodes."""
    silent_s: float = attrs.field(default=3.0)
    """A node from which nothing came for so many seconds is left."""

    @silent_s.validator
    def _check_silent(self, _: object, value: float) -> None:
        if not 0.5 <= value <= 3600:
            raise SettingsError(f"links.silent is {value}: it must be seconds, from 0.5 to 3600")


@attrs.frozen
class TreeConfig:
    """The server tree, on which each node says something to all others."""

    announce_s: float = attrs.field(default=5.0)
    """How many seconds pass between two announcements of a node. The same on all nodes."""
    fanout: int = attrs.field(default=16)
    """How many children a node has at most. The same on all nodes."""

    @announce_s.validator
    def _check_announce(self, _: object, value: float) -> None:
        if not 0.1 <= value <= 3600:
            raise SettingsError(f"tree.announce is {value}: it must be seconds, from 0.1 to 3600")

    @fanout.validator
    def _check_fanout(self, _: object, value: int) -> None:
        if not 1 <= value <= 1024:
            raise SettingsError(f"tree.fanout is {value}: it must be 1 to 1024")


@attrs.frozen
class DeleteConfig:
    """How long deletions are remembered."""

    retention_s: float = attrs.field(default=86_400.0)
    """How many seconds a node remembers a deletion at least; then it forgets it as soon as all nodes have it."""

    @retention_s.validator
    def _check_retention(self, _: object, value: float) -> None:
        if not 1 <= value <= 1e9:
            raise SettingsError(f"delete.retention is {value}: it must be seconds, from 1 to a billion")


@attrs.frozen
class HistoryConfig:
    """How much history is kept; without both settings, all of it."""

    retention_s: float | None = attrs.field(default=None)
    """Changes that arrived more seconds ago than this are forgotten; the values stay."""
    keep: int | None = attrs.field(default=None)
    """How many changes are kept, the newest of all paths together; the values stay."""

    @retention_s.validator
    def _check_retention(self, _: object, value: float | None) -> None:
        if value is not None and not 0 < value <= 1e11:
            raise SettingsError(f"history.retention is {value}: it must be seconds, above 0")

    @keep.validator
    def _check_keep(self, _: object, value: int | None) -> None:
        if value is not None and value < 0:
            raise SettingsError(f"history.keep is {value}: it must be 0 or more")


@attrs.frozen
class ScrubConfig:
    """The check of the disk for damage."""

    every_s: float = attrs.field(default=86_400.0)
    """Seconds between two checks; each reads the whole archive, and checks its checksums."""
    bytes_per_s: int = attrs.field(default=1 << 20)
    """The maximum number of bytes that the check reads in a second."""

    @every_s.validator
    def _check_every(self, _: object, value: float) -> None:
        if not 1 <= value <= 1e9:
            raise SettingsError(f"scrub.every is {value}: it must be seconds, from 1 to a billion")

    @bytes_per_s.validator
    def _check_bytes(self, _: object, value: int) -> None:
        if value < 1 << 10:
            raise SettingsError(f"scrub.bytes_per_s is {value}: it must be {1 << 10} or more")


@attrs.frozen
class LogConfig:
    """What the server writes to stderr. The command line sets how much."""

    format: str = attrs.field(default="text")
    """`text`: a line for each event; `json`: an object per line."""

    @format.validator
    def _check_format(self, _: object, value: str) -> None:
        if value not in LOG_FORMATS:
            raise SettingsError(f"log.format is {value!r}: it must be one of {', '.join(LOG_FORMATS)}")


@attrs.frozen
class SerfConfig:
    """The Serf agent of the node."""

    host: str = "127.0.0.1"
    """The host of the agent."""
    port: int = attrs.field(default=7373)
    """Its RPC port."""
    auth: str | None = None
    """Its `rpc_auth` key, if it has one."""
    root: str = attrs.field(default="distkv")
    """The name of our user events: ROOT.update, ROOT.info, ROOT.ping. The same on all nodes."""
    event_bytes: int | None = attrs.field(default=None)
    """How many bytes of name and payload the agent takes. A node never sends more than 1,300. Unset: it asks the
    agent."""
    packets_per_s: float | None = attrs.field(default=None)
    """How many packets of updates all nodes together may send; the same on all. Unset: set by the number of agents."""

    @port.validator
    def _check_port(self, _: object, value: int) -> None:
        if not 1 <= value <= 65535:
            raise SettingsError(f"serf.port is {value}: it must be 1 to 65535")

    @root.validator
    def _check_root(self, _: object, value: str) -> None:
        if not is_node_name(value):
            raise SettingsError(f"serf.root is {value!r}: it must be 1-63 of letters, digits, '.', '-', '_'")

    @event_bytes.validator
    def _check_event_bytes(self, _: object, value: int | None) -> None:
        if value is not None and not 256 <= value <= 9216:
            raise SettingsError(f"serf.event_bytes is {value}: Serf takes 256 to 9216")

    @packets_per_s.validator
    def _check_packets(self, _: object, value: float | None) -> None:
        if value is not None and not 0 < value <= 1e6:
            raise SettingsError(f"serf.packets_per_s is {value}: it must be above 0, and a million at most")


@attrs.frozen
class SwimConfig:
    """The transport ``swim``: nodes that find each other by UDP, without an agent."""

    join: tuple[str, ...] = attrs.field(default=())
    """HOST:PORT of nodes that may be there already; of a name, all its addresses. A node that was in a network before
    needs none."""
    group: str = attrs.field(default="distkv")
    """Only nodes of one group hear each other. The same on all nodes."""
    interval_s: float = attrs.field(default=0.5)
    """Seconds between two probes: a node that is gone is noticed after some ten of them. The same on all nodes."""
    admission: str = attrs.field(default="accept")
    """What this node says to those who would join: accept, closed (a refusal), or ignore (no answer)."""
    bytes_per_s: int = attrs.field(default=512 << 10)
    """The maximum number of bytes of messages to all, all copies counted, that this node sends in a second."""

    @join.validator
    def _check_join(self, _: object, value: tuple[str, ...]) -> None:
        for address in value:
            if parse_address(address, "swim.join")[1] == 0:
                raise SettingsError(f"swim.join is {address!r}: it needs a port")

    @group.validator
    def _check_group(self, _: object, value: str) -> None:
        if not is_node_name(value):
            raise SettingsError(f"swim.group is {value!r}: it must be 1-63 of letters, digits, '.', '-', '_'")

    @interval_s.validator
    def _check_interval(self, _: object, value: float) -> None:
        if not 0.1 <= value <= 60:
            raise SettingsError(f"swim.interval is {value}: it must be seconds, from 0.1 to 60")

    @admission.validator
    def _check_admission(self, _: object, value: str) -> None:
        if value not in ADMISSIONS:
            raise SettingsError(f"swim.admission is {value!r}: it must be one of {', '.join(ADMISSIONS)}")

    @bytes_per_s.validator
    def _check_bytes(self, _: object, value: int) -> None:
        if value < 16 << 10:
            raise SettingsError(f"swim.bytes_per_s is {value}: it must be {16 << 10} or more")


@attrs.frozen
class ClusterConfig:
    """What all nodes of a network share."""

    secret: str | None = attrs.field(default=None, repr=False)
    """The key with which the transport ``swim`` seals: 32 random bytes as base64; or ``file:/PATH`` of a file with up
    to three, one on each line, of which the first one seals. Unset: nodes hear each other on one host only."""

    @secret.validator
    def _check_secret(self, _: object, value: str | None) -> None:
        if value is None or value.startswith(f"{FILE}/"):
            return
        try:
            size = len(base64.b64decode(value.encode("ascii"), validate=True))
        except (UnicodeEncodeError, binascii.Error):
            size = 0
        if size != SECRET_BYTES:
            raise SettingsError(
                f"cluster.secret is no secret: write {SECRET_BYTES} random bytes as base64, or file: and the path of"
                " a file that holds them"
            )


@attrs.frozen
class Config:
    """The settings of a node at its start."""

    node: str = attrs.field()
    """The node's name, unique in its network. It has no default; 'distkv server NAME' sets it, too."""
    data_dir: Path
    """The directory of log and archive; they take 32 MiB from the start. Unset: $XDG_STATE_HOME/distkv/NAME, else
    ~/.local/state/distkv/NAME; for root, if /var/lib/distkv exists, /var/lib/distkv/NAME."""
    listen: tuple[str, ...] = attrs.field(default=("127.0.0.1:27586",))
    """Where the node serves clients and other nodes: HOST:PORT, or unix:/PATH for a Unix socket; or a list of these."""
    advertise: str | None = attrs.field(default=None)
    """The HOST:PORT that other nodes use. Unset: the first HOST:PORT of `listen`."""
    transport: str = attrs.field(default="serf")
    """How to reach other nodes: serf: through a Serf agent; swim: by UDP, without an agent; solo: there are none."""
    serf: SerfConfig = SerfConfig()
    swim: SwimConfig = SwimConfig()
    cluster: ClusterConfig = ClusterConfig()
    ping: PingConfig = PingConfig()
    chain_length: int = attrs.field(default=5)
    """How many links an event's chain keeps. Set it to two more than the number of parts into which the network may
    split, or of nodes that change one value."""
    delete: DeleteConfig = DeleteConfig()
    history: HistoryConfig = HistoryConfig()
    scrub: ScrubConfig = ScrubConfig()
    links: LinksConfig = LinksConfig()
    tree: TreeConfig = TreeConfig()
    log: LogConfig = LogConfig()
    limits: Limits = Limits()
    services: Mapping[type, object] = attrs.field(factory=dict)
    """The settings of services, by their classes, as far as they are not as they are by default."""

    @node.validator
    def _check_node(self, _: object, value: str) -> None:
        if not is_node_name(value):
            raise SettingsError(f"node.name is {value!r}: it must be 1-63 of letters, digits, '.', '-', '_'")

    @listen.validator
    def _check_listen(self, _: object, value: tuple[str, ...]) -> None:
        if not value:
            raise SettingsError("listen is empty: name at least one HOST:PORT")
        for address in value:
            if parse_socket(address, "listen") is None:
                parse_address(address, "listen")

    @advertise.validator
    def _check_advertise(self, _: object, value: str | None) -> None:
        if value is not None and parse_address(value, "advertise")[1] == 0:
            raise SettingsError(f"advertise is {value!r}: other nodes need a port to connect to")

    @transport.validator
    def _check_transport(self, _: object, value: str) -> None:
        if value not in TRANSPORTS:
            raise SettingsError(f"transport is {value!r}: it must be one of {', '.join(TRANSPORTS)}")

    @chain_length.validator
    def _check_chain_length(self, _: object, value: int) -> None:
        if not 2 <= value <= 64:
            raise SettingsError(f"chain.length is {value}: it must be 2 to 64")

    def of(self, kind: type[S]) -> S:
        """Settings of a service: those of this class."""
        found = self.services.get(kind)
        return found if isinstance(found, kind) else kind()

    def __attrs_post_init__(self) -> None:
        if self.transport == "solo":
            return
        found = self.advertise or next((address for address in self.listen if not _is_socket(address)), None)
        if found is None:
            raise SettingsError(
                "listen names Unix sockets only, and other nodes connect by TCP: add a HOST:PORT to it, or name one"
                " that leads here with advertise"
            )
        if self.transport == "swim" and all(map(_is_socket, self.listen)):
            raise SettingsError(
                "listen names Unix sockets only, and nodes of the transport swim hear each other at its first"
                " HOST:PORT: add one"
            )
        if _is_wildcard(parse_address(found, "listen")[0]):
            name = "listen" if self.advertise is None else "advertise"
            raise SettingsError(
                f"{name} is {found!r}, which means all addresses of this host, and other nodes connect to one: name it"
                " with advertise, such as --advertise 192.0.2.1:27586"
            )


def _is_socket(address: str) -> bool:
    return parse_socket(address, "listen") is not None


def _is_wildcard(host: str) -> bool:
    """Whether it is 0.0.0.0 or [::], however it is written."""
    try:
        found = ip_address(host)
    except ValueError:  # a name, or one of the short forms: 0, 0.0
        return not host.strip("0.")
    return found.is_unspecified or found == IN_IPV6
