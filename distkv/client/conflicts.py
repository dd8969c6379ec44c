"""Conflicts as a client asks for them: those that are open or were, and what somebody decides about one.

Knows: the requests, and the fields of their replies.  Does not know how they travel (`protocol`).

Invariant: a decision about an open loser is asked for again only of the node that got it first, where it cannot take
place twice: the first time closed the loser.
"""

from __future__ import annotations

import attrs

from distkv.client.arguments import as_link, as_path, check_flag, check_head
from distkv.client.pages import Page, Pages, read_lost
from distkv.client.questions import Question, Repeat, Written, read_fence, read_written
from distkv.model.event import Link, Tick, Tock, tick_text
from distkv.model.fence import Fence
from distkv.model.path import ROOT, Path
from distkv.wire.asking import encode_request
from distkv.wire.decisions import Dismiss, GetConflicts, Restore
from distkv.wire.fields import Fields, read_int, read_list, read_map, read_node, read_time, read_told_path


@attrs.frozen
class Loser:
    """A change that lost at its path, while the change that won did not know it."""

    path: Path
    value: object
    """As in `Entry`; None when it deleted the path."""
    is_deleted: bool
    link: Link
    """The change: its node and tick."""
    tock: Tock
    time: float
    """The writer's wall clock, seconds since 1970."""
    winner: Link | None = None
    """The change that won; None in a list of closed ones."""
    closed_by: Link | None = None
    """In a list of closed ones: the change that knew it; None when that never came to the node that is asked."""
    fence: Fence | None = None
    """As in `Entry`: that under which the loser was written."""
    winner_value: object = None
    """What the path has; None where the winner deleted it."""
    winner_time: float | None = None
    """As `time`, of the winner."""

    @property
    def id(self) -> str:
        """The change as text, which names it for `restore` and `dismiss`: `a:12`, `a:7.12`."""
        return tick_text(*self.link)


class Listing(Pages[Loser]):
    """Open losers, or those of one path that were."""

    def __init__(self, path: Path | str, *, closed: bool, limit: int | None) -> None:
        check_flag("closed", closed)
        place = as_path(path)
        super().__init__(lambda seq, after, limit: GetConflicts(seq, place, after, limit, closed), _page, limit=limit)


def restore(id: str | Link, *, head: Link | None, path: Path | str = ROOT, closed: bool = False) -> Question[Written]:
    """Write a loser again.

    Raises:
        BadPathError: `id` names no change.
        RequestError: another argument is none.
    """
    check_head(head)
    check_flag("closed", closed)
    request = Restore(1, as_link("id", id), head, as_path(path), 1, closed)
    # What is open is closed by the first time; what is closed could be written twice, but while `head` holds.
    repeat = Repeat.NEVER if closed and head is None else Repeat.SAME_NODE
    return Question(lambda seq: encode_request(attrs.evolve(request, seq=seq)), read_written, repeat)


def dismiss(id: str | Link, *, head: Link | None, path: Path | str = ROOT) -> Question[Written]:
    """Close an open loser, and keep what won.

    Raises:
        BadPathError: `id` names no change.
        RequestError: another argument is none.
    """
    check_head(head)
    request = Dismiss(1, as_link("id", id), head, as_path(path), 1)
    return Question(lambda seq: encode_request(attrs.evolve(request, seq=seq)), read_written, Repeat.SAME_NODE)


# -- inside -------------------------------------------------------------------------------------------------------


def _page(reply: Fields) -> Page[Loser]:
    losers: list[Loser] = []
    for item in read_list(reply.get("items"), "items"):
        loser = _loser(read_map(item, "items"))
        first = losers[-1] if losers and losers[-1].path == loser.path else loser  # only that of a path has the value
        losers.append(attrs.evolve(loser, winner_value=first.winner_value))
    return tuple(losers), read_told_path(reply["more"]) if "more" in reply else None, read_lost(reply)


def _loser(item: Fields) -> Loser:
    return Loser(
        read_told_path(item.get("path")),
        item.get("value"),
        "value" not in item,
        _link(item),
        Tock(read_int(item, "tock")),
        read_time(item.get("time"), "time"),
        _link(read_map(item["winner"], "winner")) if "winner" in item else None,
        _link(read_map(item["closed_by"], "closed_by")) if "closed_by" in item else None,
        read_fence(item),
        item.get("winner_value"),
        read_time(item["winner_time"], "winner_time") if "winner_time" in item else None,
    )


def _link(fields: Fields) -> Link:
    return read_node(fields.get("node"), "node"), Tick(read_int(fields, "tick"))
