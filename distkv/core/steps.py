"""The steps that the start-up machine wants, taken: what a node asks, says and writes until it is ready.

Knows: what each step comes to.  Does not know when it is due, nor whom to ask next (`startup`).

Invariant: whoever becomes ready is registered under its own life and address, or finds out whether somebody else has
its name (docs/protocol, REG-5, NAME-1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from distkv.core.asks import Why
from distkv.core.node import Node
from distkv.core.ready import AskMaps, AskSnapshot
from distkv.core.startup import Step
from distkv.core.turn import Turn
from distkv.errors import InitRefusedError


def take(steps: Iterable[Step], node: Node, turn: Turn) -> None:
    """Take what `node.startup` answered, in its order."""
    for step in steps:
        match step:
            case Step.SEND_INITIAL_PING:
                node.send_ping(turn)
            case Step.FOUND_NETWORK:
                _found_network(node, turn)
            case Step.REFUSE_INIT:
                turn.ready.fatal = InitRefusedError(
                    "a network answers already: start without --init to join it, or give this one another serf.root"
                )
            case Step.ASK_MAPS if node.lives.witnesses.is_asking:
                node.startup.asked()  # the first of the witnesses that answers brings what this would
            case Step.ASK_MAPS:
                _ask(AskMaps(), Why.EXCHANGE, node, turn)
            case Step.ASK_SNAPSHOT if node.asks.has(Why.DOWNLOAD):
                node.startup.asked()  # a second one would void the first, however far that is
            case Step.ASK_SNAPSHOT:
                _ask(AskSnapshot(), Why.DOWNLOAD, node, turn)
            case Step.BECOME_READY:
                _become_ready(node, turn)
            case _:
                assert_never(step)


def _ask(what: AskMaps | AskSnapshot, why: Why, node: Node, turn: Turn) -> None:
    """Ask whose turn it is, if anybody is known."""
    source = node.startup.source()
    if source is not None:
        node.startup.asked()
        node.ask(*source, what, why, turn)


def _found_network(node: Node, turn: Turn) -> None:
    store, beginning = node.store, node.settings.beginning
    turn.ready.records += store.own.begin_life(0)
    for applied in store.found_network(beginning.network_id, beginning.init_value or b"\xc0", turn.wall):
        node.publish(applied, turn)


def _become_ready(node: Node, turn: Turn) -> None:
    node.follow(node.lives.became_ready(), turn)
    if node.is_up:
        node.election.wake(turn.now_ms)
    turn.ready.note("ready", state=node.state.value)
