"""What a node asks the token servers for its clients, as far as it knows who these are.

Knows: one node's half.  Does not know what a server answers.
"""

from __future__ import annotations

from random import Random

from distkv.core.tokens.known_servers import KnownServers
from distkv.core.tokens.proxy import Proxy
from distkv.core.tokens.questions import Questions
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.calls import CallAsked
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_messages import ClaimTokens, TokenMap, decode_question
from distkv.wire.token_requests import TokenKeep
from distkv.wire.token_states import TokenServer
from tests.taken_effects import TakenEffects

A, B, C, ME = (NodeName(name) for name in "abcm")


def servers_map(changed: int, *names: NodeName) -> TokenMap:
    servers = dict.fromkeys(names, TokenServer(ServerStanding.READY, 1, changed))
    return TokenMap(1, changed, changed, A, servers, 1, is_sure=True)


def test_session_says_what_it_holds_also_to_a_server_of_which_its_node_learns_later() -> None:
    """Its client was told of the change first (docs/protocol, PART-3)."""
    effects, known = TakenEffects(), KnownServers((A, B))
    settings = ServingSettings(ME, (A, B), 1)
    proxy = Proxy(settings, Questions(ME, 1, effects), known, effects, Random(1))
    known.heard(servers_map(3, A, B), 0)
    proxy.asked(1, TokenKeep(0, "3-u", 12, (HeldToken("t", 1, 1, is_shared=False),)), 0)
    assert claimed(effects) == {A, B}
    known.heard(servers_map(12, A, B, C), 10)
    proxy.map_changed(10)
    assert claimed(effects) == {C}


def claimed(effects: TakenEffects) -> set[NodeName]:
    """Who is told what a session holds."""
    asked = [(tell.to, tell.message) for tell in effects.take().tells if isinstance(tell.message, CallAsked)]
    return {to for to, one in asked if isinstance(decode_question(one.body), ClaimTokens)}
