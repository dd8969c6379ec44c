"""All copies of topics of a node: what is read from the disk, what is lost, bad, old or nobody's.

Knows: `Topics` and rows of data.  Does not know who owns a topic.
"""

from __future__ import annotations

import pytest

from distkv.core.ground.data import Data, mark_lost
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.join import joined_bytes
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.topics import Topics
from distkv.errors import BusyError, ExistsError, NoSpaceError, TooLargeError
from distkv.wire.topic_errors import TakenError
from distkv.wire.topic_rows import kept_key, message_key, producer_key, subscriber_key
from tests.unit.core.topic_copies import IDS, NAME, SERVICE, Disk, copy_rows, given, put, ranges, value_of

OTHER = "00000000000000bb"
LATER_MS = 10_000


def filled() -> Disk:
    """A topic with a subscriber that is owed two of three messages."""
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", 1, None, 1.0)
    put(topic, "p", 1, 2, 3)
    topic.add_done("c", [("p", 2)])
    topic.forget("p", [2])
    disk.keep()
    return disk


def lose(disk: Disk, key: str) -> None:
    """The disk loses a row."""
    disk.data.keep(SERVICE, kept_key(IDS[0], key), None)
    disk.data.lose([(SERVICE, kept_key(IDS[0], key))])


def test_message_whose_row_is_lost_is_gone_for_who_is_owed_it_and_its_counter_known() -> None:
    """STATE-9."""
    disk = filled()
    put(disk.topic(), "p", 4)
    disk.keep()
    lose(disk, message_key("p", 4))
    topic = disk.restart()
    assert disk.topics.in_doubt == {NAME}
    found = topic.next_messages("c", 10, LATER_MS)
    assert (found.gone, [message.counter for message in found.messages]) == ({"p": ranges(4)}, [1, 3])
    disk.keep()
    disk.data.make_good(SERVICE)
    assert disk.restart().has_seen("p", 4)


def test_bad_row_among_the_messages_of_a_producer_is_counted_and_all_others_are_there() -> None:
    disk = Disk()
    put(disk.topic(), "p", 1, 2, 3)
    put(disk.topic(), "q", 1, 2)
    disk.keep()
    disk.data.keep(SERVICE, kept_key(IDS[0], message_key("p", 2)), b"\xc1")
    disk.data.keep(SERVICE, kept_key(IDS[0], message_key("q", 2))[:-1] + "z", b"")
    topic = disk.restart()
    assert (disk.topics.bad, disk.topics.in_doubt) == (2, {NAME})
    assert [topic.has_seen(*one) for one in (("p", 1), ("p", 2), ("p", 3), ("q", 1), ("q", 2))] == [
        True, False, True, True, True,
    ]  # fmt: skip


def test_message_whose_row_is_lost_comes_back_from_another_copy() -> None:
    """STATE-9."""
    disk = filled()
    other = Disk().topic()
    copy_rows(disk.topic(), other)
    lose(disk, message_key("p", 1))
    topic = disk.restart()
    copy_rows(other, topic, now_ms=1)
    found = topic.next_messages("c", 10, LATER_MS)
    assert ([message.counter for message in found.messages], found.gone) == ([1, 3], {})
    assert topic.digest == other.digest


@pytest.mark.parametrize("key", [subscriber_key("c"), producer_key("p"), message_key("p", 3)])
def test_row_that_is_lost_is_healed_by_another_copy(key: str) -> None:
    disk = filled()
    other = Disk().topic()
    copy_rows(disk.topic(), other)
    lose(disk, key)
    topic = disk.restart()
    assert topic.digest != other.digest or key == producer_key("p")
    copy_rows(other, topic)
    assert topic.digest == other.digest


def test_copy_whose_name_is_lost_waits_until_it_is_said() -> None:
    disk = filled()
    before = disk.topic().digest
    lose(disk, "t")
    disk.topics = Topics(disk.data.of(SERVICE), disk.settings, 0)
    assert (disk.topics.all(), disk.topics.bad) == ([], 0)
    assert disk.topics.find(NAME, [OTHER]) is None
    found = disk.topics.find(NAME, [OTHER, IDS[0]])
    assert found is not None
    assert found.digest == before
    assert given(found, "c") == [("p", 1), ("p", 3)]
    disk.topics.check()
    assert disk.restart().digest == before


def test_copy_whose_name_is_lost_is_joined_with_the_one_that_is_there() -> None:
    disk = filled()
    lose(disk, "t")
    disk.topics = Topics(disk.data.of(SERVICE), disk.settings, 0)
    low = "0" * 16
    put(disk.topics.create(NAME, [low]), "q", 1)
    assert disk.topics.find(NAME, [low]) is not None
    found = disk.topics.create("other", ["00000000000000aa", "0" * 15 + "1"])
    assert len(found) == 2
    disk.topics.check()
    disk.keep()
    assert not [*disk.data.of(SERVICE).keys(f"m\x1f{IDS[0]}")]


def test_row_that_cannot_be_read_is_set_aside_and_counted() -> None:
    disk = filled()
    bad = {kept_key(IDS[0], key): b"\xc1" for key in ("t2", message_key("p", 3), subscriber_key("c"), "m\x1fp\x1fx")}
    for key, value in {**bad, "z": b"", f"m\x1fnone\x1fp\x1f{1:016x}": b""}.items():
        disk.data.keep(SERVICE, key, value)
    disk.topics = Topics(disk.data.of(SERVICE), disk.settings, 0)
    assert disk.topics.bad == 5
    assert disk.topics.in_doubt == {NAME}
    assert len(disk.topic()) == 1
    disk.topics.check()


@pytest.mark.parametrize("mark", ["old", "unknown"])
def test_disk_that_is_old_or_lost_something_leaves_all_in_doubt(mark: str) -> None:
    disk = filled()
    if mark == "old":
        disk.data.mark_old()
    else:
        disk.data.lose([(SERVICE, mark_lost("k")), (SERVICE, None)])
    disk.restart()
    assert disk.topics.in_doubt == {NAME}


def test_old_disk_that_is_joined_gives_nothing_a_second_time() -> None:
    disk = filled()
    old = Data()
    old.load((SERVICE, key, value) for key, value in disk.data.of(SERVICE).items())
    topic = disk.topic()
    put(topic, "p", 4)
    topic.add_done("c", [("p", 1), ("p", 3)])
    copy_of_all = Disk().topic()
    copy_rows(topic, copy_of_all)
    disk.data = old
    disk.topics = Topics(old.of(SERVICE), disk.settings, 0)
    assert given(disk.topic(), "c") == [("p", 1), ("p", 3)]
    copy_rows(copy_of_all, disk.topic())
    assert given(disk.topic(), "c") == [("p", 4)]


def test_topic_that_is_thrown_leaves_no_row() -> None:
    disk = filled()
    put(disk.topic(), "p", 4)
    disk.topics.throw(disk.topic())
    assert (disk.keep(), disk.topics.all(), len(disk.data.of(SERVICE))) == ({}, [], 0)


def test_topic_that_is_thrown_may_begin_anew_under_its_id_in_one_step() -> None:
    disk = filled()
    disk.topics.throw(disk.topic())
    put(disk.topics.create(NAME, IDS), "p", 9)
    again = disk.restart()
    assert [one.counter for one in again.oldest()] == [9]


def test_copies_that_become_one_have_what_both_had() -> None:
    disk = filled()
    other = disk.topics.create(NAME, [OTHER])
    assert len(disk.topics.of(NAME)) == 2
    put(other, "q", 1)
    other.take_here("c", 0)
    topic = disk.topic()
    disk.topics.join_into(topic, other)
    disk.topics.check()
    assert disk.topics.of(NAME) == [topic]
    assert topic.ids == {*IDS, OTHER}
    again = disk.restart()
    assert disk.topics.find(NAME, [OTHER]) is again
    assert again.is_taken_here("c")
    assert [(one.producer, one.counter) for one in again.oldest()] == [("p", 1), ("p", 3), ("q", 1)]


def test_ids_that_are_added_find_the_copy_after_a_start_too() -> None:
    disk = filled()
    disk.topics.add_ids(disk.topic(), [OTHER])
    assert disk.topics.find(NAME, [OTHER]) is disk.topic()
    disk.restart()
    assert disk.topics.find(NAME, [OTHER]) is disk.topic()
    assert disk.topics.find("other", [OTHER]) is None


def test_copies_that_another_node_knows_as_one_become_one() -> None:
    disk = filled()
    other = disk.topics.create(NAME, [OTHER])
    put(other, "q", 1)
    topic = disk.topic()
    disk.topics.add_ids(topic, [OTHER])
    disk.topics.check()
    assert disk.topics.of(NAME) == [topic]
    assert [(one.producer, one.counter) for one in topic.oldest()] == [("p", 1), ("p", 3), ("q", 1)]


def test_id_of_another_topic_is_refused_and_changes_nothing() -> None:
    disk = filled()
    topic = disk.topic()
    disk.topics.create("bills", [OTHER])
    for refused in (
        lambda: disk.topics.add_ids(topic, [OTHER]),
        lambda: disk.topics.create(NAME, [OTHER]),
    ):
        with pytest.raises(ExistsError, match=f"the id {OTHER} of the topic {NAME} is that of bills"):
            refused()
    disk.topics.check()
    assert topic.ids == {*IDS}
    assert disk.topics.all() == [*disk.topics.of("bills"), topic]


def test_changes_of_a_step_are_what_another_copy_needs() -> None:
    disk = Disk()
    topic, other = disk.topic(), Disk().topic()
    for act in (
        lambda: topic.subscribe("c", 1, None, 1.0),
        lambda: put(topic, "p", 1, 2, 3),
        lambda: topic.add_done("c", [("p", 1)]),
        lambda: (topic.subscribe("c", 2, {"p": ranges(5)}, 1.0), topic.add_done("c", [("p", 3)])),
        lambda: topic.forget("p", [1, 2]),
        lambda: (topic.drop_producer("p"), put(topic, "q", 1)),
        lambda: topic.drop_subscriber("c"),
    ):
        act()
        changes = {key: value for key, value in disk.keep().items() if key != "t"}
        other.join_rows(changes.items(), 0)
        assert other.digest == topic.digest


def test_room_is_looked_at_before_anything_changes() -> None:
    disk = Disk()
    turn = ServiceTurn(SERVICE, 0, 0.0, disk.data)
    disk.topics.check_room(turn, 1000)
    disk.data.bytes_max = 2000
    with pytest.raises(NoSpaceError, match=r"limits\.data_bytes"):
        disk.topics.check_room(turn, 2000)

    def busy(_size: int) -> None:
        raise BusyError("not now")

    disk.data.check_room = busy
    with pytest.raises(BusyError):
        disk.topics.check_room(turn, 1)


def test_topics_of_a_node_are_bounded() -> None:
    disk = Disk(TopicSettings(topics_max=1))
    disk.topics.check_count()
    disk.topic()
    with pytest.raises(TooLargeError, match=r"limits\.topics"):
        disk.topics.check_count()


def test_put_of_a_lost_message_with_a_tag_is_refused() -> None:
    disk = Disk()
    disk.topic().put("p", 1, b"\x01", 1.0, None, b"t" * 8, 0)
    disk.keep()
    lose(disk, message_key("p", 1))
    with pytest.raises(TakenError):
        disk.restart().put("p", 1, b"\x01", 1.0, None, b"t" * 8, 0)


@pytest.mark.parametrize("known", [0, 5])
def test_joined_rows_keep_no_more_than_is_said_before(known: int) -> None:
    """Of a copy that has nothing of it, and of one that has some."""
    disk, other = Disk(), Disk()
    topic, mine = disk.topic(), other.topic()
    topic.subscribe("c", 1, None, 1.0)
    for count, copy in ((30, topic), (known, mine)):
        for number in range(count):
            put(copy, f"p{number}", *range(1, 2 + number, 2))
            copy.put(f"p{number}", 99, value_of("p", 99), 1.0, 7, bytes(8), 0)
    topic.add_done("c", [(f"p{number}", 1) for number in range(20)])
    topic.forget("p1", [1])
    other.keep()
    changes = [(key, value) for key, value in disk.keep().items() if key != "t"]
    bytes_max = joined_bytes(mine.copy, changes)
    mine.join_rows(changes, 0)
    turn = ServiceTurn(SERVICE, 0, 0.0, other.data)
    other.topics.keep(turn)
    assert bytes_max // 2 < turn.written_bytes <= bytes_max


def test_done_messages_keep_no_more_than_is_said_before() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", 1, None, 1.0)
    pairs = [(f"p{number}", counter) for number in range(5) for counter in range(1, 40, 2)]
    for producer, counter in pairs:
        put(topic, producer, counter, counter + 1)
    topic.add_done("c", pairs[::2])
    disk.keep()
    bytes_max = topic.done_bytes("c", pairs)
    topic.add_done("c", pairs)
    turn = ServiceTurn(SERVICE, 0, 0.0, disk.data)
    disk.topics.keep(turn)
    assert 0 < turn.written_bytes <= bytes_max


def test_what_a_step_changed_and_has_not_kept_counts_for_the_room() -> None:
    disk = Disk()
    disk.data.bytes_max = 10_000
    turn = ServiceTurn(SERVICE, 0, 0.0, disk.data)
    disk.topics.check_room(turn, 8000)
    put(disk.topic(), "p", 1, 2, 3, 4)
    with pytest.raises(NoSpaceError, match=r"limits\.data_bytes"):
        disk.topics.check_room(turn, 8000)


def test_what_lets_messages_go_has_room_where_puts_have_none() -> None:
    disk = Disk()
    disk.data.bytes_max = 16_000
    turn = ServiceTurn(SERVICE, 0, 0.0, disk.data)
    with pytest.raises(NoSpaceError, match=r"limits\.data_bytes"):
        disk.topics.check_room(turn, 15_200)
    disk.topics.check_room(turn, 15_200, makes_room=True)
    with pytest.raises(NoSpaceError, match=r"limits\.data_bytes"):
        disk.topics.check_room(turn, 15_600, makes_room=True)


def test_messages_that_go_keep_no_more_than_is_said_before() -> None:
    disk = Disk()
    topic = disk.topic()
    for number in range(30):
        put(topic, f"p{number}", *range(1, 2 + number, 2))
    going = [(key, None) for key in disk.keep() if key.startswith("m")]
    bytes_max = joined_bytes(topic.copy, going)
    topic.join_rows(going, 0)
    turn = ServiceTurn(SERVICE, 0, 0.0, disk.data)
    disk.topics.keep(turn)
    assert 0 < turn.written_bytes <= bytes_max
    assert turn.data_bytes < 0
