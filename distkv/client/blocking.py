"""The blocking client: one method per request that a node answers.

Knows: requests and the fields of their replies.  Does not know sockets (`connection`), nor how a path or a value is
written by people.

Invariant: what a method returns was checked; a server that answers nonsense raises `PeerError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import attrs

from distkv.client.connection import Address, open_connection
from distkv.errors import DecodeError, PeerError
from distkv.model.event import Chain, Link, Tock
from distkv.model.path import Path
from distkv.wire.fields import LINKS_MAX, read_chain, read_flag, read_int, read_time
from distkv.wire.replies import Hello
from distkv.wire.request import GetState, GetValue, PingRequest, SetValue
from distkv.wire.values import pack_value

DEFAULT_ADDRESS: Final[Address] = ("127.0.0.1", 27586)


@attrs.frozen
class Entry:
    """What a path holds."""

    value: object
    """str, bytes, int, float, bool, list, dict, `ExtType` or `Timestamp`."""
    chain: Chain
    """The change that made it, and which earlier ones that knew, newest first."""
    tock: Tock
    time: float
    """The writer's wall clock, seconds since 1970."""


@attrs.frozen
class Written:
    """What a write did."""

    changed: bool
    link: Link | None
    """The change that the path shows now; None when nothing was there and nothing was done."""


class Client:
    """A connection to one node. Not for several threads at once.

    Every method raises `UnreachableError` when the node is gone, `PeerError` when it answers nonsense, and else the
    class of `distkv.errors` that has the code of the node's answer.
    """

    def __init__(
        self,
        addresses: Sequence[Address] = (DEFAULT_ADDRESS,),
        *,
        connect_s: float = 5.0,
        reply_s: float = 30.0,
    ) -> None:
        """Connect to the first of `addresses` that answers.

        Raises:
            UnreachableError: none does.
            PeerError: something else answers there.
        """
        self._connection: Final = open_connection(addresses, connect_s=connect_s, reply_s=reply_s)
        self._seq = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """May be called again."""
        self._connection.close()

    @property
    def hello(self) -> Hello:
        """How the node greeted."""
        return self._connection.hello

    @property
    def address(self) -> str:
        """HOST:PORT of the node."""
        return self._connection.name

    def get(self, path: Path | str) -> Entry | None:
        """What `path` holds; None when it has no value."""
        reply = self._connection.ask(GetValue(self._next(), _path(path), nchain=LINKS_MAX))
        if "value" not in reply:
            return None
        try:
            chain, _ = read_chain(reply.get("chain"), "chain")
            tock, time = Tock(read_int(reply, "tock")), read_time(reply.get("time"), "time")
        except DecodeError as error:
            raise self._nonsense(error) from None
        return Entry(reply["value"], chain, tock, time)

    def set(
        self,
        path: Path | str,
        value: object,
        *,
        new: bool = False,
        idem: bool = False,
        head: Link | None = None,
        previous: object = None,
    ) -> Written:
        """Store `value`. The conditions are judged on this node alone; two nodes can both find them true.

        Args:
            value: as in `Entry`; not None, which would delete.
            new: only when there is no value.
            idem: do nothing when the same value is there.
            head: only when this change is the last one.
            previous: only when this value is there; None: whatever is there.

        Raises:
            ExistsError, ChainMismatchError, ValueMismatchError: the condition does not hold.
            BadValueError, TooLargeError: the value cannot be stored; it was not sent.
        """
        packed = pack_value(value)
        previous_packed = None if previous is None else pack_value(previous)
        return self.set_packed(path, packed, new=new, idem=idem, head=head, previous=previous_packed)

    def set_packed(
        self,
        path: Path | str,
        value: bytes,
        *,
        new: bool = False,
        idem: bool = False,
        head: Link | None = None,
        previous: bytes | None = None,
    ) -> Written:
        """As `set`, of values that `pack_value` made."""
        chain = None if head is None else (head,)
        return self._write(SetValue(self._next(), _path(path), value, chain, new, previous, idem, nchain=1))

    def delete(self, path: Path | str) -> bool:
        """Delete the value of `path`; whether there was one."""
        return self._write(SetValue(self._next(), _path(path), None, nchain=1)).changed

    def state(self) -> Mapping[str, object]:
        """What the node says of itself and the network (docs: protocol, `get_state`)."""
        reply = self._connection.ask(GetState(self._next()))
        return {name: value for name, value in reply.items() if name != "seq"}

    def ping(self) -> None:
        """One round trip; a node answers in every state."""
        self._connection.ask(PingRequest(self._next()))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _write(self, request: SetValue) -> Written:
        reply = self._connection.ask(request)
        try:
            changed = read_flag(reply, "changed")
            link = read_chain(reply["chain"], "chain")[0][0] if "chain" in reply else None
        except DecodeError as error:
            raise self._nonsense(error) from None
        return Written(changed, link)

    def _nonsense(self, error: DecodeError) -> PeerError:
        self.close()
        return PeerError(f"the server at {self.address} answers nonsense ({error}): report this")

    def _next(self) -> int:
        self._seq += 1
        return self._seq


def _path(path: Path | str) -> Path:
    return Path.parse(path) if isinstance(path, str) else path
