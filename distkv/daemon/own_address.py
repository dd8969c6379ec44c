"""Whether the address that others are told leads to this node.

Knows: that whoever connects to a node is told its name.  Does not know how others find the address.

Invariant: it is asked before anybody is told of it, and when this node takes connections already.
"""

from __future__ import annotations

import logging

from distkv.config import Config
from distkv.errors import PeerError, SettingsError
from distkv.transport.pull import greeting

log = logging.getLogger("distkv.daemon")


async def check_own_address(config: Config) -> None:
    """Connect to the address that others are to use, if it was chosen by `advertise`, and see who answers.

    That nobody does is only logged: not every network lets a host reach itself by the address that others use.

    Raises:
        SettingsError: another node answers: others would take it for this one.
    """
    addr, node = config.advertise, config.node
    if addr is None or config.transport == "solo":
        return
    try:
        there = (await greeting(addr)).node
    except PeerError as error:
        log.warning("advertise_silent reason=%s: see from another host whether this node answers there", error)
        return
    if there != node:
        raise SettingsError(
            f"advertise is {addr}, and the node {there} answers there: give {node} an address that leads to itself"
        )
