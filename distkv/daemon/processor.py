"""How soon this process gets a processor that others want, too.

Knows: what Linux takes for a wish of short turns.  Does not know what the process does in them.

Invariant: the process gets no larger part of the processors than before, and nothing depends on whether the wish is
heard.
"""

from __future__ import annotations

import ctypes
import logging
import platform
import struct
from typing import Final

TURN_NS: Final = 100_000
"""The shortest turn for which Linux (6.12 and later) can be asked."""
_NUMBERS: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
"""Of the system call sched_setattr, for which there is no function in the C library."""
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""size, policy, flags, nice, priority, runtime, deadline, period"""

log = logging.getLogger("distkv.daemon")


def ask_for_short_turns() -> bool:
    """Ask for many short turns on the processors instead of few long ones, before there are threads, which inherit it;
    whether that was heard.

    A node works for a fraction of a millisecond and then waits, for the disk or another node. A write that three nodes
    are to hold waits for a processor four times, on three nodes. Where others compute, each of these waits took
    milliseconds: with turns of the usual length whoever computes is not interrupted sooner.
    """
    number = _NUMBERS.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if libc.syscall(number + 1, 0, before, _ATTRIBUTES.size, 0):  # sched_getattr
        return False
    _, policy, flags, nice, *_ = _ATTRIBUTES.unpack(before.raw)
    if policy != 0:
        return False  # somebody chose another one
    wish = _ATTRIBUTES.pack(_ATTRIBUTES.size, policy, flags, nice, 0, TURN_NS, 0, 0)
    is_heard = bool(libc.syscall(number, 0, wish, 0) == 0)
    if not is_heard:
        log.debug("long_turns errno=%d", ctypes.get_errno())
    return is_heard
