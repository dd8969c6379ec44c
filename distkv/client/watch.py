"""A watch over as many connections as it takes: what its user is told, and where it goes on.

Knows: the frames of a watch, what a token is good for, and when it is not.  Does not know sockets, tasks or clocks.

Invariant: between two events nothing was left out, unless the second one is a `Resync`, or a `Missed` that counts it; a
token is kept only when all that it covers was told.
"""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

import attrs

from distkv.client.arguments import as_path, check_callback, check_count, check_flag, check_token
from distkv.client.outages import Begun, OnConnect, OnDisconnect, Outages
from distkv.client.questions import Question, Repeat, read_fence
from distkv.errors import BusyError, DistkvError, NotReadyError, UnreachableError
from distkv.model.event import Link, NodeName, Tick, Tock
from distkv.model.fence import Fence
from distkv.model.path import NAMES_MAX, Path
from distkv.wire.asking import encode_request
from distkv.wire.fields import (
    Fields,
    bad,
    read_flag,
    read_int,
    read_list,
    read_map,
    read_node,
    read_time,
    read_told_path,
)
from distkv.wire.subtrees import Watch
from distkv.wire.watch import Mark


@attrs.frozen
class Change:
    """A path has another value, or (`is_deleted`) none any more."""

    path: Path
    value: object
    """None when it was deleted."""
    is_deleted: bool
    link: Link
    """The change: its node and tick."""
    tock: Tock
    time: float
    """The writer's wall clock, seconds since 1970."""
    token: bytes | None
    """`since` this a later watch goes on behind it. None: it is part of what is shown at the start."""
    is_expired: bool = False
    """Whether it was deleted because its time was over."""
    fence: Fence | None = None
    """As in `Entry`; also of a deletion."""


@attrs.frozen
class Resync:
    """Changes were missed. Forget what you know: all that is there follows, and then `UpToDate`."""


@attrs.frozen
class Missed:
    """Changes were superseded before they came to the node that is watched. Nobody can say there what they were, nor at
    which paths."""

    counts: dict[NodeName, int]
    """How many, by the node that made them."""
    token: bytes | None
    """As that of a change."""


@attrs.frozen
class UpToDate:
    """What was shown and told comes to the state of this moment."""

    token: bytes | None


@attrs.frozen
class Contested:
    """The changes that lost against the winner of a path without knowing it, all of them; none: that is over."""

    path: Path
    losers: tuple[Link, ...]


@attrs.frozen
class Lost:
    """The node knows that it lost what a path held, and that nothing replaced it: what was shown is not all."""

    path: Path | None
    """None: which path it was cannot be read."""


WatchEvent: TypeAlias = Change | Missed | Resync | UpToDate | Contested | Lost
EVENT_KINDS: Final[tuple[type[WatchEvent], ...]] = get_args(WatchEvent)


class Watching(Outages):
    """One watch of a user."""

    def __init__(
        self,
        path: Path | str,
        *,
        fetch: bool,
        since: bytes | None,
        min_depth: int,
        max_depth: int | None,
        on_disconnect: OnDisconnect | None = None,
        on_connect: OnConnect | None = None,
    ) -> None:
        """Raises RequestError, or BadPathError: an argument is none that a node takes."""
        check_flag("fetch", fetch)
        check_token("since", since)
        check_count("min_depth", min_depth)
        check_count("max_depth", max_depth)
        check_callback("on_disconnect", on_disconnect)
        check_callback("on_connect", on_connect)
        self._path: Final = as_path(path)
        self._fetch: Final = fetch
        self._depths: Final = (min_depth, NAMES_MAX if max_depth is None else max_depth)
        self._token = since
        self._has_begun = False
        self._is_shown_state = False
        super().__init__(on_disconnect, on_connect)

    def question(self) -> Question[WatchEvent | Begun]:
        """What to ask on the next connection."""
        # What cannot be gone on with is asked for with a token of nobody: that brings everything, after a resync.
        since = self._token or b"" if self._has_begun else self._token
        low, high = self._depths
        request = Watch(1, self._path, self._fetch, since, low, high, missed=True)
        return Question(lambda seq: encode_request(attrs.evolve(request, seq=seq)), self._read, Repeat.ANYWHERE, True)

    def is_bearable(self, error: DistkvError) -> bool:
        """Whether to try again after an error: it may be over soon."""
        return isinstance(error, UnreachableError) or (self._has_begun and isinstance(error, BusyError | NotReadyError))

    # -- inside

    def _read(self, fields: Fields) -> WatchEvent | Begun:
        """What a frame says."""
        state = fields.get("state")
        if state is not None:
            return self._mark(state, _token(fields))
        if "conflict" in fields:
            return _contested(read_map(fields["conflict"], "conflict"))
        if "lost" in fields:
            return Lost(None if fields["lost"] is None else read_told_path(fields["lost"]))
        event = _missed(fields) if "missed" in fields else _change(fields)
        if event.token is not None and not self._is_shown_state:
            self._token = event.token
        return event

    def _mark(self, state: object, token: bytes | None) -> WatchEvent | Begun:
        match state:
            case Mark.START:
                # While the state is shown nothing else would do than to show it again, as a whole.
                self._is_shown_state = self._fetch and not self._has_begun and self._token is None
                self._has_begun = True
                if token is not None:
                    self._token = token
                return Begun()
            case Mark.RESYNC:
                self._is_shown_state, self._token = True, None
                return Resync()
            case Mark.UP_TO_DATE:
                self._is_shown_state, self._token = False, token
                return UpToDate(token)
        raise bad("state", f"one of {', '.join(Mark)}", state)


def _token(fields: Fields) -> bytes | None:
    token = fields.get("token")
    if token is not None and type(token) is not bytes:
        raise bad("token", "bytes", token)
    return token


def _change(fields: Fields) -> Change:
    return Change(
        _path(fields),
        fields.get("value"),
        "value" not in fields,
        _link(fields),
        Tock(read_int(fields, "tock")),
        read_time(fields.get("time"), "time"),
        _token(fields),
        read_flag(fields, "expired"),
        read_fence(fields),
    )


def _missed(fields: Fields) -> Missed:
    counts = read_map(fields["missed"], "missed")
    return Missed({read_node(node, "missed"): read_int(counts, node) for node in counts}, _token(fields))


def _contested(fields: Fields) -> Contested:
    rows = [read_map(row, "open") for row in read_list(fields.get("open"), "open")]
    return Contested(_path(fields), tuple(map(_link, rows)))


def _link(fields: Fields) -> tuple[NodeName, Tick]:
    return read_node(fields.get("node"), "node"), Tick(read_int(fields, "tick"))


def _path(fields: Fields) -> Path:
    return read_told_path(fields.get("path"))
