"""What clients are answered by a small fleet in which one thing happens at a time.

Knows: whole token services.  Does not know how they work.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_errors import HeldError, NoQuorumError
from distkv.wire.token_fields import read_ticket
from distkv.wire.token_replies import (
    SessionOpened,
    TokenDone,
    TokenGranted,
    TokenItem,
    TokenReply,
    TokensChanged,
    TokenServersShown,
    TokensListed,
)
from distkv.wire.token_requests import (
    TokenAcquire,
    TokenBreak,
    TokenClose,
    TokenKeep,
    TokenList,
    TokenOpen,
    TokenRelease,
    TokenRequest,
    TokenServers,
    TokenShow,
    TokenWatch,
)
from tests.property.token_clients import DRIFT, LEASE_MS, LOCK_DELAY_MS, TTL_MS
from tests.property.token_fleet import TokenFleet


class Talk:
    """Requests at one node of a fleet."""

    def __init__(self, fleet: TokenFleet, name: str) -> None:
        self.fleet, self.site = fleet, fleet.sites[NodeName(name)]
        self.count = 10**9

    def begin(self, request: TokenRequest) -> list[TokenReply | DistkvError]:
        """Ask; the list will have the answer."""
        self.count += 1
        id, found = self.count, list[TokenReply | DistkvError]()
        self.site.waiting[id] = found.append
        self.site.step(lambda service: service.asked(id, request, self.site.now_ms))
        return found

    def watch(self, prefix: str) -> dict[str, bool]:
        """Watch; of each token that was told, whether it was held when it was told last."""
        self.count += 1
        id, found = self.count, dict[str, bool]()

        def told(result: TokenReply | DistkvError) -> None:
            assert isinstance(result, TokensChanged)
            found.update({item.token: bool(item.holders) for item in result.items})
            self.site.step(lambda service: service.more(id, self.site.now_ms))

        self.site.waiting[id] = told
        self.site.step(lambda service: service.asked(id, TokenWatch(0, prefix), self.site.now_ms))
        return found

    def ask(self, request: TokenRequest, wait_ms: int = LEASE_MS + 300) -> TokenReply | DistkvError:
        found = self.begin(request)
        self.fleet.run(wait_ms)
        (answer,) = found
        return answer

    def open(self) -> str:
        opened = self.ask(TokenOpen(0))
        assert isinstance(opened, SessionOpened)
        return opened.session


def ready_fleet() -> tuple[TokenFleet, Talk]:
    fleet = TokenFleet(3)
    fleet.run(2 * LEASE_MS)
    return fleet, Talk(fleet, "p0")


def names(items: Sequence[TokenItem]) -> list[str]:
    return [item.token for item in items]


def test_tokens_of_all_servers_are_listed_by_name_in_pages() -> None:
    _, talk = ready_fleet()
    session = talk.open()
    for count in range(9):
        assert isinstance(talk.ask(TokenAcquire(0, session, f"t{count}"), 100), TokenGranted)
    first = talk.ask(TokenList(0, "t", 5), 200)
    assert isinstance(first, TokensListed)
    assert (names(first.items), first.more) == ([f"t{count}" for count in range(5)], True)
    rest = talk.ask(TokenList(0, "t", 5, "t4"), 200)
    assert isinstance(rest, TokensListed)
    assert (names(rest.items), rest.more) == ([f"t{count}" for count in range(5, 9)], False)


def test_watch_tells_what_is_held_and_what_changes() -> None:
    fleet, talk = ready_fleet()
    session = talk.open()
    talk.ask(TokenAcquire(0, session, "t1"), 100)
    told = list[TokenReply | DistkvError]()
    watch = talk.begin(TokenWatch(0, "t"))
    fleet.run(300)
    told += watch
    changed = [one for one in told if isinstance(one, TokensChanged)]
    assert [name for one in changed for name in names(one.items)] == ["t1"]
    assert [one.is_complete for one in changed] == [*[False] * (len(changed) - 1), True]


@pytest.mark.parametrize("returns", [True, False], ids=["and returned", "for good"])
def test_watch_tells_what_became_free_while_its_server_was_gone(*, returns: bool) -> None:
    fleet, talk = ready_fleet()
    session = talk.open()
    for count in range(9):
        talk.ask(TokenAcquire(0, session, f"t{count}"), 100)
    told = talk.watch("t")
    fleet.run(300)
    assert told == {f"t{count}": True for count in range(9)}
    fleet.sites[NodeName("s1")].stop()
    fleet.run(3 * TTL_MS)  # the session is not kept: it ends, and nobody tells the heirs what it held
    if returns:
        fleet.sites[NodeName("s1")].start()
    fleet.run(4 * LEASE_MS)
    assert told == {f"t{count}": False for count in range(9)}


def test_watch_tells_what_became_free_while_its_server_was_restarted() -> None:
    fleet, talk = ready_fleet()
    session = talk.open()
    for count in range(9):
        talk.ask(TokenAcquire(0, session, f"t{count}"), 50)
    told = talk.watch("t")
    fleet.run(100)
    talk.begin(TokenClose(0, session))
    for name in fleet.servers:
        fleet.sites[name].stop()
        fleet.sites[name].start()
    fleet.run(TTL_MS + 4 * LEASE_MS)
    assert told == {f"t{count}": False for count in range(9)}


def test_watches_are_told_of_what_is_still_held_after_a_restart() -> None:
    fleet, talk = ready_fleet()
    opened = talk.ask(TokenOpen(0, 60.0))
    assert isinstance(opened, SessionOpened)
    talk.ask(TokenAcquire(0, opened.session, "t"), 100)
    earlier = talk.watch("t")
    fleet.run(100)
    for name in fleet.servers:
        fleet.sites[name].stop()
        fleet.sites[name].start()
    fleet.run(4 * LEASE_MS)
    later = talk.watch("t")
    fleet.run(100)
    assert (earlier, later) == ({"t": True}, {"t": True})


def test_client_that_never_names_the_newest_version_does_not_stop_a_survey_for_ever() -> None:
    fleet, talk = ready_fleet()
    session, other = talk.open(), Talk(fleet, "p1")
    lazy = other.open()
    state = fleet.oracle.state
    assert state is not None
    mine = next(name for name in "abcdefgh" if state.server_of(name) == "s1")
    fleet.sites[NodeName("s1")].stop()
    for _ in range(30):
        other.begin(TokenKeep(0, lazy, 0, (), 0.1))
        talk.begin(TokenKeep(0, session, fleet.oracle.state.changed, (), 0.1))
        fleet.run(TTL_MS // 6)
    assert isinstance(talk.ask(TokenAcquire(0, session, mine)), TokenGranted)


@pytest.mark.parametrize("session", ["1-x", f"{2**61}-x"])
def test_nothing_is_kept_of_sessions_that_never_were(session: str) -> None:
    fleet, talk = ready_fleet()
    held = (HeldToken("t", 1, 1, is_shared=False, data=b"\x01"),)
    talk.begin(TokenKeep(0, session, 2**61, held, 0.0))
    fleet.run(4 * LEASE_MS)
    assert [site.service.claims for site in fleet.sites.values() if site.service is not None] == [0] * 5


def test_break_that_is_repeated_takes_the_token_from_nobody_who_got_it_since() -> None:
    fleet, talk = ready_fleet()
    first, second = talk.open(), talk.open()
    granted = talk.ask(TokenAcquire(0, first, "t"), 100)
    assert isinstance(granted, TokenGranted)
    talk.ask(TokenRelease(0, first, "t"), 100)
    fleet.run(LOCK_DELAY_MS)
    assert isinstance(talk.ask(TokenAcquire(0, second, "t"), 100), TokenGranted)
    assert talk.ask(TokenBreak(0, "t", granted.number), 200) == TokenDone()
    shown = talk.ask(TokenShow(0, "t"), 200)
    assert isinstance(shown, TokenItem)
    assert [one.session for one in shown.holders] == [second]


def test_session_lives_its_ttl_and_the_grace_that_is_asked_for() -> None:
    _, talk = ready_fleet()
    opened = [talk.ask(request) for request in (TokenOpen(0), TokenOpen(0, 60.0), TokenOpen(0, 60.0, 10.0))]
    plain, longer, graceful = [one.ttl_ms for one in opened if isinstance(one, SessionOpened)]
    assert (plain, longer) == (TTL_MS, 60_000)
    assert graceful >= 60_000 + 10_000 / (1 - DRIFT)


def test_servers_are_shown_with_their_leader() -> None:
    fleet, talk = ready_fleet()
    shown = talk.ask(TokenServers(0))
    assert isinstance(shown, TokenServersShown)
    assert fleet.oracle.state is not None
    assert shown.agreed.leader == fleet.oracle.state.leader
    assert [standing for standing, _ in shown.servers.values()] == ["ready"] * 3


def test_server_that_is_cut_off_grants_nothing_after_its_lease() -> None:
    fleet, talk = ready_fleet()
    session = talk.open()
    state = fleet.oracle.state
    assert state is not None
    mine = next(name for name in "abcdefgh" if state.server_of(name) == "s1")
    fleet.cut_off.add(NodeName("s1"))
    fleet.run(LEASE_MS)
    answer = Talk(fleet, "s1").ask(TokenAcquire(0, session, mine), LEASE_MS + 300)
    assert isinstance(answer, NoQuorumError)


def test_server_that_is_cut_off_does_not_confirm_what_it_granted_after_its_lease() -> None:
    fleet, talk = ready_fleet()
    session = talk.open()
    state = fleet.oracle.state
    assert state is not None
    mine = next(name for name in "abcdefgh" if state.server_of(name) == "s1")
    assert isinstance(talk.ask(TokenAcquire(0, session, mine), 100), TokenGranted)
    fleet.cut_off.add(NodeName("s1"))
    fleet.run(LEASE_MS)
    answer = Talk(fleet, "s1").ask(TokenAcquire(0, session, mine), LEASE_MS + 300)
    assert isinstance(answer, NoQuorumError)


def test_server_that_was_declared_down_grants_nothing_though_it_has_a_lease_again() -> None:
    fleet, talk = ready_fleet()
    opened = talk.ask(TokenOpen(0), LEASE_MS // 2)
    assert isinstance(opened, SessionOpened)
    name, state = NodeName("s1"), fleet.oracle.state
    assert state is not None
    mine, hand = next(token for token in "abcdefgh" if state.server_of(token) == name), fleet.sites[name].hand
    fleet.cut_off.add(name)
    while fleet.oracle.state is not None and fleet.oracle.state.servers[name].standing is not ServerStanding.DOWN:
        fleet.run(10)
    fleet.cut_off.clear()
    while hand.effective is None or hand.effective.servers[name].standing is not ServerStanding.DOWN:
        fleet.run(1)
    asked = talk.begin(TokenAcquire(0, opened.session, mine))  # its node has not heard of it
    fleet.run(LEASE_MS // 20)
    assert fleet.now < hand.granted_true
    assert asked == []


def test_node_that_hears_no_server_refuses_within_a_lease() -> None:
    fleet, talk = ready_fleet()
    fleet.cut_off.add(NodeName("p0"))
    fleet.run(LEASE_MS)
    assert isinstance(talk.ask(TokenOpen(0), LEASE_MS + 100), NoQuorumError)


def test_session_that_comes_back_to_a_node_says_there_again_what_it_holds() -> None:
    fleet, talk = ready_fleet()
    talk.begin(TokenOpen(0))  # it says nothing, so a survey lasts until it is over
    opened = talk.ask(TokenOpen(0), LEASE_MS // 2)
    assert isinstance(opened, SessionOpened)
    session, state = opened.session, fleet.oracle.state
    assert state is not None
    mine = next(name for name in "abcdefgh" if state.server_of(name) == "s1")
    granted = talk.ask(TokenAcquire(0, session, mine), 100)
    assert isinstance(granted, TokenGranted)
    fleet.sites[NodeName("s1")].stop()
    fleet.run(1.5 * LEASE_MS)
    assert fleet.oracle.state is not None
    assert fleet.oracle.state.servers[NodeName("s1")].standing is ServerStanding.DOWN
    held = (HeldToken(mine, granted.epoch, granted.counter, False),)
    keep = TokenKeep(0, session, fleet.oracle.state.changed, held, 0.1)
    talk.ask(keep, 300)
    other = Talk(fleet, "p1")
    other.ask(keep, 300)  # from now on the word at p0 does not count
    other.site.stop()
    other.site.start()
    other.begin(TokenShow(0, mine))  # the servers hear that it started anew: its word does not count either
    for _ in range(8):
        talk.ask(keep, TTL_MS // 4)
    shown = talk.ask(TokenShow(0, mine), 200)
    assert isinstance(shown, TokenItem)
    assert [one.session for one in shown.holders] == [session]


def test_place_is_behind_all_that_were_given_before_the_last_change_of_servers() -> None:
    fleet, talk = ready_fleet()
    fleet.sites[NodeName("s2")].stop()
    fleet.run(4 * LEASE_MS)
    fleet.sites[NodeName("s2")].start()
    fleet.run(4 * LEASE_MS)
    state = fleet.oracle.state
    assert state is not None
    mine = next(name for name in "abcdefgh" if state.server_of(name) == "s1")
    talk.ask(TokenAcquire(0, talk.open(), mine), 100)
    refused = talk.ask(TokenAcquire(0, talk.open(), mine), 100)
    assert isinstance(refused, HeldError)
    assert read_ticket(refused.ticket)[0] == state.changed


def test_token_of_a_session_that_was_not_kept_is_free_after_ttl_and_lock_delay() -> None:
    fleet, talk = ready_fleet()
    first = talk.open()
    talk.ask(TokenAcquire(0, first, "t"), 100)
    waits = talk.begin(TokenAcquire(0, talk.open(), "t", wait_s=20.0))
    ended = None
    while not waits:
        fleet.run(50)
        state = fleet.oracle.state
        if ended is None and state is not None and first not in state.sessions:
            ended = fleet.now
        assert fleet.now < 3 * TTL_MS + 4 * LEASE_MS
    assert ended is None or fleet.now >= ended + LOCK_DELAY_MS


def test_token_of_a_session_that_was_closed_is_free_at_once() -> None:
    fleet, talk = ready_fleet()
    first, second = talk.open(), talk.open()
    talk.ask(TokenAcquire(0, first, "t"), 100)
    waits = talk.begin(TokenAcquire(0, second, "t", wait_s=20.0))
    talk.begin(TokenClose(0, first))
    fleet.run(LOCK_DELAY_MS // 2)
    assert [type(one) for one in waits] == [TokenGranted]


@pytest.mark.parametrize("later_ms", [0, LEASE_MS // 2, LEASE_MS])
def test_list_that_is_asked_for_just_after_a_server_died_says_that_tokens_may_be_missing(later_ms: int) -> None:
    """The others answered before they knew: what they say then is not all that there is (docs/protocol, TOKEN-21)."""
    fleet, talk = ready_fleet()
    opened = talk.ask(TokenOpen(0, 600.0))
    assert isinstance(opened, SessionOpened)
    for count in range(9):
        talk.ask(TokenAcquire(0, opened.session, f"t{count}"), 100)
    held = {f"t{count}" for count in range(9)}
    fleet.sites[NodeName("s1")].stop()
    fleet.run(later_ms)
    for _ in range(20):
        found = talk.begin(TokenList(0))
        while not found:
            fleet.run(50)
        (listed,) = found
        if isinstance(listed, TokensListed):
            assert listed.partial or held == set(names(listed.items))


def test_list_says_that_tokens_of_a_lost_server_may_be_missing() -> None:
    """Until each session has said what it holds, or is over."""
    fleet, talk = ready_fleet()
    opened = talk.ask(TokenOpen(0, 60.0))
    assert isinstance(opened, SessionOpened)
    assert isinstance(talk.ask(TokenAcquire(0, opened.session, "t"), 100), TokenGranted)
    whole = talk.ask(TokenList(0, "", 100), 200)
    assert isinstance(whole, TokensListed)
    (item,) = whole.items
    fleet.sites[item.server].stop()
    fleet.run(3 * LEASE_MS)
    lacking = talk.ask(TokenList(0, "", 100), 200)
    talk.begin(TokenClose(0, opened.session))
    fleet.run(LEASE_MS)
    assert [whole, lacking, talk.ask(TokenList(0, "", 100), 200)] == [
        TokensListed((item,)), TokensListed((), partial=True), TokensListed(()),
    ]  # fmt: skip
