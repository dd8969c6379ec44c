"""What the async client asks of a node about all that is below a path, and about what a path held before.

Knows: which question each method asks.  Does not know how a connection is made.  `blocking_trees` is made of this.

Invariant: what may be long comes while it arrives, or in pages.
"""

from __future__ import annotations

from distkv.client import questions
from distkv.client.async_connection import AsyncConnection
from distkv.client.async_items import Items, Watch
from distkv.client.client_part import ClientPart
from distkv.client.names import Listed, NameListing
from distkv.client.outages import OnConnect, OnDisconnect
from distkv.client.questions import DeletedCount, Entry, Past
from distkv.client.watch import EVENT_KINDS, Change, Lost, Resync, WatchEvent, Watching
from distkv.model.path import Name, Path


class AsyncTreeMethods(ClientPart[AsyncConnection]):
    """A part of the client."""

    def get_tree(
        self, path: Path | str, *, min_depth: int = 0, max_depth: int | None = None, limit: int | None = None
    ) -> Items[tuple[Path, Entry]]:
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
        return Items(self._connection, question)

    def history(self, path: Path | str, *, limit: int | None = None, before: int | None = None) -> Items[Past]:
        """The changes of `path` that reached the node that is asked, newest first, while they arrive.

        They come on a connection of their own; see `get_tree`.

        Args:
            path: where.
            limit: how many at the most.
            before: only those before this `Past.position`.
        """
        return Items(self._connection, questions.history(path, limit=limit, before=before))

    async def list(
        self, path: Path | str, *, limit: int | None = None, after: Name | Path = None
    ) -> tuple[Listed, ...]:
        """The names directly below `path` that lead to a value, in order, `limit` at the most. Only those that come
        after the name `after`, which need not be there; as a `Path` of one name it may also be null.
        DamagedError with `found` if others are lost."""
        return await self._connection.ask_pages(NameListing(path, limit=limit, after=after))

    async def delete_tree(self, path: Path | str) -> DeletedCount:
        """Delete the values at and below `path`, and return how many.

        Those whose paths tokens hold stay: `fenced` of the result counts them. A large tree is deleted in several
        steps, each of which takes place as a whole.
        """
        return await self._connection.ask(questions.delete_tree(path))

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
    ) -> Watch[Change | Resync | Lost]:
        """Be told of every change at and below `path`, from where `async with` enters it until you stop iterating.

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
        watching = Watching(
            path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth, on_disconnect=on_disconnect,
            on_connect=on_connect,
        )  # fmt: skip
        return Watch(self._connection, watching, (Change, Resync, Lost))

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
    ) -> Watch[WatchEvent]:
        """As `watch`, and also: when what was told is complete (`UpToDate`), conflicts (`Contested`), and how many
        changes were overwritten before they came to the node (`Missed`)."""
        watching = Watching(
            path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth, on_disconnect=on_disconnect,
            on_connect=on_connect,
        )  # fmt: skip
        return Watch(self._connection, watching, EVENT_KINDS)
