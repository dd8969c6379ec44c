"""What `distkv doctor` sees of the token service, and what it makes of that.

Knows: what a node shows of tokens, and what is well.  Does not know how nodes are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from distkv.doctor.facts import Finding, Level, NodeFacts
from distkv.doctor.services import Checkup
from distkv.doctor.wording import counted, grouped, listed
from distkv.wire.fields import read_list, read_map

TOKENS: Final = "tokens"


@attrs.frozen
class TokenServerFacts:
    """What a token server knows of all of them."""

    leader: str | None
    states: Mapping[str, str] = attrs.field(factory=dict)
    """Of each server that is named; empty: they did not begin yet."""
    differing: tuple[str, ...] = ()
    """Nodes whose settings name other servers."""


@attrs.frozen
class TokenFacts:
    """What a node shows of tokens."""

    server: TokenServerFacts | None = None
    """None: it is no token server."""
    lists: tuple[tuple[str, ...], ...] = ()
    """The list of token servers in force, as it knows, and the one that is to take its place, if there is one; empty:
    it does not know, or there are none."""


def read(shown: Mapping[str, object]) -> TokenFacts:
    """What the state of a node says.

    Raises:
        DecodeError: it cannot be meant.
    """
    lists = [tuple(map(str, read_list(shown.get(name, []), name))) for name in ("list", "next")]
    return TokenFacts(_server(shown), tuple([one for one in lists if one]))


def check(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether the token servers are all there and agree who they are."""
    found = {node.name: _facts(node) for node in nodes}
    told = {name: facts.server for name, facts in found.items() if facts.server is not None}
    complaints = [one for name, server in told.items() for one in _token_complaints(name, server)]
    complaints += _list_complaints(nodes)
    servers = str(nodes[0].settings.get("tokens.servers", ""))
    if servers and not told:
        says = f"no token works at {nodes[0].name}: it hears none of the servers {servers}"
        complaints.append(Finding("tokens", Level.FAIL, says, "start them, or see to the network between"))
    yield from complaints
    if told and not complaints:
        leaders = sorted({str(tokens.leader) for tokens in told.values()})
        yield Finding("tokens", Level.OK, f"{counted(len(told), 'server')} ready, led by {listed(leaders)}")


def _token_complaints(name: str, tokens: TokenServerFacts) -> Iterator[Finding]:
    if tokens.differing and not tokens.states:
        says = f"the settings of {name} name other token servers than those of {listed(tokens.differing)}"
        yield Finding("tokens", Level.WARN, says, "set tokens.servers alike on all nodes, and start them again")
    elif tokens.leader is None or not tokens.states:
        says, do = f"{name} knows no leader of the token servers", "start a majority of them; for the first time, all"
        yield Finding("tokens", Level.WARN, says, do)
    away = [server for server, state in tokens.states.items() if state == "down"]
    if away and tokens.leader == name:
        yield Finding("tokens", Level.WARN, f"of the token servers {listed(away)} is down", "start it again")


def _list_complaints(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Who has which list of token servers, until all have the same, and their settings, too."""
    knowing = [node for node in nodes if _facts(node).lists]
    having = grouped({node.name: " and ".join(map(", ".join, _facts(node).lists)) for node in knowing})
    if len(having) > 1:
        shown = "; ".join(f"{listed(names)}: {lists}" for lists, names in having.items())
        do = "wait until they hear of each other; then ask 'distkv client token servers'"
        yield Finding("tokens", Level.WARN, f"not all know the same list of token servers ({shown})", do)
    for node in [node for node in knowing if len(_facts(node).lists) > 1 and len(having) == 1][:1]:
        old, new = (",".join(one) for one in _facts(node).lists)
        do = f"'distkv client token servers --set {new}' says what it waits for, with {old} it goes back"
        yield Finding("tokens", Level.WARN, f"the token servers change from {old} to {new}", do)
    for node in knowing:
        setting, last = str(node.settings.get("tokens.servers", "")), ", ".join(_facts(node).lists[-1])
        if setting and setting != last:
            says = f"tokens.servers is {setting} in the settings of {node.name}, and the list in force is {last}"
            do = f"set it to the list in force; only 'distkv client token servers --set {setting}' changes that"
            yield Finding("tokens", Level.WARN, says, do.replace(", ", ","))


def _server(shown: Mapping[str, object]) -> TokenServerFacts | None:
    if "differing" not in shown:
        return None
    leader, states = shown.get("leader"), read_map(shown.get("states", {}), "states")
    return TokenServerFacts(
        None if leader is None else str(leader),
        {str(name): str(state) for name, state in states.items()},
        tuple(map(str, read_list(shown["differing"], "differing"))),
    )


def _facts(node: NodeFacts) -> TokenFacts:
    found = node.services.get(TOKENS)
    return found if isinstance(found, TokenFacts) else TokenFacts()


CHECKUP: Final = Checkup(TOKENS, read, check)
