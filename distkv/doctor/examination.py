"""All checks of one node and its surroundings, in their order.

Knows: which facts each check needs.  Does not know how they are gathered, judged or printed.

Invariant: a check whose facts cannot be had is left out, and an earlier line says why they cannot.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from distkv.client.addresses import Address, UnixAddress, read_address
from distkv.config import Config
from distkv.core.ground.service import mounted
from distkv.doctor import checks
from distkv.doctor.agent import ask_agent
from distkv.doctor.facts import Finding, NodeFacts
from distkv.doctor.group import check_group
from distkv.doctor.host import look_at_descriptors, look_at_directory
from distkv.doctor.nodes import ask_node, ask_peers
from distkv.doctor.services import checkups

ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a server answers that listens everywhere."""


def examine(config: Config) -> Iterator[Finding]:
    """The findings, each as soon as it is made."""
    directory = look_at_directory(config.data_dir)
    node = ask_node(_own_address(config))
    yield checks.check_node(node, config.node, directory)
    yield from checks.check_directory(directory, node)
    yield checks.check_descriptors(look_at_descriptors(directory.holder), config.limits)
    if config.transport == "serf":
        agent = ask_agent(config.serf)
        yield from checks.check_agent(agent)
        if agent.trouble is None and not node.failure:
            yield from checks.check_members(agent, node)
    if not node.failure:
        yield from _examine_network(node)
    if node.name == config.node:
        yield from checks.check_restart(node, _configured(config))


def _examine_network(node: NodeFacts) -> Iterator[Finding]:
    others = ask_peers(node)
    yield from checks.check_peers(node, others)
    nodes = [node, *(other for other in others.values() if not other.failure and other.network == node.network)]
    yield from checks.check_links(nodes)
    if node.group is not None:
        yield from check_group(nodes)
    yield from checks.check_damage(nodes, time.time())
    for one in checkups():
        yield from one.check(nodes)
    yield checks.check_releases(nodes)
    yield from checks.check_clocks(nodes)
    yield from checks.check_settings(nodes)
    yield from checks.check_pings(nodes)


def _configured(config: Config) -> dict[str, object]:
    found: dict[str, object] = {
        "ping.clock": config.ping.clock_s,
        "ping.length": config.ping.length,
        "chain.length": config.chain_length,
    }
    for service in mounted():
        found |= service.alike(config)
    match config.transport:
        case "serf":
            found["serf.root"] = config.serf.root
        case "swim":
            found |= {"swim.group": config.swim.group, "swim.interval": config.swim.interval_s}
    return found


def _own_address(config: Config) -> Address:
    address = read_address(config.listen[0])
    if isinstance(address, UnixAddress):
        return address
    host, port = address
    return ANY.get(host, host), port
