"""What token servers know of all, in words, as a scenario shows it.

Knows: what of a server people want to compare.  Does not know how it came to that.

Invariant: two servers that know the same have the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from distkv.core.tokens.machine import TokenMachine
from distkv.core.tokens.state import TokenState
from distkv.sim.tokens.nodes import TokenNodes
from distkv.wire.token_fields import version_of


def server_lines(nodes: TokenNodes, names: Mapping[str, str], tokens: Iterable[str], now_ms: int) -> list[str]:
    """What each group of servers knows of all, and which of them may grant. `names` are those of clients, by their
    sessions; `tokens` those of which it is of interest who is responsible."""
    groups: dict[str, list[str]] = {}
    granting: list[str] = []
    for name, machine in _running(nodes):
        groups.setdefault(_known(machine.effective, names, tokens), []).append(name)
        consensus = machine.consensus
        if consensus is not None and nodes.hosts[name].boot_ms(now_ms) < consensus.grants_until_ms:
            granting.append(name)
    lines = [f"{' '.join(some)}: {words}" for words, some in groups.items()]
    return [*lines, f"may grant: {' '.join(granting) or 'nobody'}"]


def _running(nodes: TokenNodes) -> Iterator[tuple[str, TokenMachine]]:
    for name, host in nodes.hosts.items():
        machine = nodes.machines.get(name)
        if machine is None or host.process is None:
            continue
        consensus = machine.consensus
        if host.node in nodes.settings.servers if consensus is None else consensus.is_server:
            yield name, machine


def _known(state: TokenState | None, names: Mapping[str, str], tokens: Iterable[str]) -> str:
    if state is None:
        return "no version"
    sessions = sorted(f"{names.get(one, 'session')} {version_of(one)}" for one in state.sessions)
    parts = [
        f"version {state.version}",
        f"{state.leader} leads",
        ", ".join(f"{name} {one.standing.value}" for name, one in state.servers.items()),
        f"changes to {' '.join(state.next)}" if state.next else "",
        ", ".join(sessions) or "no sessions",
        ", ".join(f"{token} at {state.server_of(token)}" for token in sorted(tokens)),
    ]
    return "; ".join(part for part in parts if part)
