"""What the user is told when a connection cannot be made, or breaks: the same words in both clients.

Knows: how operating systems name what happened.  Does not know sockets.

Invariant: every message names the address, and says what happened in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.errors import ConnectionLostError, DistkvError, UnreachableError

NO_TIME: Final = "no answer in time"


def unanswered(name: str, error: OSError | UnicodeError) -> UnreachableError:
    """Nobody accepts the connection."""
    return UnreachableError(
        f"no server answers at {name} ({_reason(error)}): "
        "start one there with 'distkv server NAME', or name another host and port"
    )


def closed(name: str, error: OSError | None = None) -> UnreachableError:
    """It was there, and is gone."""
    why = ": it was stopped, or its log says why" if error is None else f" ({_reason(error)})"
    return UnreachableError(f"the server at {name} closed the connection{why}")


def silent(name: str) -> UnreachableError:
    """It accepted, and says nothing."""
    found = UnreachableError(f"the server at {name} does not answer: it hangs, or the network does")
    found.is_silence = True
    return found


def late(name: str) -> UnreachableError:
    """It gives signs of life, and no answer."""
    found = UnreachableError(
        f"the server at {name} lives, and did not answer in time: it waits for other nodes, or has much to do; "
        "ask again, or allow more time"
    )
    found.is_silence = True
    return found


def left(name: str) -> UnreachableError:
    """It ended a watch that nobody asked it to end."""
    return UnreachableError(f"the server at {name} ended the watch: it was stopped, or its log says why")


def crowded(name: str, seconds: float) -> UnreachableError:
    """Other threads' requests took all the time there was."""
    return UnreachableError(
        f"the connection to {name} was busy for {seconds:g} s with what other threads asked: "
        "give each thread a client of its own, or more time (reply_s)"
    )


def choked(name: str) -> UnreachableError:
    """It does not read what is sent."""
    return UnreachableError(f"the server at {name} takes nothing in: it hangs, or the network does")


def ended(name: str) -> UnreachableError:
    """We closed it, or it broke before."""
    return UnreachableError(f"the connection to {name} is closed: connect anew")


def over(what: str) -> UnreachableError:
    """A part of the client was closed, and the client was not."""
    return UnreachableError(f"{what} is closed: make another one")


def cut_off(name: str) -> ConnectionLostError:
    """We closed it while a change was under way."""
    return ConnectionLostError(f"the connection to {name} was closed: whether the change took place is unknown")


def shown(node: str, name: str, *, is_closed: bool, is_alive: bool) -> str:
    """A connection, for programmers who print a client."""
    state = "closed" if is_closed else "connected" if is_alive else "not connected"
    return f"{node} at {name}, {state}"


def none_of(failures: Sequence[DistkvError]) -> DistkvError:
    """No address would do; the one failure, or all in one."""
    return failures[0] if len(failures) == 1 else UnreachableError("; ".join(dict.fromkeys(map(str, failures))))


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, TimeoutError):
        return NO_TIME
    if isinstance(error, UnicodeError):
        return "this is no host name"
    return (error.strerror or str(error)).lower()
