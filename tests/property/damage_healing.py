"""A damaged node beside two intact ones, in virtual time: what it tells them, and what they bring back.

Knows: that whatever was there must be there again, on all three, and that nothing else may have been told meanwhile.
Does not know what was damaged.

Invariant: nothing here looks at how a node heals, only at what people and the other nodes see.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio

from distkv.daemon.failure import first_failure
from distkv.errors import DistkvError, LogDamagedError, StaleError
from distkv.model.event import Event
from tests.node.nodes import CLOCK_MS, Node, Reply, World, new_world, run
from tests.property.damage_reference import NAMES, Moment, content_of, events, shown, start, stop

RESTARTS = 4
"""A node whose disk is an old one begins again in the same process; more often than so is a fault."""
QUIET_CLOCKS = 12


class Unhealed(Exception):
    """What must not be."""


def heal(moment: Moment, path: Path, damage: Callable[[], object] | None = None) -> str:
    """Start the three whose directories lie at `path`, and wait until all is as it was.

    With `damage`, node a is intact until it runs; then it is damaged, and looks at its whole disk.

    Returns the one line with which the damaged one, a, ended instead; else nothing. Raises Unhealed.
    """
    refusal = ""

    async def main() -> None:
        nonlocal refusal
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            refusal = await _heal(world, moment, path, damage)
            nursery.cancel_scope.cancel()

    try:
        run(main)
    except BaseExceptionGroup as group:
        raise first_failure(group) from group
    return refusal


async def _heal(world: World, moment: Moment, path: Path, damage: Callable[[], object] | None) -> str:
    for name in "bc":
        await start(world, path, name)
    watched: list[Reply] = []
    for name in "bc":
        world.nursery.start_soon(_watch, world.nodes[name], watched)
    node = await _start_a(world, path, watched)
    if node.failure is not None:
        return _line(node.failure)
    await _check_equal(world, moment)
    if damage is not None:
        damage()
        await _scrub(node)
        if node.failure is not None:
            return _line(node.failure)
        if await _scrub(node):
            found = node.opened and node.opened.damage.all()
            raise Unhealed(f"what a look has found, the next one finds again: {found}")
    await _check_quiet(world)
    if node.failure is not None:
        return _line(node.failure)
    await _check_equal(world, moment)
    await stop(node)
    if node.failure is not None:
        return _line(node.failure)
    again = await _start_a(world, path, watched)
    if again.failure is not None:
        return _line(again.failure)
    if again.driver.counters["damaged"]:
        raise Unhealed(f"it is damaged still: {again.opened and again.opened.damage.all()}")
    await _check_equal(world, moment)
    _check_told(world, moment, watched)
    return ""


async def _scrub(node: Node) -> int:
    """Look at everything; how many places were found damaged. Or the node ends."""
    scrub = node.driver.scrub
    assert scrub is not None
    progress = scrub.now(is_fast=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_after, node.ended, nursery.cancel_scope)
        await progress.done.wait()
        await trio.sleep(CLOCK_MS / 1000)  # what ends it does so within a step or two
        nursery.cancel_scope.cancel()
    return len(progress.damaged)


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _start_a(world: World, path: Path, watched: list[Reply]) -> Node:
    """Until it is ready, or ended for good."""
    for _ in range(RESTARTS):
        node = await start(world, path, "a")
        if node.failure is None:
            world.nursery.start_soon(_watch, node, watched)
            await _ready_or_ended(world, node)
        if not isinstance(node.failure, StaleError):
            return node
    raise Unhealed("it begins again and again")


async def _ready_or_ended(world: World, node: Node) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_after, node.ended, nursery.cancel_scope)
        try:
            await world.ready(*NAMES)
        except trio.TooSlowError as error:
            states = {name: node.replica.waits_for for name, node in world.nodes.items()}
            raise Unhealed(f"not ready within a minute: {states}") from error
        nursery.cancel_scope.cancel()


def _line(failure: BaseException) -> str:
    if not isinstance(failure, DistkvError) or "\n" in str(failure):
        raise Unhealed(f"ended by {failure!r}")
    return f"{type(failure).__name__}: {failure}"


async def _watch(node: Node, told: list[Reply]) -> None:
    """Be told of everything from the start on, as long as the node lives."""
    async with node.client() as client:
        await client.stream.send_all(client.frame("watch", path=[], fetch=True))
        while (reply := await client.receive()) is not None:
            if "path" in reply:
                told.append(reply)


# -- what must hold -----------------------------------------------------------------------------------------------


async def _check_equal(world: World, moment: Moment) -> None:
    try:
        await world.converged(*NAMES)
    except trio.TooSlowError as error:
        digests = {name: f"{world.nodes[name].replica.tree.digest:x}" for name in NAMES}
        raise Unhealed(f"not equal within two minutes: {digests}") from error
    for name in NAMES:
        here = shown(world.nodes[name].replica)
        for key in {**here, **moment.shown}:
            if here.get(key) != moment.shown.get(key):
                raise Unhealed(f"{name} holds at {key!r:.60} {here.get(key)!r:.300} for {moment.shown.get(key)!r:.300}")


async def _check_quiet(world: World) -> None:
    """Nobody goes on finding that others hold something else."""
    await trio.sleep(QUIET_CLOCKS * CLOCK_MS / 1000)
    before = _differences(world)
    await trio.sleep(QUIET_CLOCKS * CLOCK_MS / 1000)
    if _differences(world) != before:
        raise Unhealed(f"digest_differs for ever: {before}, then {_differences(world)}")


def _differences(world: World) -> dict[str, int]:
    return {name: world.nodes[name].driver.counters["digest_differs"] for name in NAMES}


def _check_told(world: World, moment: Moment, watched: list[Reply]) -> None:
    """No node has met anything but what there was, but for what nodes write of themselves; nor was a watcher told."""
    known = moment.known
    for name in NAMES:
        node = world.nodes[name]
        if node.driver.counters["two_contents"]:
            raise Unhealed(f"{name} met two contents of one tick")
        for event in [*_history(node), *_present(node)]:
            if known.get(event.link) != content_of(event) and not event.path.is_reserved:
                raise Unhealed(f"{name} holds {content_of(event)!r:.300} for {known.get(event.link)!r:.300}")
    for reply in watched:
        content = known.get((reply["node"], reply["tick"])) if "tick" in reply else None
        if content is None or content[1] != tuple(reply["path"]):
            raise Unhealed(f"a watcher was told {reply!r:.300}, which is {content!r:.300}")


def _history(node: Node) -> list[Event]:
    assert node.opened is not None
    assert node.driver.settler is not None
    try:
        rows = list(node.opened.past.rows())
    except LogDamagedError:  # that of the damaged node comes back from nobody
        if node.name != "a":
            raise
        rows = []
    return events([*rows, *node.driver.settler.recent()])


def _present(node: Node) -> list[Event]:
    return [event for entry in node.replica.tree.entries() for event in (entry.head, *entry.losers)]
