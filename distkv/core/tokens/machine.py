"""The token service of one node as a machine of the core: consensus, where the node is a server, and what clients ask.

Knows: how the two are put together, and in which life the service is.  Does not know what either does, nor how a
message travels.

Invariant: what happens in one step is one batch on the disk, and nothing of the step leaves before that. A service that
lost what it kept begins a new life of its own, whatever the life of the node: it may have forgotten a vote or a grant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from distkv.core.ground.frames import Announced, Heard, Lacked
from distkv.core.ground.machine import (
    Entries,
    EntryChanged,
    NetworkNodes,
    NodesChanged,
    ServiceGround,
    ServiceInput,
    ServiceWoken,
    Setting,
)
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, NodesSilent, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import NodeTold, Rng, ServiceAsked, ServiceContinued, ServiceWithdrawn, is_of_client
from distkv.core.tokens.agreement.consensus import Consensus
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.turn import AgreementTurn, AgreementWoken, EntryRead, StateTold
from distkv.core.tokens.effects import TokenEffects
from distkv.core.tokens.service import TokenService
from distkv.core.tokens.serving.served_token import ServedToken
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.state import TokenState
from distkv.core.tokens.token_settings import TokenSettings
from distkv.errors import DecodeError, ForbiddenError, RequestError
from distkv.model.event import NodeName
from distkv.wire.calls import CallAnswered, CallAsked, CallsCancelled, CallsChecked, CallsDropped, CallsSeen
from distkv.wire.declared import pack
from distkv.wire.token_bodies import decode_body, decode_identity
from distkv.wire.token_replies import TokenDone
from distkv.wire.token_requests import OneTokenRequest, TokenKeep, TokenRequest, TokenReset
from distkv.wire.token_states import decode_founding

TOKENS: Final = "tokens"
"""The name of the service."""
IDENTITY_SLOT: Final = "identity"
CHANCE: Final = 1 << 24
"""From so many numbers the life of a service is drawn, besides that of its node."""
STARTS_MAX: Final = 1 << 10
"""Of one life of a node, before their numbers reach those of a life a second later."""
RESERVED: Final = ":"
"""So begin the names of tokens that are for services: a service of a node takes `:user ann`, for example, while it
changes an account. A client that had it could hold that up for ever."""
CALLS: Final = (CallAsked, CallAnswered, CallsChecked, CallsSeen, CallsCancelled, CallsDropped)


class TokenMachine:
    """All times are milliseconds of a clock that goes on while the machine sleeps."""

    def __init__(self, settings: TokenSettings, rng: Rng) -> None:
        self.settings: Final = settings
        self._rng: Final = rng
        self._wall = 0.0
        self._consensus: Consensus | None = None
        self._service: TokenService | None = None
        self._effects = TokenEffects(0, ServiceTurn(TOKENS, 0, 0.0))
        """Nobody's until it begins."""
        self._entries: Entries | None = None
        self._nodes: NetworkNodes | None = None
        self._due_ms: int | None = None
        self._agreed_due_ms: int | None = None
        """When the consensus wants to be woken."""
        self._listed: tuple[NodeName, ...] = ()
        """The list of servers that the store had last."""

    # -- reading

    @property
    def effective(self) -> TokenState | None:
        """The newest common state that this server knows; None also where it is no server."""
        return None if self._consensus is None else self._consensus.effective

    @property
    def consensus(self) -> Consensus | None:
        """What this node knows of the agreement of the servers; None before it begins. Not to be changed."""
        return self._consensus

    def served(self, token: str) -> ServedToken | None:
        """A token as this server knows it, which is not to be changed; None: this node is no server."""
        return None if self._service is None else self._service.serving.served(token)

    def serves(self, token: str, boot_ms: int) -> bool:
        """Whether this server may grant this now."""
        return self._service is not None and self._service.serving.serves(token, boot_ms)

    def statistics(self) -> dict[str, object]:
        """What people are shown: who serves, and, of a server, what it knows of the others."""
        consensus, settings = self._consensus, self.settings
        found: dict[str, object] = {
            "servers": [*settings.servers], "lease": settings.lease_ms / 1000, "ttl": settings.ttl_ms / 1000,
        }  # fmt: skip
        if consensus is None:
            return found
        if consensus.listed:
            found |= {"list": consensus.list, "next": consensus.next}
        if not consensus.is_server:
            return found
        differing = sorted(consensus.admission.differing)
        found |= {"leader": consensus.leader, "term": consensus.term, "differing": differing}
        state = consensus.effective
        if state is not None:
            states = {name: server.standing.value for name, server in state.servers.items()}
            found |= {"version": state.version, "sessions": len(state.sessions), "states": states}
        return found

    def alike(self) -> Mapping[str, Setting]:
        """Who serves, and for how long without a majority."""
        return self.settings.alike()

    def wake_ms(self) -> int | None:
        """When it wants to be woken."""
        return self._due_ms

    # -- what happens

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:
        """Begin anew."""
        self._wall, self._listed = turn.wall, ()
        try:
            self._begin(turn, ground, ground.slots)
        except DecodeError as error:  # then it is as lost as if the disk were
            turn.effects.clear()  # what was done with some of it
            turn.note("token_slots_bad", reason=error.reason)
            for key in ground.slots:
                turn.keep(key, None)
            self._begin(turn, ground, {})

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input."""
        consensus, service = self._consensus, self._service
        if consensus is None or service is None:
            return
        boot_ms, self._wall, is_agreement = turn.boot_ms, turn.wall, True
        self._effects.turn = turn
        agreement = AgreementTurn(boot_ms, self._effects)
        match what:
            case ServiceAsked(id=id, request=request, asker=asker):
                is_agreement = isinstance(request, TokenReset)
                if isinstance(request, TokenReset):
                    self._reset(turn, agreement, consensus, id, request)
                elif isinstance(request, TokenRequest):
                    self._asked(turn, service, id, request, asker)
            case ServiceContinued(id=id):
                is_agreement = False
                service.more(id, boot_ms)
            case ServiceWithdrawn(id=id):
                is_agreement = False
                service.gone(id, boot_ms)
            case NodeTold(name=name, body=body):
                try:
                    life, message = decode_body(body)
                except DecodeError as error:
                    turn.note("token_message_bad", node=name, reason=error.reason)
                    return
                is_agreement = not isinstance(message, CALLS)
                if isinstance(message, CALLS):
                    service.told(name, message, boot_ms)
                else:
                    consensus.step(agreement, StateTold(name, life, message))
            case EntryChanged(key=key):
                if key or not self._look_at_entry(agreement, consensus):
                    return
            case NodesChanged():
                self._count_nodes(service)
                return
            case NodeAsked() | NodeGaveUp() | NodesSilent() | Replied() | Heard() | Lacked() | Announced():
                return  # servers agree among themselves, by questions of their own
            case ServiceWoken():
                consensus.step(agreement, AgreementWoken())
                service.woken(boot_ms)
            case _:
                assert_never(what)
        self._do_all(turn, is_agreement=is_agreement)

    # -- inside

    def _begin(self, turn: ServiceTurn, ground: ServiceGround, slots: Mapping[str, bytes]) -> None:
        settings, boot_ms = self.settings, turn.boot_ms
        life, boot = self._identity(ground.life, slots.get(IDENTITY_SLOT))
        self._entries, self._nodes = ground.entries, ground.nodes
        consensus = Consensus(
            ConsensusSettings(ground.me, settings.servers, settings.lease_ms, settings.drift, settings.sessions_max),
            life,
            self._rng,
        )
        serving = ServingSettings(
            ground.me,
            tuple(sorted(settings.servers)),
            boot,
            settings.lease_ms,
            settings.ttl_ms,
            settings.lock_delay_ms,
            settings.drift,
            settings.sessions_max,
            settings.tokens_max,
            settings.waiters_max,
        )
        effects = self._effects = TokenEffects(life, turn)
        service = TokenService(serving, consensus, effects, self._rng, boot_ms, consensus.start)
        agreement = AgreementTurn(boot_ms, effects)
        consensus.restore(agreement, slots)
        service.serving.restore(slots, boot_ms)
        self._count_nodes(service)
        self._consensus, self._service = consensus, service
        turn.keep(IDENTITY_SLOT, pack((life, boot)))
        self._look_at_entry(agreement, consensus)  # before it begins: who lost its disk must not found once more
        self._look_at_list(agreement, consensus)  # the disk may know it, too
        consensus.begin(agreement, max(0, int(turn.wall - ground.created)))
        self._do_all(turn)

    def _count_nodes(self, service: TokenService) -> None:
        service.shares.is_one_node = self._nodes is not None and len(self._nodes.registered) == 1

    def _identity(self, node_life: int, kept: bytes | None) -> tuple[int, int]:
        """The life of the service, and the number of this start, which is above all earlier ones: each life of the node
        has room for many. No clock on a wall is asked, which may have been set back."""
        first = node_life * STARTS_MAX + 1
        if kept is None:
            return node_life * CHANCE + 1 + int(self._rng.random() * (CHANCE - 1)), first
        life, boot = decode_identity(kept)
        return life, max(boot + 1, first)

    def _look_at_entry(self, agreement: AgreementTurn, consensus: Consensus) -> bool:
        """Of two servers that founded at once each may have been heard first: so what lost counts, too. Whether
        anything is there."""
        found = [value for value in self._entries.versions("") if value is not None] if self._entries else []
        for value in found:
            self._founded(agreement, consensus, value)
        return bool(found)

    def _founded(self, agreement: AgreementTurn, consensus: Consensus, value: bytes) -> None:
        try:
            consensus.step(agreement, EntryRead(decode_founding(value)))
        except DecodeError as error:
            agreement.note("token_founding_bad", reason=error.reason)
        self._look_at_list(agreement, consensus)

    def _look_at_list(self, agreement: AgreementTurn, consensus: Consensus) -> None:
        """All nodes are to ask those that serve, whatever their settings name; it is said if that is another list."""
        names = consensus.listed
        if self._service is None or not names:
            return
        self._service.servers.listed(names)
        if names != self._listed:
            self._listed = names
            if names != tuple(sorted(self.settings.servers)):
                setting = ",".join(sorted(self.settings.servers))
                agreement.note("token_setting_differs", setting=setting, list=",".join(names))

    @staticmethod
    def _asked(turn: ServiceTurn, service: TokenService, id: int, request: TokenRequest, asker: int) -> None:
        name = _reserved_name(request)
        if name is not None and is_of_client(id):
            why = f"{name!r} begins with {RESERVED!r}: such tokens are for services, give another name"
            turn.answer(id, ForbiddenError(why))
        else:
            service.asked(id, request, turn.boot_ms, asker)

    def _reset(
        self, turn: ServiceTurn, agreement: AgreementTurn, consensus: Consensus, id: int, request: TokenReset
    ) -> None:
        try:
            consensus.reset(agreement, request.servers)
        except RequestError as error:
            turn.answer(id, error)
        else:
            turn.note("token_reset")
            turn.answer(id, TokenDone())

    def _do_all(self, turn: ServiceTurn, *, is_agreement: bool = True) -> None:
        """All that the two want done, when the service has seen what the servers agreed on meanwhile, if what happened
        is about that."""
        consensus, service = self._consensus, self._service
        if consensus is None or service is None:
            return
        while True:
            service.go_on(turn.boot_ms, self._wall, is_as_agreed=not is_agreement)
            is_agreement |= consensus.has_news
            if not is_agreement:
                break
            self._agreed_due_ms = consensus.wake_ms()
            if self._agreed_due_ms != 0:
                break
            agreement = AgreementTurn(turn.boot_ms, self._effects)
            consensus.step(agreement, AgreementWoken())  # it has news for others, or for the service
        self._due_ms = service.note_due(self._agreed_due_ms)

    def check(self, *, is_whole: bool = True) -> None:  # noqa: ARG002
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        if self._consensus is not None and self._service is not None:
            self._consensus.check()
            self._service.check()


def _reserved_name(request: TokenRequest) -> str | None:
    """The first such name that is in a request; None: there is none."""
    names = [request.token] if isinstance(request, OneTokenRequest) else []
    if isinstance(request, TokenKeep):
        names = [held.token for held in request.held]
    return next((name for name in names if name.startswith(RESERVED)), None)
