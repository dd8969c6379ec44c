"""The composition root of `distkv server`.

Knows: which parts a node consists of, in which order they start, and how they end.  Decides nothing about data.

Invariant: the addresses are bound before the data directory is touched; the ready line is printed when clients are
served, and nothing else is ever written to stdout; the log is closed when nothing writes any more.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from distkv.config import Config, parse_address
from distkv.core.ready import CoreSettings
from distkv.core.replica import Replica
from distkv.daemon.failure import first_failure
from distkv.engine.commit import Committer
from distkv.engine.driver import Driver
from distkv.errors import DecodeError, LogDamagedError, SettingsError, UnreachableError
from distkv.model.event import NodeName
from distkv.services.session import serve_listeners
from distkv.storage.base import Log
from distkv.storage.disk import DirectoryDisk
from distkv.storage.log import open_log
from distkv.transport.pull import PeerCaller
from distkv.transport.serf import SerfTransport
from distkv.wire.message import Start
from distkv.wire.records import decode_record

log = logging.getLogger("distkv.daemon")


async def serve(config: Config, init_value: bytes | None) -> None:
    """Run a node until SIGTERM or SIGINT.

    Args:
        config: everything the node is told.
        init_value: `--init`, packed; None to join a network, or to go on.

    Raises:
        UnreachableError: the first start of a node finds no agent.
        SettingsError: an address cannot be bound.
        StorageError: the directory is used, damaged, or of another release; or the disk failed.
        InitRefusedError, DuplicateNameError: what the network says.
    """
    try:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_run, config, init_value, nursery.cancel_scope)
                async for number in signals:
                    log.info("stopping signal=%s", signal.Signals(number).name)
                    nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_failure(group) from group


async def _run(config: Config, init_value: bytes | None, done: trio.CancelScope) -> None:
    listeners = await _bind(config.listen)
    bound = [_address(listener) for listener in listeners]
    addr = config.advertise or bound[0]
    with _open(config) as store:
        replica = _replica(config, init_value, addr, store)
        if config.transport == "solo" and replica.network is None and init_value is None:
            raise SettingsError(
                f"{config.data_dir} holds no data, and without a transport there is nobody to get it from:"
                " give --init VALUE to begin with"
            )
        transport = _transport(config, addr)
        committer = Committer(store)
        driver = Driver(replica, committer, transport, PeerCaller(), config.limits)
        async with trio.open_nursery() as nursery:
            driver.begin()
            nursery.start_soon(serve_listeners, driver, listeners)
            nursery.start_soon(_keep_room, store)
            nursery.start_soon(_say_ready, driver, bound)
            had_data = replica.network is not None
            await nursery.start(driver.run)
            if transport is not None and not had_data and not driver.is_up:
                serf = config.serf
                raise UnreachableError(
                    f"no Serf agent answers at {serf.host}:{serf.port}: start one (`serf agent`), name another with"
                    " --serf HOST:PORT, or run without one by --transport solo"
                )
    done.cancel()


# -- parts --------------------------------------------------------------------------------------------------------


async def _bind(addresses: tuple[str, ...]) -> list[trio.SocketListener]:
    found: list[trio.SocketListener] = []
    for text in addresses:
        host, port = parse_address(text, "--bind")
        try:
            found += await trio.open_tcp_listeners(port, host=host)
        except OSError as error:
            raise SettingsError(
                f"cannot listen on {text}: {error.strerror or error}; name another address with --bind HOST:PORT"
            ) from error
    return found


def _address(listener: trio.SocketListener) -> str:
    host, port = listener.socket.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def _open(config: Config) -> Iterator[Log]:
    """The log of the data directory, closed at the end."""
    try:
        config.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SettingsError(f"cannot make the data directory {config.data_dir}: {error.strerror}") from error
    store = open_log(DirectoryDisk(str(config.data_dir)))
    try:
        recovered = store.recovered
        if recovered.torn_bytes:
            log.warning("torn_tail_cut bytes=%d at=%s", recovered.torn_bytes, recovered.torn_at)
        yield store
    finally:
        store.close()


def _replica(config: Config, init_value: bytes | None, addr: str, store: Log) -> Replica:
    """The machine, with the log replayed into it."""
    settings = CoreSettings(
        node=NodeName(config.node),
        addr=addr,
        start=Start(time.time(), random.getrandbits(63)),
        clock_ms=int(config.ping.clock_s * 1000),
        ping_length=config.ping.length,
        chain_length_max=config.chain_length,
        tock_jump=config.limits.tock_jump,
        pull_events_max=config.limits.pull_events,
        alone=config.transport == "solo",
        init_value=init_value,
        network_id=os.urandom(8),
    )
    replica = Replica(settings, random.Random())
    began = time.perf_counter()
    count = 0
    for batch in store.replay():
        for data in batch:
            try:
                replica.replay(decode_record(data))
            except DecodeError as error:
                raise LogDamagedError(
                    f"{config.data_dir}: record {count} of the log is whole but cannot be read: {error};"
                    " was it written by a newer release? Start with that one, or move the directory aside"
                    " and start this node empty: it joins again"
                ) from error
            count += 1
    log.info("replayed records=%d seconds=%.2f", count, time.perf_counter() - began)
    return replica


def _transport(config: Config, addr: str) -> SerfTransport | None:
    if config.transport == "solo":
        return None
    return SerfTransport(config.serf, NodeName(config.node), addr, random.Random())


# -- small tasks --------------------------------------------------------------------------------------------------


async def _keep_room(store: Log) -> None:
    """Have a segment ahead, so that a full disk is met before a write and not in it."""
    was_short = False
    while True:
        if store.wants_refill:
            is_short = not await trio.to_thread.run_sync(store.refill)
            if is_short and not was_short:
                log.error("no_space reason=%s: writes will be refused, reads go on", store.statistics().shortage)
            elif was_short and not is_short:
                log.warning("space_again")
            was_short = is_short
        await trio.sleep(1 if was_short else 0.2)


async def _say_ready(driver: Driver, bound: list[str]) -> None:
    await driver.wait_ready()
    await driver.committer.wait_durable(driver.position)
    replica = driver.replica
    where, count = ", ".join(bound), replica.tree.live_count
    print(f"distkv: {replica.name} ready on {where} ({replica.state}, {count} entries)", flush=True)
