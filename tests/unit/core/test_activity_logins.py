"""Clients of the activity network that log in, resume and send, at one node."""

from __future__ import annotations

import pytest

from distkv.core.activity.active_clients import ORIGINS_WAITING_MAX, PATIENCE_MS, ActiveClients
from distkv.core.activity.ahead import NAMES_MAX, NODES_MAX
from distkv.core.activity.gathering import EACH_S, LITTLE
from distkv.core.activity.origins import Origins
from distkv.core.activity.requests import EndActivity, LoggedIn, Login
from distkv.core.activity.sent_here import DECIDE_MS, EXPECT_MS
from distkv.core.ground.node_calls import Replied
from distkv.errors import BadValueError, BusyError, NotFoundError, NotReadyError, TooLargeError, UnreachableError
from distkv.model.event import NodeName
from distkv.wire.activity_bodies import (
    ORIGIN_ANSWERS,
    ORIGINS_MAX,
    WELCOMES,
    ClientOffered,
    ClientSent,
    ClientWelcome,
    HoleAsked,
    OriginsAsked,
    OriginsKnown,
    WindowAsked,
    WindowPage,
)
from distkv.wire.activity_lines import ACTIVITY_BYTES_MAX
from distkv.wire.declared import pack
from tests.one_activity_node import ATTEND, START, A, B, C, D, OneNode, kept, origin_of, sender


def test_client_that_resumes_for_the_first_time_is_told_where_the_node_is() -> None:
    node = OneNode(B).ready()
    node.says(B, 1, "x")
    found = node.logged_in(node.login({}))
    assert (found.at, found.missed) == ({node.origin: 0, origin_of(B): 1}, ())
    assert found.client is not None


def test_client_that_does_not_resume_is_told_nothing_more() -> None:
    node = OneNode(B).ready()
    assert node.logged_in(node.login()) == LoggedIn()


def test_client_gets_what_it_lacks_in_the_order_in_which_it_was_given() -> None:
    node = OneNode(B, C).ready()
    node.says(B, 1, "had")
    node.says(C, 1, "x")
    node.says(B, 2, "y")
    node.says(C, 2, "z")
    assert node.missed(node.login({origin_of(B): 1})) == ["x", "y", "z"]


def test_client_gets_nothing_twice() -> None:
    node = OneNode(B).ready()
    node.says(B, 1, "x")
    client = node.login({origin_of(B): 1})
    assert (node.logged_in(client).at, node.missed(client)) == ({origin_of(B): 1}, [])


def test_client_that_is_ahead_waits_until_the_node_has_what_it_has() -> None:
    node = OneNode(B).ready()
    client = node.login({origin_of(B): 1})
    assert not node.is_logged_in(client)
    node.says(B, 1, "x")
    assert node.is_logged_in(client)
    assert node.missed(client) == []


def test_node_asks_the_origin_itself_for_what_a_client_has_and_it_has_not() -> None:
    node = OneNode(B, C, near=(B,)).ready()
    node.says(C, 1, "x")
    client = node.login({origin_of(C): 2})
    ((_, asked, purpose),) = [one for one in node.asked if isinstance(one[1], OriginsAsked) and one[0] == C]
    assert asked == OriginsAsked((origin_of(C),))
    node.step(Replied(purpose, pack(OriginsKnown({origin_of(C): 2}))))
    node.pass_ms(150)
    assert node.holes() == [(C, HoleAsked(origin_of(C), 2, 2))]
    node.fills(kept(C, 2, "y"), until=2)
    assert (node.is_logged_in(client), node.given) == (True, ["x", "y"])


def test_client_that_is_ahead_of_the_only_node_does_not_wait() -> None:
    node = OneNode().ready()
    assert node.is_logged_in(node.login({origin_of(A): 1}))


def test_client_that_is_ahead_waits_a_second_while_no_other_node_seems_alive() -> None:
    node = OneNode(B).ready()
    node.sees(())
    client = node.login({origin_of(B): 1})
    node.pass_ms(900)
    assert not node.is_logged_in(client)
    node.pass_ms(100)
    assert node.is_logged_in(client)


def test_what_a_client_says_that_no_node_has_is_not_waited_for() -> None:
    node = OneNode(B, C).ready()
    node.login({origin_of(C): 9})
    for _, what, purpose in [*node.asked]:
        if isinstance(what, OriginsAsked):
            node.step(Replied(purpose, pack(OriginsKnown({}))))
    node.pass_ms(200)
    assert (node.holes(), node.statistic("gaps")) == ([], 0)


def test_few_nodes_are_asked_at_once_about_few_origins() -> None:
    others = tuple([NodeName(f"n{at:02}") for at in range(20)])
    node = OneNode(*others).ready()
    for one in range(50):
        node.login({origin_of(C, f"{one:06x}{at:06x}"): 9 for at in range(50)})
    asked = [(name, len(what.names)) for name, what, _ in node.asked if isinstance(what, OriginsAsked)]
    node.asked.clear()
    node.pass_ms(600)
    again = [(name, len(what.names)) for name, what, _ in node.asked if isinstance(what, OriginsAsked)]
    assert (len(asked), len(again)) == (NODES_MAX, NODES_MAX)
    assert not {name for name, _ in asked} & {name for name, _ in again}
    assert max(count for _, count in asked + again) <= NAMES_MAX


def test_node_says_how_far_it_is_with_origins() -> None:
    node = OneNode(B, C).ready()
    node.says(B, 1, "x")
    answer = ORIGIN_ANSWERS.read(node.asks(C, OriginsAsked((origin_of(B), origin_of(D)))))
    assert answer == OriginsKnown({origin_of(B): 1})


def test_client_that_is_ahead_waits_for_five_seconds() -> None:
    node = OneNode(B).ready()
    client = node.login({origin_of(B): 1})
    node.pass_ms(4999)
    assert not node.is_logged_in(client)
    node.pass_ms(1)
    assert node.is_logged_in(client)


def test_login_with_the_largest_map_is_refused_when_those_that_wait_have_too_many_origins() -> None:
    node = OneNode(B).ready()
    small = node.login({origin_of(B): 1})
    long = {f"x.{count:012x}": 1 for count in range(ORIGINS_MAX)}
    large = [node.login(long) for _ in range(ORIGINS_WAITING_MAX // ORIGINS_MAX)]
    refused = [id for id in large if id in node.answers]
    assert [type(one) for id in refused for one in node.answers[id]] == [BusyError]
    node.says(B, 1, "x")
    assert node.is_logged_in(small)


def test_logins_that_lack_much_come_one_after_the_other_and_others_do_not_wait() -> None:
    node = OneNode(B).ready()
    count = LITTLE + 1
    for number in range(1, count + 1):
        node.says(B, number, "x")
    first, second = (node.login({origin_of(B): 0}) for _ in range(2))
    little = node.login({origin_of(B): 1})
    assert [node.is_logged_in(client) for client in (first, second, little)] == [True, False, True]
    node.pass_ms(count * 1000 // EACH_S)
    assert len(node.missed(second)) == count


def test_logins_that_lack_much_wait_for_one_of_each_other_host() -> None:
    node = OneNode(B).ready()
    count = LITTLE + 1
    for number in range(1, count + 1):
        node.says(B, number, "x")
    many = [node.login({origin_of(B): 0}, source=7) for _ in range(5)]
    late = node.login({origin_of(B): 0}, source=8)
    node.pass_ms(count * 1000 // EACH_S)
    assert ([node.is_logged_in(one) for one in many], node.is_logged_in(late)) == ([True, *[False] * 4], True)


class CountingOrigins(Origins):
    """Counts how often it is asked."""

    asked = 0

    def reached(self, origin: str) -> int:
        self.asked += 1
        return super().reached(origin)


def test_long_map_of_a_login_that_waits_is_looked_at_once() -> None:
    origins = CountingOrigins(origin_of(A), 10, 1000)
    clients = ActiveClients(10, origins)
    clients.wait(1, Login(1, "ann", {f"x.{count:012x}": count // 500 for count in range(1000)}), None, 0)
    assert [clients.take_arrivals(0, PATIENCE_MS, lambda _, now_ms: now_ms) for _ in range(100)] == [[]] * 100
    assert origins.asked < 1000


def test_what_a_client_says_it_has_is_not_believed_of_others() -> None:
    node = OneNode(B).ready()
    node.login({origin_of(B): 1000})
    node.pass_ms(5100)
    node.says(B, 1, "x")
    assert node.given == ["x"]


def test_client_gets_nothing_of_a_sender_of_which_it_has_a_later_epoch() -> None:
    node = OneNode(B, C).ready()
    node.says(B, 1, "earlier", sender("ann", 1))
    node.says(C, 1, "later", sender("ann", 2))
    node.says(C, 2, "other", sender("bob", 1))
    assert node.missed(node.login({origin_of(C): 1})) == ["other"]


def test_client_that_has_no_later_epoch_gets_the_earlier_one() -> None:
    node = OneNode(B, C).ready()
    node.says(B, 1, "earlier", sender("ann", 1))
    node.says(C, 1, "later", sender("ann", 2))
    assert node.missed(node.login({origin_of(C): 0})) == ["earlier", "later"]


def test_what_was_dropped_as_late_is_no_gap() -> None:
    node = OneNode(B, C).ready()
    node.says(C, 1, "later", sender("ann", 2))
    node.says(B, 1, "earlier", sender("ann", 1))
    assert node.missed(node.login({origin_of(C): 0})) == ["later"]


def test_client_is_told_of_a_gap_where_it_is() -> None:
    node = OneNode(B).ready()
    node.says(B, 1, "x")
    node.says(B, 4, "y")
    node.pass_ms(5100)
    assert node.missed(node.login({origin_of(B): 0})) == ["x", "gap 2-3", "y"]


def test_client_that_comes_too_late_is_told_what_is_gone() -> None:
    node = OneNode(B, keep_count=1).ready()
    for number in (1, 2, 3):
        node.says(B, number, str(number))
    assert node.missed(node.login({origin_of(B): 1})) == ["gap 2-2", "3"]


def test_client_is_told_of_a_gap_that_nothing_follows() -> None:
    node = OneNode(B).ready()
    node.knows(B, b=2)
    node.pass_ms(5100)
    assert node.missed(node.login({origin_of(B): 0})) == ["gap 1-2"]


def test_logins_wait_while_the_node_takes_what_another_one_keeps() -> None:
    node = OneNode(B)
    client = node.login({origin_of(B): 1})
    assert not node.is_logged_in(client)
    purpose = next(purpose for _, what, purpose in node.asked if isinstance(what, WindowAsked))
    items = kept(B, 1, "x"), kept(C, 4, "y"), kept(B, 2, "z")
    node.step(Replied(purpose, pack(WindowPage(items, START, 3, {origin_of(B): 2, origin_of(C): 5}))))
    assert node.missed(client) == ["gap 1-3", "y", "z", "gap 5-5"]
    assert node.given == []


def test_logins_wait_for_five_seconds_where_nobody_gives_what_he_keeps() -> None:
    node = OneNode(B)
    client = node.login()
    node.pass_ms(4900)
    assert not node.is_logged_in(client)
    node.pass_ms(200)
    assert node.is_logged_in(client)


def test_frames_that_come_meanwhile_are_given_afterwards() -> None:
    node = OneNode(B)
    node.says(B, 2, "y")
    purpose = node.asked[0][2]
    node.step(Replied(purpose, pack(WindowPage((kept(B, 1, "x"),), START, 1, {origin_of(B): 1}))))
    assert node.given == ["y"]


def test_node_that_began_a_moment_ago_is_not_asked_first() -> None:
    node = OneNode(B, C, near=(B, C))
    first, _, purpose = node.asked[0]
    node.step(Replied(purpose, pack(WindowPage((), START, 0, {}, is_whole=False))))
    node.pass_ms(100)
    assert [one[0] for one in node.asked] == [first, C]


def test_nodes_that_began_together_ask_one_that_announces_nothing_here() -> None:
    node = OneNode(B, C, near=(B,))
    node.announces(C, None)
    for _ in range(30):
        node.pass_ms(100)
        asked, node.asked = node.asked, []
        for name, _, purpose in asked:
            page = WindowPage((), START, 0, {}, is_whole=False)
            if name == C:
                page = WindowPage((kept(D, 1, "x"),), START, 1, {origin_of(D): 1})
            node.step(Replied(purpose, pack(page)))
    assert node.missed(node.login({origin_of(D): 0})) == ["x"]


def test_node_that_is_alone_takes_logins_at_once() -> None:
    node = OneNode()
    assert node.is_logged_in(node.login())


@pytest.mark.parametrize("text", ["", "x", "0 1 b 2", "f" * 36 + " 0 b.000000000000 0", "f" * 36 + " 1 b 0"])
def test_client_text_that_no_node_wrote_is_refused(text: str) -> None:
    node = OneNode(B).ready()
    assert isinstance(node.answers[node.login({}, text)][0], BadValueError)


def test_further_client_than_there_may_be_is_refused() -> None:
    node = OneNode(B, clients_max=1).ready()
    node.login()
    assert isinstance(node.answers[node.login()][0], BusyError)


def test_who_is_not_logged_in_sends_nothing() -> None:
    node = OneNode(B).ready()
    assert isinstance(node.answers[node.send(99, "x")][0], NotFoundError)


def test_activity_that_is_too_large_is_refused() -> None:
    node = OneNode(B).ready()
    assert isinstance(node.answers[node.send(node.login(), "x" * (ACTIVITY_BYTES_MAX + 1))][0], TooLargeError)


def test_next_activity_of_a_user_is_not_read_beyond_his_rate() -> None:
    node = OneNode(B, rate=10).ready()
    client = node.login()
    sent = [node.send(client, "x") for _ in range(12)]
    assert [node.is_taken(one) for one in sent] == [True] * 10 + [False] * 2
    node.pass_ms(100)
    assert node.is_taken(sent[10])
    assert not node.is_taken(sent[11])


def test_rate_counts_for_all_clients_of_a_user() -> None:
    node = OneNode(B, rate=1).ready()
    node.send(node.login(), "x")
    assert not node.is_taken(node.send(node.login(), "y"))


def test_nothing_more_is_read_while_too_much_waits_for_its_echo() -> None:
    node = OneNode(B, unechoed_max=2).ready()
    client = node.login()
    first, second = node.send(client, "x"), node.send(client, "y")
    assert (node.is_taken(first), node.is_taken(second)) == (True, False)
    node.confirms(B, 1)
    assert node.is_taken(second)


def test_client_goes_where_fewer_are() -> None:
    node = OneNode(B, C).ready()
    node.announces(B, 0)
    first = node.login({})
    assert node.moves(first) == []
    assert node.moves(node.login({})) == ["b"]


def test_those_who_were_sent_on_count_where_they_went() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    moved = [node.moves(node.login({})) for _ in range(6)]
    assert moved.count(["b"]) == 3


def test_word_of_the_other_node_counts_those_who_were_sent_before() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    for _ in range(2):
        node.login({})
    node.pass_ms(1100)
    node.announces(B, 0)
    assert node.moves(node.login({})) == ["b"]


def test_client_that_does_not_resume_goes_a_moment_later() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    node.login({})
    client = node.login()
    assert node.moves(client) == []
    node.pass_ms(DECIDE_MS)
    assert node.moves(client) == []
    assert node.welcomes() == [B]
    assert node.moves(client) == ["b"]


def test_client_that_does_not_resume_stays_when_the_other_node_does_not_answer() -> None:
    """ACTIVITY-16: who was killed a moment ago still seems alive."""
    node = OneNode(B).ready()
    node.announces(B, 0)
    node.login({})
    client = node.login()
    node.pass_ms(DECIDE_MS)
    (purpose,) = [purpose for _, what, purpose in node.asked if isinstance(what, ClientOffered)]
    node.step(Replied(purpose, UnreachableError("nobody answers")))
    node.pass_ms(EXPECT_MS)
    assert node.moves(client) == []


@pytest.mark.parametrize("reply", [pack(ClientWelcome(False)), b"", b"\x93nonsense"])
def test_client_that_does_not_resume_stays_when_the_other_node_does_not_expect_it(reply: bytes) -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    node.login({})
    client = node.login()
    node.pass_ms(DECIDE_MS)
    (purpose,) = [purpose for _, what, purpose in node.asked if isinstance(what, ClientOffered)]
    node.step(Replied(purpose, reply))
    assert node.moves(client) == []


def test_client_that_was_offered_and_sends_meanwhile_stays() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    node.login({})
    client = node.login()
    node.pass_ms(DECIDE_MS)
    node.send(client, "x")
    assert node.welcomes() == [B]
    assert node.moves(client) == []


def test_those_who_were_offered_do_not_count_here() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    for _ in range(6):
        node.login()
    node.pass_ms(DECIDE_MS)
    assert len(node.welcomes()) == 3


def test_client_that_was_offered_and_is_gone_counts_nowhere() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    clients = [node.login() for _ in range(2)]
    node.pass_ms(DECIDE_MS)
    for one in clients:
        node.leave(one)
    assert node.welcomes() == [B]
    assert node.statistic("moved") == 0


def test_node_expects_a_client_that_another_one_offers() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    assert WELCOMES.read(node.asks(B, ClientOffered())).is_expected
    node.login({})
    client = node.login()
    node.pass_ms(DECIDE_MS)
    assert (node.welcomes(), node.moves(client)) == ([], [])


def test_node_that_ends_expects_nobody() -> None:
    node = OneNode(B).ready()
    node.ask(EndActivity(1))
    assert not WELCOMES.read(node.asks(B, ClientOffered())).is_expected


def test_node_that_ends_says_whom_it_sends_that_does_not_resume() -> None:
    node = OneNode(B).ready()
    node.login()
    node.ask(EndActivity(1))
    node.pass_ms(100)
    assert ClientSent() in node.told_by(B)


def test_client_that_was_sent_here_and_does_not_resume_is_not_sent_on() -> None:
    """ACTIVITY-15."""
    node = OneNode(B).ready()
    node.announces(B, 0)
    clients = [node.login() for _ in range(4)]
    node.tells_word(B, ClientSent(2))
    node.pass_ms(DECIDE_MS)
    assert node.welcomes() == [B, B]
    assert [node.moves(one) for one in clients] == [[], [], ["b"], ["b"]]


def test_client_that_was_sent_here_and_did_not_come_is_not_waited_for_long() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    node.tells_word(B, ClientSent(2))
    node.pass_ms(EXPECT_MS)
    node.login({})
    client = node.login()
    node.pass_ms(DECIDE_MS)
    node.welcomes()
    assert node.moves(client) == ["b"]


def test_client_that_sends_at_once_and_does_not_resume_stays() -> None:
    node = OneNode(B).ready()
    node.announces(B, 0)
    node.login({})
    client = node.login()
    node.send(client, "x")
    node.pass_ms(DECIDE_MS)
    assert (node.welcomes(), node.moves(client)) == ([], [])


def test_load_that_changed_much_is_announced_at_once() -> None:
    node = OneNode(B).ready()
    for _ in range(20):
        node.login()
    count = len(node.announced)
    for _ in range(8):
        node.login()
    loads = [fields["load"] for fields in node.announced[count:] if fields is not None]
    assert loads == [21, 24, 27]
    node.pass_ms(5000)
    assert node.announced[-1] == {"addr": "a:7000", "load": 28}


def test_established_client_is_moved_when_a_node_joins() -> None:
    node = OneNode(B).ready()
    client = [node.login({}) for _ in range(6)]
    node.announces(B, 0)
    node.pass_ms(1000)
    assert sum(bool(node.moves(one)) for one in client) in (1, 2, 3)
    node.pass_ms(3000)
    assert sum(bool(node.moves(one)) for one in client) == 3


def test_moved_client_takes_its_map_along() -> None:
    node = OneNode(B).ready()
    clients = [node.login({}) for _ in range(4)]
    node.says(B, 1, "x")
    node.announces(B, 0)
    node.pass_ms(1000)
    moves = [one for client in clients for one in node.answers[client][1:]]
    assert moves[0].resume == {node.origin: 0, origin_of(B): 1}


def test_client_that_does_not_resume_is_never_moved_for_balance() -> None:
    node = OneNode(B).ready()
    clients = [node.login() for _ in range(6)]
    node.pass_ms(DECIDE_MS)
    node.announces(B, 0)
    node.pass_ms(5000)
    assert node.welcomes() == []
    assert not any(node.moves(one) for one in clients)


def test_client_that_came_a_moment_ago_stays_for_a_minute() -> None:
    node = OneNode(B).ready()
    mark = node.logged_in(node.login({})).client
    assert mark is not None
    clients = [node.login({origin_of(B): 0}, mark.replace(node.origin, origin_of(C))) for _ in range(1)]
    for one in range(5):
        node.login(user=f"u{one}")
    node.leave(2)
    node.announces(B, 0)
    node.pass_ms(59_000)
    assert node.moves(clients[0]) == []
    node.pass_ms(2000)
    assert node.moves(clients[0]) == ["b"]


def test_client_that_was_sent_here_is_not_sent_on_at_its_login() -> None:
    node = OneNode(B, C).ready()
    for _ in range(6):
        node.login()
    mark = node.logged_in(node.login({})).client
    assert mark is not None
    node.announces(B, 0)
    came = node.login({origin_of(B): 0}, mark.replace(node.origin, origin_of(C)))
    assert node.moves(came) == []
    assert node.moves(node.login({})) == ["b"]


def test_no_more_than_five_clients_are_moved_in_a_second() -> None:
    node = OneNode(B).ready()
    clients = [node.login({}) for _ in range(100)]
    node.announces(B, 0)
    before = 0
    for _ in range(5):
        node.pass_ms(1000)
        moved = sum(bool(node.moves(one)) for one in clients)
        assert 0 < moved - before <= 5
        before = moved


def test_node_that_ends_sends_all_its_clients_elsewhere_first() -> None:
    node = OneNode(B, C).ready()
    clients = [node.login() for _ in range(50)]
    ended = node.ask(EndActivity(1))
    node.pass_ms(600)
    assert all(node.moves(one) for one in clients)
    assert ended not in node.answers
    for one in clients:
        node.leave(one)
    node.pass_ms(100)
    assert len(node.answers[ended]) == 1


def test_client_of_a_node_that_ends_goes_when_what_it_sent_is_echoed() -> None:
    node = OneNode(B).ready()
    client = node.login()
    node.send(client, "x")
    node.ask(EndActivity(1))
    node.pass_ms(500)
    assert node.moves(client) == []
    node.confirms(B, 1)
    node.pass_ms(100)
    assert node.moves(client) == ["b"]


def test_client_of_a_node_that_ends_does_not_wait_for_its_echo_for_ever() -> None:
    node = OneNode(B).ready()
    client = node.login()
    node.send(client, "x")
    node.ask(EndActivity(1))
    node.pass_ms(3100)
    assert node.moves(client) == ["b"]


def test_node_that_ends_takes_nobody_and_announces_nothing() -> None:
    node = OneNode(B).ready()
    node.ask(EndActivity(1))
    assert isinstance(node.answers[node.login()][0], NotReadyError)
    assert node.announced[-1] is None


def test_node_that_ends_alone_keeps_nobody_waiting() -> None:
    node = OneNode()
    node.login()
    ended = node.ask(EndActivity(1))
    assert ended in node.answers


def test_listener_that_is_gone_is_announced_no_more() -> None:
    node = OneNode(B).ready()
    node.leave(ATTEND)
    assert node.announced[-1] is None
