"""What waits for the reader of a group.

Knows: the queue.  Does not know who fills it.
"""

from __future__ import annotations

from distkv.transport.membership import NEWS_MAX, GroupNews, MessageNews, MissedNews, NewsQueue


def filled(number: int) -> NewsQueue:
    queue = NewsQueue()
    for count in range(number):
        queue.put(MessageNews("lamp", count.to_bytes(4, "big")))
    return queue


def drained(queue: NewsQueue) -> list[GroupNews]:
    found = []
    while queue:
        found.append(queue.take())
    return found


def test_news_come_in_the_order_in_which_they_were_put() -> None:
    assert [news.body for news in drained(filled(3)) if isinstance(news, MessageNews)] == [
        bytes(4), b"\0\0\0\1", b"\0\0\0\2",
    ]  # fmt: skip


def test_what_has_no_room_is_counted_behind_the_others() -> None:
    found = drained(filled(NEWS_MAX + 20))
    assert len(found) == NEWS_MAX + 1
    assert found[-1] == MissedNews(20)


def test_what_comes_when_there_is_room_again_stands_behind_what_was_missed() -> None:
    queue = filled(NEWS_MAX + 1)
    for _ in range(2):
        queue.take()
    last = MessageNews("lamp", b"again")
    queue.put(last)
    assert drained(queue)[-2:] == [MissedNews(1), last]


def test_marks_of_what_was_missed_take_no_more_room_than_one() -> None:
    queue = filled(NEWS_MAX)
    for _ in range(1000):
        queue.put(MissedNews(None))
    assert len(drained(queue)) == NEWS_MAX + 1
