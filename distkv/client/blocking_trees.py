"""What the blocking client asks of a node about all that is below a path, and about what a path held before.

Knows: which question each method asks.  Does not know how a connection is made.

Invariant: methods, parameters and words are those of `async_trees.AsyncTreeMethods`, of which they are made.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from distkv.client import questions
from distkv.client.blocking_connection import SharedConnection
from distkv.client.client_part import ClientPart
from distkv.client.names import Listed, NameListing
from distkv.client.questions import DeletedCount, Entry, Past
from distkv.model.path import Name, Path

if TYPE_CHECKING:
    from distkv.client.outages import OnConnect, OnDisconnect
    from distkv.client.watch import Change, Lost, Resync, WatchEvent


class TreeMethods(ClientPart[SharedConnection]):
    """A part of the client."""

    # -- begin generated from async_trees.AsyncTreeMethods: python packaging/blocking_client.py

    def get_tree(
        self, path: Path | str, *, min_depth: int = 0, max_depth: int | None = None, limit: int | None = None
    ) -> Generator[tuple[Path, Entry], None, None]:
        """The values at and below `path`, in order, while they arrive. Last comes DamagedError if others are lost.

        They come on a connection of their own, so that who reads them slowly holds up nothing else. When that breaks,
        `UnreachableError` is raised, and you may begin anew.

        Args:
            path: where.
            min_depth: how many names below `path` a value has at the least.
            max_depth: and at the most; None: any number.
            limit: how many values at the most.
        """
        question = questions.get_tree(path, min_depth=min_depth, max_depth=max_depth, limit=limit)
        return self._connection.items(question)

    def history(
        self, path: Path | str, *, limit: int | None = None, before: int | None = None
    ) -> Generator[Past, None, None]:
        """The changes of `path` that reached the node that is asked, newest first, while they arrive.

        They come on a connection of their own; see `get_tree`.

        Args:
            path: where.
            limit: how many at the most.
            before: only those before this `Past.position`.
        """
        return self._connection.items(questions.history(path, limit=limit, before=before))

    def list(self, path: Path | str, *, limit: int | None = None, after: Name | Path = None) -> tuple[Listed, ...]:
        """The names directly below `path` that lead to a value, in order, `limit` at the most. Only those that come
        after the name `after`, which need not be there; as a `Path` of one name it may also be null.
        DamagedError with `found` if others are lost."""
        return self._connection.ask_pages(NameListing(path, limit=limit, after=after))

    def delete_tree(self, path: Path | str) -> DeletedCount:
        """Delete the values at and below `path`, and return how many.

        Those whose paths tokens hold stay: `fenced` of the result counts them. A large tree is deleted in several
        steps, each of which takes place as a whole.
        """
        return self._connection.ask(questions.delete_tree(path))

    # -- watching

    def watch(
        self,
        path: Path | str,
        *,
        fetch: bool = False,
        since: bytes | None = None,
        min_depth: int = 0,
        max_depth: int | None = None,
        on_disconnect: OnDisconnect | None = None,
        on_connect: OnConnect | None = None,
    ) -> Generator[Change | Resync | Lost, None, None]:
        """Be told of every change at and below `path`, from this call on, until you stop iterating.

        When the connection breaks it is made again, and the watch goes on where it was. When it cannot, a `Resync` says
        so, and all that is there follows. Behind what is shown, a `Lost` names each path whose value the disk lost.

        Args:
            path: where.
            fetch: begin with what is there.
            since: begin behind the change that had this token.
            min_depth: how many names below `path` a value has at the least.
            max_depth: and at the most; None: any number.
            on_disconnect: called with the reason, one line, when the connection is lost and before it is tried again.
            on_connect: called when it is back and the node watches again. Both are called by who iterates, between two
                events; what they raise is raised there.
        """
        from distkv.client.watch import Change, Lost, Resync, Watching

        watching = Watching(
            path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth, on_disconnect=on_disconnect,
            on_connect=on_connect,
        )  # fmt: skip
        return self._connection.begin_watch(watching, (Change, Resync, Lost))

    def watch_events(
        self,
        path: Path | str,
        *,
        fetch: bool = False,
        since: bytes | None = None,
        min_depth: int = 0,
        max_depth: int | None = None,
        on_disconnect: OnDisconnect | None = None,
        on_connect: OnConnect | None = None,
    ) -> Generator[WatchEvent, None, None]:
        """As `watch`, and also: when what was told is complete (`UpToDate`), conflicts (`Contested`), and how many
        changes were overwritten before they came to the node (`Missed`)."""
        from distkv.client.watch import EVENT_KINDS, Watching

        watching = Watching(
            path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth, on_disconnect=on_disconnect,
            on_connect=on_connect,
        )  # fmt: skip
        return self._connection.begin_watch(watching, EVENT_KINDS)

    # -- end generated
