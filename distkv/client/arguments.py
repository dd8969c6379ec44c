"""What a caller gives, judged before anything is sent.

Knows: of which type and in which range an argument must be, and what to say of another one.  Does not know what is
asked with it, nor what a value may hold (`wire.values`).

Invariant: what passed can be sent; what cannot raises an error of `distkv.errors` that names the argument.

Callers that no type checker looks at may give anything, so everything is an `object` here.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Final, TypeGuard

from distkv.errors import BadPathError, BadValueError, RequestError, SettingsError
from distkv.model.event import TICK_MAX, Link, NodeName, read_tick_text
from distkv.model.fence import FENCE_MAX, Fence, is_token_name, read_fence_text
from distkv.model.path import Path
from distkv.naming import is_node_name
from distkv.wire.events import TTL_S_MAX
from distkv.wire.replicated import REPLICAS_MAX
from distkv.wire.row import WAIT_S_MAX

COUNT_MAX: Final = 2**63 - 1
PATIENCE_S_MAX: Final = 1e6
"""Nobody waits longer, and no socket can."""
SHOWN_MAX: Final = 60
"""So many characters of what was given are shown."""
INTEGER_BITS_MAX: Final = 128
"""Of an integer that is shown with its digits."""


def as_path(path: object) -> Path:
    """A path; text is parsed.

    Raises:
        BadPathError: it is none.
    """
    if type(path) is str:
        return Path.parse(path)
    if isinstance(path, Path):
        return path
    if not isinstance(path, str):
        given = f"distkv.Path({path!r})" if isinstance(path, tuple | list) else "a distkv.Path"
        raise BadPathError(f"the path is {_kind(path)}: give text, such as 'sensors.kitchen', or {given}")
    return Path.parse(path)


def as_link(name: str, link: object) -> Link:
    """A change: node and tick, or the text that shows them.

    Raises:
        BadPathError: it names none.
    """
    found = read_tick_text(link) if isinstance(link, str) else link
    if found is None:
        raise BadPathError(f"{link!r} names no change: write it as 'conflicts' shows it, such as a:12 or a:7.12")
    if not _is_link(found):
        raise BadPathError(f"{name} is {shown(link)}: give text, such as 'a:12', or a node and a tick: ('a', 12)")
    return found


def as_node(name: object) -> NodeName:
    """A node's name.

    Raises:
        RequestError: no node can have it.
    """
    if not isinstance(name, str) or not is_node_name(name):
        raise RequestError(f"{name!r} is no node's name: that is 1-63 of letters, digits, '.', '-', '_'")
    return NodeName(name)


def as_moment(name: str, seconds: object) -> float:
    """A time, in seconds since 1970.

    Raises:
        RequestError: it is none.
    """
    if not _is_number(seconds) or not math.isfinite(seconds):
        raise RequestError(f"{name} is {shown(seconds)}: give a time in seconds since 1970, such as time.time()")
    return float(seconds)


# -- of a request -------------------------------------------------------------------------------------------------
# All raise RequestError, but where something else is said.


def check_head(head: object) -> None:
    """The change that a condition names."""
    if head is not None and not _is_link(head):
        raise RequestError(f"head is {shown(head)}: give the change that you read, such as entry.chain[0]")


def check_flag(name: str, value: object) -> None:
    """Yes or no."""
    if value is not True and value is not False:
        raise RequestError(f"{name} is {shown(value)}: give True or False")


def check_text(name: str, value: object) -> None:
    """A text."""
    if not isinstance(value, str):
        raise RequestError(f"{name} is {shown(value)}: give text")


def check_count(name: str, value: object) -> None:
    """A whole number from 0; None where nothing was given."""
    if value is not None and (type(value) is not int or not 0 <= value <= COUNT_MAX):
        raise RequestError(f"{name} is {shown(value)}: give a whole number, 0 or above")


def check_token(name: str, value: object) -> None:
    """A token of a watch; None where nothing was given."""
    if value is not None and type(value) is not bytes:
        raise RequestError(f"{name} is {shown(value)}: give the token of a change, which is bytes")


def check_packed(name: str, value: object) -> None:
    """Raises BadValueError when something else than packed bytes was given, or None."""
    if value is not None and type(value) is not bytes:
        raise BadValueError(f"{name} is {shown(value)}: give bytes that pack_value made, or use set")


def check_stored(value: object) -> None:
    """Raises BadValueError for what would delete."""
    if value is None:
        raise BadValueError("None is no value, and nothing was stored: to delete the path's value use delete")


def check_ttl(ttl: object) -> None:
    """How long a value stays; None: until it is deleted."""
    if ttl is not None and not (_is_number(ttl) and 0 < ttl <= TTL_S_MAX):
        raise RequestError(f"ttl is {shown(ttl)}: it must be seconds, above 0 and at most {TTL_S_MAX:g}")


def check_wish(replicas: object, timeout_s: object) -> None:
    """On how many nodes a write shall be, and how long to wait for them: the client's own deadline depends on it."""
    if type(replicas) is not int or not 1 <= replicas <= REPLICAS_MAX:
        raise RequestError(f"replicas is {shown(replicas)}: it must be from 1 to {REPLICAS_MAX}")
    if not _is_number(timeout_s) or not 0 <= timeout_s <= WAIT_S_MAX:
        raise RequestError(f"timeout_s is {shown(timeout_s)}: it must be from 0 to {WAIT_S_MAX:g}")


def check_action(action: str, fields: object) -> None:
    """Any request, and what stands in it."""
    if not isinstance(action, str):
        raise RequestError(f"action is {shown(action)}: give text, such as 'get_state'")
    if not isinstance(fields, Mapping) or not all(isinstance(name, str) for name in fields):
        raise RequestError("fields are names, which are text, and what they hold: {'path': ['sensors']}")


def check_row(operations: object) -> None:
    """The operations of a batch."""
    if not isinstance(operations, Iterable) or isinstance(operations, str | bytes | Mapping):
        raise RequestError(f"operations are {shown(operations)}: give a list of Get, Set and Delete")


def check_callback(name: str, callback: object) -> None:
    """A function that is called; None: nobody wants to know."""
    if callback is not None and not callable(callback):
        raise RequestError(f"{name} is {shown(callback)}: give a function")
    if inspect.iscoroutinefunction(callback):
        raise RequestError(f"{name} is an async function, which nobody would await: give a plain one")


def as_fence(fence: object, refence: object) -> Fence | None:
    """The fence of a write; text is parsed. Its base is 0: the node knows how often fences were lifted at a path."""
    check_flag("refence", refence)
    if fence is None:
        return None
    if refence:
        raise RequestError("refence lifts the fence of the path, and fence sets one: give one of them")
    found = read_fence_text(fence) if isinstance(fence, str) else fence
    if isinstance(found, Fence) and _holds(found.token, found.epoch, found.counter):
        return found._replace(base=0)
    raise RequestError(f"fence is {shown(fence)}: give text, NAME:EPOCH.COUNTER, or the distkv.Fence of a token")


def shown(value: object) -> str:
    """What was given, in a few words."""
    if isinstance(value, str):
        return repr(value) if len(value) <= SHOWN_MAX else f"{value[:40]!r}..., {len(value)} characters"
    if isinstance(value, int) and value.bit_length() > INTEGER_BITS_MAX:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= SHOWN_MAX and "\n" not in text else _kind(value)


def as_seconds(name: str, seconds: object, low: float, high: float) -> float | None:
    """A time span; None where nothing was given."""
    if seconds is None:
        return None
    if not _is_number(seconds) or not low <= seconds <= high:
        raise RequestError(f"{name} is {shown(seconds)}: give seconds, from {low:g} to {high:g}")
    return float(seconds)


# -- of a connection ----------------------------------------------------------------------------------------------


def check_patience(name: str, seconds: object) -> None:
    """How long to wait.

    Raises:
        SettingsError: it is no time that can be waited.
    """
    if not _is_number(seconds) or not 0 < seconds <= PATIENCE_S_MAX:
        raise SettingsError(f"{name} is {shown(seconds)}: give seconds, above 0 and at most {PATIENCE_S_MAX:.0f}")


def check_bound(name: str, count: object) -> None:
    """How many there may be.

    Raises:
        SettingsError: it is no number from 1.
    """
    if type(count) is not int or count < 1:
        raise SettingsError(f"{name} is {shown(count)}: give a whole number, 1 or above")


# -- inside -------------------------------------------------------------------------------------------------------


def _is_link(value: object) -> TypeGuard[Link]:
    if type(value) is not tuple or len(value) != 2:
        return False
    node, tick = value
    return isinstance(node, str) and is_node_name(node) and type(tick) is int and 0 < tick <= TICK_MAX


def _holds(token: object, *numbers: object) -> bool:
    """Whether a fence is that of a token; a user may have made it of anything."""
    is_numbered = all(type(number) is int and 0 <= number <= FENCE_MAX for number in numbers)
    return is_numbered and isinstance(token, str) and is_token_name(token)


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) is float or (isinstance(value, int | float) and not isinstance(value, bool))


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"
