"""The processes below one: who they are, and how each gets a signal (Linux).

Knows: /proc, and pidfds.  Does not know why somebody is to end.

Invariant: a signal reaches only a process that was below the given one when it was looked at: its number may belong to
another process the next moment, so it is held by a pidfd first, and looked at once more.

A process that left its group, or its session, is found all the same: its parent stays the same, or becomes the nearest
subreaper, and that is the process which asks here.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import attrs

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@attrs.frozen
class ProcessView:
    """A process, as /proc shows it."""

    pid: int
    parent: int
    started: int
    """Ticks since the machine started: with the pid it names one process."""
    is_dead: bool
    """It has ended, and nobody has asked for its status yet."""


def become_subreaper() -> None:
    """From now on what loses its parent below this process becomes its child."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """The kernel kills this process when its parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def read_stat(text: str) -> ProcessView:
    """What /proc/PID/stat says. The name, in parentheses, may hold anything."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return ProcessView(int(head.partition(" ")[0]), int(fields[1]), int(fields[19]), fields[0] in "ZX")


def look_at(pid: int) -> ProcessView | None:
    """A process; None: there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return read_stat(file.read())
    except (OSError, ValueError, IndexError):
        return None


def below(root: int) -> list[ProcessView]:
    """All living processes below this one, parents first."""
    children = dict[int, list[ProcessView]]()
    for found in _all():
        children.setdefault(found.parent, []).append(found)
    living, waiting = list[ProcessView](), [root]
    for pid in waiting:
        for child in children.get(pid, ()):
            waiting.append(child.pid)
            if not child.is_dead:
                living.append(child)
    return living


def signal_below(root: int, number: int) -> int:
    """Send a signal to all processes below this one; how many there are that it reached."""
    return sum([_signal(found, number) for found in below(root)])


# -- inside -------------------------------------------------------------------------------------------------------


def _all() -> Iterator[ProcessView]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            found = look_at(int(name))
            if found is not None:
                yield found


def _signal(found: ProcessView, number: int) -> bool:
    try:
        handle = os.pidfd_open(found.pid)
    except OSError:
        return False
    try:
        now = look_at(found.pid)
        if now is None or now.started != found.started:
            return False
        with suppress(ProcessLookupError, PermissionError):  # of another user, as by sudo: we may not
            signal.pidfd_send_signal(handle, number)
            return True
        return False
    finally:
        os.close(handle)
