"""The composition root of `distkv server`.

Knows: which parts a node consists of, in which order they start, and how they end.  Decides nothing about data.

Invariant: the addresses are bound before the data directory is touched; the ready line is printed when clients are
served, and nothing else is ever written to stdout; the log is closed when nothing writes any more.  A node whose disk
turns out to be an old one starts again in the same process, at the same addresses.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import attrs
import trio

from distkv.config import Config
from distkv.core.ground.service import machines
from distkv.core.ready import Beginning, CoreLimits, CoreSettings
from distkv.core.replica import Replica
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.settings import TreeSettings
from distkv.daemon.collector import spare_entries
from distkv.daemon.directory import Directory, open_directory
from distkv.daemon.failure import first_failure
from distkv.daemon.forced_end import ForcedEnd
from distkv.daemon.group_place import GroupPlace, open_place
from distkv.daemon.host_names import HostNames
from distkv.daemon.listeners import listener_text, open_listeners
from distkv.daemon.notify import ServiceManager
from distkv.daemon.own_address import check_own_address
from distkv.daemon.processor import ask_for_short_turns
from distkv.daemon.shells import Shells
from distkv.engine.asides import FILE_NAME, AsideKeeper
from distkv.engine.commit import Committer
from distkv.engine.driver import Driver
from distkv.engine.retention import forget_history
from distkv.engine.scarce import on_a_thread
from distkv.engine.scrub import Scrub
from distkv.engine.settler import Settler
from distkv.errors import SettingsError, StaleError, UnreachableError
from distkv.model.event import NodeName
from distkv.naming import UNIX
from distkv.services.connections import serve_listeners
from distkv.storage.base import Log
from distkv.storage.kept_file import KeptFile
from distkv.transport.pull import PeerCaller
from distkv.transport.serf import SerfTransport
from distkv.transport.swim import SwimTransport
from distkv.wire.message import Start

log = logging.getLogger("distkv.daemon")

STATUS_S: Final = 1.0
"""How often we look whether the service manager should be told another state."""

SWITCH_S: Final = 0.0005
"""So long a thread keeps the interpreter at the most while another one wants it. A set needs it some five times: beside
a thread that builds pages for a reader of all changes, Python's own 5 ms would be 25."""


@attrs.frozen
class Messenger:
    """What the transport of one start is made of, besides the settings."""

    place: GroupPlace | None
    """None: it needs none."""
    is_ending: Callable[[], bool]
    """Whether the process was told to end."""


async def serve(config: Config, beginning: Beginning) -> None:
    """Run a node until SIGTERM or SIGINT.

    Args:
        config: everything the node is told.
        beginning: what is said of this start only.

    Raises:
        UnreachableError: the first start of a node finds no agent.
        SettingsError: an address cannot be bound.
        StorageError: the directory is used, damaged, or of another release; or the disk failed.
        InitRefusedError, DuplicateNameError: what the network says.
    """
    manager = ServiceManager.of(os.environ)
    sys.setswitchinterval(SWITCH_S)
    trio.socket.set_custom_hostname_resolver(HostNames())
    try:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                shells, is_ending = Shells(config), False

                def was_told_to_end() -> bool:
                    return is_ending

                run = partial(_run, config, beginning, shells, manager, was_told_to_end)
                nursery.start_soon(run, nursery.cancel_scope)
                async for number in signals:
                    log.info("stopping signal=%s", signal.Signals(number).name)
                    await manager.tell("STOPPING=1", "STATUS=stopping")
                    if is_ending:
                        nursery.cancel_scope.cancel()
                    is_ending = True
                    nursery.start_soon(_end, shells, nursery.cancel_scope)
    except BaseExceptionGroup as group:
        failure = first_failure(group)
        await manager.tell("STOPPING=1", f"STATUS=failed: {failure}")
        raise failure from group


async def _end(shells: Shells, done: trio.CancelScope) -> None:
    """In order; a second signal does not wait for that."""
    await shells.end()
    done.cancel()


async def _run(
    config: Config,
    beginning: Beginning,
    shells: Shells,
    manager: ServiceManager,
    is_ending: Callable[[], bool],
    done: trio.CancelScope,
) -> None:
    addresses: Sequence[str] = config.listen
    while True:
        async with AsyncExitStack() as stack:
            listeners = await stack.enter_async_context(open_listeners(addresses))
            await stack.enter_async_context(shells.open())
            addresses = list(map(listener_text, listeners))  # where we said that we are, from now on
            try:
                place = await stack.enter_async_context(open_place(config, addresses))
                await _run_at(listeners, config, beginning, shells, manager, Messenger(place, is_ending))
                break
            except BaseExceptionGroup as group:
                failure = first_failure(group)
                if not isinstance(failure, StaleError):
                    raise
                log.warning("begins_again reason=%s", failure)
                del failure  # its traceback holds the node that ended, with its whole tree
        gc.unfreeze()  # that node is in cycles, which were frozen as it grew
        gc.collect()
        beginning = Beginning(restarts=beginning.restarts + 1)
    done.cancel()


async def _run_at(
    listeners: list[trio.SocketListener],
    config: Config,
    beginning: Beginning,
    shells: Shells,
    manager: ServiceManager,
    messenger: Messenger,
) -> None:
    await manager.tell(f"STATUS=reading {config.data_dir}")
    possible = shells.allow_connections(config.limits.connections)
    config = attrs.evolve(config, limits=attrs.evolve(config.limits, connections=possible))
    ask_for_short_turns()
    bound = list(map(listener_text, listeners))
    where = ", ".join([*bound, *shells.places])
    addr = config.advertise or next((text for text in bound if not text.startswith(UNIX)), "")
    _check_restored(config, beginning, None)
    with open_directory(config, cut_damage=beginning.restored) as directory, ForcedEnd() as end:
        driver = _driver(config, beginning, addr, directory, messenger)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end.watch)
            driver.begin()
            nursery.start_soon(serve_listeners, driver, listeners)
            nursery.start_soon(shells.serve, driver)
            nursery.start_soon(_keep_room, directory.log, driver)
            nursery.start_soon(spare_entries, driver.replica)
            nursery.start_soon(forget_history, directory.archive, config.history)
            nursery.start_soon(_say_ready, driver, where, manager)
            if manager.is_there:
                nursery.start_soon(_keep_status, driver, where, manager)
                nursery.start_soon(manager.keep_watchdog)
            had_data = driver.replica.network_id is not None
            await nursery.start(driver.run, partial(check_own_address, config))
            if config.transport == "serf" and not had_data and not driver.is_up:
                serf = config.serf
                raise UnreachableError(
                    f"no Serf agent answers at {serf.host}:{serf.port}: start one (`serf agent`), name another with"
                    " --serf HOST:PORT, or run without one by --transport solo"
                )


# -- parts --------------------------------------------------------------------------------------------------------


def _driver(
    config: Config, beginning: Beginning, addr: str, directory: Directory, messenger: Messenger
) -> Driver:
    """A node as the directory has it; it does nothing yet."""
    is_cut = directory.log.recovered.cut != ""  # also when that start ended before it could write it down
    replica = _replica(config, attrs.evolve(beginning, restored=beginning.restored or is_cut), addr)
    committer = Committer(directory.log)
    settler = Settler(replica.store, committer, directory.archive, directory.log)
    aside = AsideKeeper(replica, Counter(), KeptFile(os.path.join(directory.path, FILE_NAME)))
    directory.load_into(replica.store, settler, aside.replay, aside)
    if config.transport == "solo" and replica.network_id is None and beginning.init_value is None:
        raise SettingsError(
            f"{config.data_dir} holds no data, and without a transport there is nobody to get it from:"
            " give --init VALUE to begin with"
        )
    _check_restored(config, beginning, replica)
    scrub = Scrub(settler, directory.archive, config.scrub)
    transport, silent_s = _transport(config, addr, beginning, replica, messenger), config.links.silent_s
    caller = PeerCaller(limits=config.limits)
    driver = Driver(replica, committer, transport, caller, config.limits, settler, scrub, silent_s)
    driver.aside, aside.counters = aside, driver.counters
    driver.loans, caller.contain = caller.loans, driver.faults.contain
    settler.contain = driver.faults.contain
    if transport is not None:
        transport.contain = driver.faults.contain
        driver.tree_edges.attacher = caller
    return driver


def _check_restored(config: Config, beginning: Beginning, replica: Replica | None) -> None:
    """Before a directory is made, and again when what is in it was read.

    Raises:
        SettingsError: `--restored` is said of nothing, of a mistyped directory perhaps.
    """
    has_data = os.path.isdir(config.data_dir) if replica is None else replica.network_id is not None
    if beginning.restored and not has_data:
        raise SettingsError(
            f"{config.data_dir} holds no data, and --restored is for data that was put back: see to the directory, or"
            " leave out --restored to join as an empty node does"
        )


def _replica(config: Config, beginning: Beginning, addr: str) -> Replica:
    settings = CoreSettings(
        node=NodeName(config.node),
        addr=addr,
        start=Start(time.time(), random.getrandbits(63)),
        clock_ms=int(config.ping.clock_s * 1000),
        ping_length=config.ping.length,
        chain_length_max=config.chain_length,
        delete_retention_ms=int(config.delete.retention_s * 1000),
        alone=config.transport == "solo",
        follow=config.links.follow,
        fanout=config.links.fanout,
        limits=CoreLimits(config.limits.tock_jump, config.limits.pull_events, config.limits.data_bytes),
        beginning=attrs.evolve(beginning, network_id=os.urandom(8)),
    )
    tree = TreeSettings(settings.node, addr, config.tree.fanout, round(config.tree.announce_s * 1000))
    return Replica(
        settings,
        random.Random(),
        machines(config, random.SystemRandom()),
        None if settings.alone else partial(ServerTree, tree, random.Random()),
    )


def _transport(
    config: Config, addr: str, beginning: Beginning, replica: Replica, messenger: Messenger
) -> SerfTransport | SwimTransport | None:
    if config.transport == "solo":
        return None
    if messenger.place is not None:
        return messenger.place.transport(
            config,
            registered=partial(_registered, replica),
            has_data=replica.network_id is not None or beginning.init_value is not None,
            is_leaving=messenger.is_ending,
        )
    return SerfTransport(config.serf, NodeName(config.node), addr, random.Random())


def _registered(replica: Replica) -> dict[str, str]:
    """Where the other registered nodes are, as far as that is known: HOST:PORT by names."""
    found = {
        str(name): replica.addr_of(name) or registered.addr
        for name, registered in replica.registry.nodes.items()
        if name != replica.name
    }
    return {name: addr for name, addr in found.items() if addr}


# -- small tasks --------------------------------------------------------------------------------------------------


async def _keep_room(store: Log, driver: Driver) -> None:
    """Have a segment ahead, so that a full disk is met before a write and not in it.

    No segment is made while the archive is known to have no room: what it takes, the log gives back. It may have been
    refused only after a segment was made.
    """
    was_short = False
    while True:
        if store.wants_refill:
            is_held = driver.settler is not None and driver.settler.is_short
            is_short = is_held or not await on_a_thread(store.refill)
            if is_short and not was_short:
                reason = os.strerror(errno.ENOSPC) if is_held else store.statistics().shortage
                log.error("no_space reason=%s: writes will be refused, reads go on", reason)
            elif was_short and not is_short:
                log.warning("space_again")
            was_short = is_short
        await trio.sleep(1 if was_short else 0.2)


async def _say_ready(driver: Driver, where: str, manager: ServiceManager) -> None:
    await driver.wait_ready()
    await driver.committer.wait_durable(driver.position)
    replica = driver.replica
    count = replica.tree.live_count
    print(f"distkv: {replica.name} ready on {where} ({replica.state}, {count} entries)", flush=True)
    # Until it was heard: a start that waits for it would else never be over.
    while not await manager.tell("READY=1"):  # noqa: ASYNC110  # another process sets no events
        await trio.sleep(STATUS_S)


async def _keep_status(driver: Driver, where: str, manager: ServiceManager) -> None:
    """One line for people who ask the service manager, whenever it is another one."""
    replica, told = driver.replica, ""
    while True:
        state = replica.state_at(driver.now_ms())
        status = f"{state} on {where}" if replica.is_serving else f"{state}: {replica.waits_for}"
        if status != told:
            await manager.tell(f"STATUS={status}")
            told = status
        await trio.sleep(STATUS_S)
