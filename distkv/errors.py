"""The exception tree: every error that a user, a client or an operator can meet.

Knows: codes (the contract of the client protocol) and that a message is one line which says what happened, where,
and what to do next.  Does not know who shows it: the CLI maps codes to exit codes, the session to reply frames.

Invariant: `str(error)` is the whole message, `error.code` is one of the documented codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from traceback import extract_tb
from typing import Any, ClassVar, Self


class DistkvError(Exception):
    """Base of everything this product raises on purpose."""

    code: ClassVar[str] = "internal"


# -- what a request can be told -----------------------------------------------------------------------------------


class RequestError(DistkvError):
    """A request was refused; nothing was changed."""

    code = "bad_request"
    details: ClassVar[Mapping[str, type]] = {"op": int}
    """What a reply has besides the text and the code, where it is known: the attribute of that name, of that type."""
    op: int | None = None
    """In a batch, which operation was refused, counted from 0."""

    def at_op(self, index: int) -> Self:
        """The same as the refusal of one operation of a batch."""
        found = type(self)(f"op {index}: {self}")
        found.op = index
        return found


class InternalError(RequestError):
    """Something failed that nobody foresaw. Only this request and its connection are lost; the log says more."""

    code = "internal"


class UnknownActionError(RequestError):
    code = "unknown_action"


class BadPathError(RequestError):
    code = "bad_path"


class BadValueError(RequestError):
    code = "bad_value"


class TooLargeError(RequestError):
    code = "too_large"


class NotFoundError(RequestError):
    code = "not_found"


class ConflictError(RequestError):
    """A condition of a write does not hold. Raised as one of the classes below, each of which has a code of its own."""


class ExistsError(ConflictError):
    code = "exists"


class ChainMismatchError(ConflictError):
    code = "chain_mismatch"


class ValueMismatchError(ConflictError):
    code = "value_mismatch"


class FencedError(ConflictError):
    """A token holds the path, and the write is not its latest holder's."""

    code = "fenced"


class ForbiddenError(RequestError):
    """Whoever asks may not know this, or not do it."""

    code = "forbidden"


class NotReadyError(RequestError):
    code = "not_ready"


class DamagedError(RequestError):
    """What was asked for is not on this node's disk, though it may have been somewhere; another node may have it."""

    code = "damaged"
    found: tuple[Any, ...] = ()
    """Of an answer that is a list: what of it is here."""


class NoSpaceError(RequestError):
    """The disk is full: writes are refused, reads go on."""

    code = "no_space"


class BusyError(RequestError):
    """Too much is under way, or something must be found out first; the same request may succeed a moment later."""

    code = "busy"


class UnknownOutcomeError(RequestError):
    """Another node was asked to do something once, and nobody here knows whether it did: look before you ask again."""

    code = "unknown_outcome"


class CancelledError(RequestError):
    """Whoever asked did not want the answer any more."""

    code = "cancelled"


class DisabledError(RequestError):
    """The settings do not ask for what was requested."""

    code = "disabled"


# -- what a peer or the network did -------------------------------------------------------------------------------


class DecodeError(DistkvError):
    """Bytes that are not a message; counted per sender and reason, and dropped."""

    code = "bad_request"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
        """A short id from a small fixed set, such as `bad_tick`: the key of the counter."""

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Copied with both, of which an exception keeps only the message by itself."""
        return type(self), (str(self), self.reason)


class FrameError(DecodeError):
    """A datagram that is no frame of the membership layer; its reason is `type`, `body` or `size`."""


class PeerError(DistkvError):
    """Another node answered with an error, answered nonsense, or did not answer."""

    code = "internal"


class LoanOverError(PeerError):
    """Another node can be dialled, so the connection that it lent is used no more. It is well and can be reached."""


class TransportError(DistkvError):
    """The messenger beside us (the Serf agent) refused, failed or is gone."""

    code = "internal"


# -- what ends a start, or the daemon -----------------------------------------------------------------------------


class UnreachableError(DistkvError):
    """No server or no agent answers at the address: exit code 5."""

    code = "not_ready"
    is_silence = False
    """Whether nothing came in time; then it may be there still."""


class ConnectionLostError(UnreachableError):
    """The connection broke while a write was under way: nobody here knows whether the write took place."""


class SettingsError(DistkvError):
    """The configuration or the command line holds something that cannot be meant: exit code 2."""

    code = "bad_request"


class StorageError(DistkvError):
    """Base of what the data directory can do to us."""


class StorageFailedError(StorageError):
    """A write or fsync failed: the daemon ends; an fsync is never retried."""


class LogDamagedError(StorageError):
    """The log is damaged before its tail; the start stops and says what is lost."""


class DirectoryLockedError(StorageError):
    """Another server uses this directory."""


class WrongDirectoryError(StorageError):
    """The directory holds another node's data."""


class FormatVersionError(StorageError):
    """The directory was written by a release that this one cannot read."""


class DuplicateNameError(DistkvError):
    """Another live node uses our name and started before us."""


class StaleError(DistkvError):
    """What this node serves may have been forgotten elsewhere: it must start again, which makes it download."""


class InitRefusedError(DistkvError):
    """`--init` where a network already is: in the directory, or answering on the transport."""


class SparkFailedError(DistkvError):
    """Spark is not installed, does not start, or could not carry out a job."""


# -- looking at failures ------------------------------------------------------------------------------------------


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The failures that a group holds, however deep; of a single one, that one."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error


def place_of(error: BaseException) -> str:
    """Where a failure was raised: FILE:LINE."""
    frames = extract_tb(next(leaves(error)).__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "nowhere"
