"""What the blocking client asks of a node itself: its state, its disk, other nodes, and any request without a method.

Knows: which question each method asks.  Does not know how a connection is made.

Invariant: methods, parameters and words are those of `async_node.AsyncNodeMethods`, of which they are made.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from distkv.client import node_questions
from distkv.client.blocking_connection import SharedConnection
from distkv.client.client_part import ClientPart


class NodeMethods(ClientPart[SharedConnection]):
    """A part of the client."""

    # -- begin generated from async_node.AsyncNodeMethods: python packaging/blocking_client.py

    def state(self) -> Mapping[str, object]:
        """What the node says of itself and the network (docs: client protocol, `get_state`)."""
        return self._connection.ask(node_questions.get_state())

    def retire_node(self, name: str, *, force: bool = False) -> bool:
        """Say that a node is gone for good, so that nothing waits for it any more; whether that is news.

        Should it return it gives the others what only it has, and then joins anew, as if it were empty.

        Args:
            name: the node, not the one that is asked.
            force: also when it is seen alive.

        Raises:
            NotFoundError: no such node is registered.
            ExistsError: it is seen alive.
        """
        return self._connection.ask(node_questions.retire_node(name, force=force))

    def retry_aside(self, id: str) -> None:
        """Have something that the node has set aside taken when it comes again; `state()["aside"]` tells what there is.

        Should it fail once more, the node ends once more, and it is set aside again.

        Args:
            id: as `state` names it.

        Raises:
            NotFoundError: nothing of that name is set aside.
        """
        self._connection.ask(node_questions.decide_aside(id, is_dropped=False))

    def drop_aside(self, id: str) -> bool:
        """Replace a change that the node has set aside by what the node has at its path, on all nodes; whether that was
        still needed.

        Args:
            id: as `state` names it.

        Raises:
            NotFoundError: nothing of that name is set aside.
            RequestError: it is no change.
        """
        return self._connection.ask(node_questions.decide_aside(id, is_dropped=True))

    def backup(self) -> Generator[bytes, None, None]:
        """A copy of the whole node, in parts; `distkv restore` makes a data directory of it."""
        return self._connection.items(node_questions.backup())

    def scrub(self, *, fast: bool = False, drop: bool = False) -> Generator[Mapping[str, object], None, None]:
        """Have the node read all that is on its disk, compare checksums, and mend what it can.

        Gives the progress about once a second, `{"rows", "of"}`, and last what was found: `{"rows", "of", "found"}`.
        `fast`: without the pauses that leave the disk to others. `drop`: first do without lost values whose paths
        nobody knows; paths without a value are no longer refused as damaged then.
        """
        return self._connection.items(node_questions.scrub(fast=fast, drop=drop))

    def ping(self) -> None:
        """One round trip; a node answers in every state."""
        self._connection.ask(node_questions.ping())

    def request(
        self, action: str, fields: Mapping[str, object] | None = None, *, is_read: bool = False
    ) -> Mapping[str, object]:
        """Any other request that has one reply, with the fields as they are sent; the reply without `seq`.

        Args:
            action: what is asked (docs: client protocol).
            fields: a path is a list of its elements here.
            is_read: it changes nothing, so it may be sent again when the connection breaks.
        """
        question = node_questions.anything(action, {} if fields is None else fields, is_read=is_read)
        return self._connection.ask(question)

    # -- end generated
