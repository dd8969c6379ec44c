"""Where a node of the transport swim takes part, and with which secret: settled before its directory is touched.

Knows: how the addresses of `listen` and `advertise` become one for datagrams, and when a secret is needed.  Does not
know what is done there (`transport.swim`).

Invariant: without a secret no datagram leaves the host, and none is taken from elsewhere.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs

from distkv.config import FILE, Config
from distkv.errors import SettingsError
from distkv.naming import UNIX, address_of, parse_address
from distkv.swim.inputs import SwimSettings
from distkv.swim.keyring import Keyring
from distkv.swim.machine import SwimMachine
from distkv.swim.seal import KeyedSeal, PlainSeal, Seal
from distkv.transport.datagrams import DatagramSocket, open_datagrams, reachable_host
from distkv.transport.group import new_generation
from distkv.transport.key_file import read_keyring
from distkv.transport.peers_file import PeersFile
from distkv.transport.seeds import look_up
from distkv.transport.swim import SwimTransport
from distkv.wire.swim_records import ADDRESSES_MAX, START_BYTES, NodeRecord

SECRET: Final = "cluster.secret"

log = logging.getLogger("distkv.daemon")


@attrs.frozen
class GroupPlace:
    """What one start has of the group before it takes part."""

    socket: DatagramSocket
    addresses: tuple[str, ...]
    """HOST:PORT, numeric: where others find it."""
    start: bytes
    seal: Seal
    keyring: Keyring | None

    def transport(
        self,
        config: Config,
        *,
        registered: Callable[[], Mapping[str, str]],
        has_data: bool,
        is_leaving: Callable[[], bool],
    ) -> SwimTransport:
        """How the node takes part.

        Raises:
            SettingsError: it has no data, and nobody to ask.
        """
        directory = config.data_dir
        file = PeersFile(directory)
        known, wrong = file.read()
        if wrong:
            log.warning("peers_file_damaged path=%s reason=%s: a new one is written", file.path, wrong)
        swim = config.swim
        if not (has_data or swim.join or known.addresses):
            raise SettingsError(
                f"{directory} holds no data, and there is nobody to get it from: name a node that is there with --join"
                " HOST:PORT, or give --init VALUE to begin a network"
            )
        own = NodeRecord(
            config.node,
            new_generation(known.generation),
            self.start,
            self.addresses,
            interval_ms=round(swim.interval_s * 1000),
            keys=() if self.keyring is None else self.keyring.ids,
        )
        secret = config.cluster.secret
        is_fixed = secret is None or not secret.startswith(FILE)
        settings = SwimSettings(swim.group, own.interval_ms, swim.admission, swim.bytes_per_s)
        machine = SwimMachine(
            own, settings, self.seal, random.SystemRandom(), os.urandom(32), self.keyring, is_fixed=is_fixed
        )
        return SwimTransport(
            machine, self.socket, file, known, swim.join, secret=secret, registered=registered, is_leaving=is_leaving
        )


@asynccontextmanager
async def open_place(config: Config, bound: Sequence[str]) -> AsyncIterator[GroupPlace | None]:
    """Be where the node listens, until the block is left; None for another transport. `bound`: its listeners.

    Raises:
        SettingsError: the address is taken for datagrams, or cannot be told to others; the secret is none, or is
            needed.
    """
    if config.transport != "swim":
        yield None
        return
    keyring = None if config.cluster.secret is None else read_keyring(config.cluster.secret, SECRET)
    text = next(address for address in bound if not address.startswith(UNIX))
    try:
        socket = open_datagrams(parse_address(text, "listen"))
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {text} for datagrams (UDP): {error.strerror}; name another address with --bind"
        ) from error
    try:
        addresses = await _addresses(config, socket)
        if keyring is None:
            _check_alone((socket.address[0], *(parse_address(one, "advertise")[0] for one in addresses)))
        start = os.urandom(START_BYTES)
        seal = PlainSeal() if keyring is None else KeyedSeal(keyring, config.swim.group, start, os.urandom)
        yield GroupPlace(socket, addresses, start, seal, keyring)
    finally:
        socket.close()


async def _addresses(config: Config, socket: DatagramSocket) -> tuple[str, ...]:
    if config.advertise is None:
        return (address_of(*socket.address),)
    try:
        found = await look_up(config.advertise, is_v6=socket.is_v6)
    except OSError as error:
        raise SettingsError(f"advertise is {config.advertise}, which cannot be looked up: {error.strerror}") from error
    if not found:
        family = "IPv6" if socket.is_v6 else "IPv4"
        raise SettingsError(f"advertise is {config.advertise}, and the first address of listen is one of {family}")
    return tuple(address_of(*one) for one in found[:ADDRESSES_MAX])


def _check_alone(hosts: Sequence[str]) -> None:
    host = reachable_host(hosts)
    if host is not None:
        raise SettingsError(
            f"{host} can be reached from other hosts, and there is no secret: set {SECRET} to 32 random bytes as"
            " base64 (such as openssl rand -base64 32 prints), or to file: and the path of a file that holds them"
        )
