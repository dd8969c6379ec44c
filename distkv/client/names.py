"""The names below a path as a client asks for them.

Knows: the request, and the fields of its replies.  Does not know how they travel, nor who goes from page to page
(`pages`).
"""

from __future__ import annotations

from distkv.client.arguments import as_path
from distkv.client.pages import Page, Pages, read_lost
from distkv.errors import BadPathError
from distkv.model.lean import lean_value
from distkv.model.path import Name, Path
from distkv.wire.fields import Fields, bad, read_flag, read_int, read_list, read_told_path
from distkv.wire.subtrees import ListNames


@lean_value
class Listed:
    """A name directly below a path."""

    name: Name
    has_value: bool
    children: int
    """How many names are directly below it in turn."""


class NameListing(Pages[Listed]):
    """The names directly below a path that lead to a value."""

    def __init__(self, path: Path | str, *, limit: int | None = None, after: Name | Path = None) -> None:
        """
        Raises:
            BadPathError: `path` is no path, or `after` neither a name nor a path of one.
            RequestError: `limit` is no number.
        """
        place, begin = as_path(path), None if after is None else after if isinstance(after, Path) else Path([after])
        if begin is not None and len(begin) != 1:
            raise BadPathError(f"after is the path {begin}: give one name")
        super().__init__(lambda seq, after, limit: ListNames(seq, place, limit, after), _page, limit=limit, after=begin)


# -- inside -------------------------------------------------------------------------------------------------------


def _page(reply: Fields) -> Page[Listed]:
    found = []
    for row in read_list(reply.get("names"), "names"):
        fields = dict(zip(("name", "has_value", "children"), read_list(row, "names"), strict=False))
        name = fields.get("name")
        if "name" not in fields or not isinstance(name, str | bytes | int | float | None):
            raise bad("names", "made of names", name)
        found.append(Listed(name, read_flag(fields, "has_value"), read_int(fields, "children")))
    return tuple(found), read_told_path([reply["more"]]) if "more" in reply else None, read_lost(reply)
