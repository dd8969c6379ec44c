"""`distkv client topic list`, `show`, `set` and `drop` against a real server that is alone.

Knows: the commands as a user types them.  Does not know their parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.process.servers import Server, open_servers


@pytest.fixture(scope="module")
def solo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A new network of one node; each test uses topics of its own."""
    with open_servers(tmp_path_factory.mktemp("topics")) as servers:
        server = servers.add("solo")
        server.start("--transport", "solo", "--init", "x")
        server.wait_ready()
        yield server


def fill(solo: Server, topic: str, count: int) -> None:
    """A topic with messages that a subscriber named `s` waits for."""
    with solo.client() as client:
        client.request("topic_subscribe", {"topic": topic, "subscriber": "s"})
        for counter in range(1, count + 1):
            client.request("topic_put", {"topic": topic, "value": counter, "producer": "p", "counter": counter})


def shown(solo: Server, topic: str) -> dict[str, object]:
    found = json.loads(solo.run("topic", "show", topic, "-o", "json").text)
    assert isinstance(found, dict)
    return found


def test_list_shows_topics_by_their_beginning(solo: Server) -> None:
    fill(solo, "listed.a", 1)
    fill(solo, "listed.b", 2)
    lines = [line.split() for line in solo.run("topic", "list", "listed.").text.splitlines()]
    assert lines[0] == ["TOPIC", "OWNER", "COPIES", "MESSAGES", "BYTES"]
    assert [line[:4] for line in lines[1:]] == [["listed.a", "solo", "1", "1"], ["listed.b", "solo", "1", "2"]]


def test_list_of_no_topic_is_only_its_head(solo: Server) -> None:
    assert solo.run("topic", "list", "nothing begins so").text.splitlines() == ["TOPIC  OWNER  COPIES  MESSAGES  BYTES"]


def test_show_names_who_waits_for_how_much(solo: Server) -> None:
    fill(solo, "shown", 3)
    text = solo.run("topic", "show", "shown").text
    assert "owner: solo" in text
    assert "messages: 3, " in text
    assert [line.split()[:2] for line in text.splitlines()[-2:]] == [["SUBSCRIBER", "WAITING"], ["s", "3"]]


def test_show_names_producers_when_it_is_asked_to(solo: Server) -> None:
    fill(solo, "named", 1)
    assert solo.run("topic", "show", "named", "--producers").text.splitlines()[-2:] == ["PRODUCER", "p"]
    assert "PRODUCER" not in solo.run("topic", "show", "named").text.splitlines()


def test_show_of_no_topic_ends_with_3(solo: Server) -> None:
    ran = solo.run("topic", "show", "absent")
    assert (ran.code, ran.err.count("\n")) == (3, 1)


def test_set_changes_what_is_given_and_nothing_else(solo: Server) -> None:
    fill(solo, "kept", 1)
    assert solo.run("topic", "set", "kept", "--keep-s", "3600", "--keep-bytes", "100000").code == 0
    assert solo.run("topic", "set", "kept", "--keep-bytes", "0").code == 0
    found = shown(solo, "kept")
    assert (found["min_replicas"], found["keep_s"], found["keep_bytes"]) == (1, 3600.0, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "wrong"),
        ("set", "wrong", "--min-replicas", "8"),
        ("set", "wrong", "--keep-s", "-1"),
        ("show", ""),
        ("show", "a\tb"),
        ("list", "a\nb"),
        ("drop", "wrong", "--subscriber", "s", "--producer", "p"),
        ("drop", "wrong", "--producer", "\x1f"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_wrong_usage(solo: Server, arguments: tuple[str, ...]) -> None:
    ran = solo.run("topic", *arguments)
    assert ran.code == 2
    assert ran.text == ""


def test_subscriber_that_is_dropped_is_owed_nothing(solo: Server) -> None:
    fill(solo, "left", 2)
    assert solo.run("topic", "drop", "left", "--subscriber", "s").code == 0
    assert shown(solo, "left")["subscribers"] == []


@pytest.mark.parametrize("kind", ["subscriber", "producer"])
def test_drop_of_a_name_that_the_topic_does_not_know_ends_with_3(solo: Server, kind: str) -> None:
    fill(solo, "known", 1)
    ran = solo.run("topic", "drop", "known", f"--{kind}", "nobody")
    assert (ran.code, ran.err) == (3, f"distkv: the topic 'known' knows no {kind} 'nobody'\n")


def test_topic_that_is_dropped_is_not_there(solo: Server) -> None:
    fill(solo, "over", 2)
    assert solo.run("topic", "drop", "over").code == 0
    assert solo.run("topic", "show", "over").code == 3
