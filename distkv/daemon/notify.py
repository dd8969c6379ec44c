"""What the service manager is told: that the node is ready, that it ends, that its loop still turns (sd_notify(3)).

Knows: the environment variables and the datagrams of that protocol.  Does not know systemd, nor what a node is.

It is ours because the whole protocol is one datagram of `NAME=value` lines to a Unix socket. `systemd-python` is a C
extension that needs systemd's headers, and the pure packages send with a blocking socket: an event loop that waits
for a stuck service manager is the very thing that the watchdog should find.

Invariant: without NOTIFY_SOCKET nothing is sent; what the service manager does or fails to do never ends the node.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Final

import attrs
import trio

log = logging.getLogger("distkv.daemon")

SEND_S: Final = 1.0
"""How long a message may wait for room in the service manager's queue."""


@attrs.define
class ServiceManager:
    """Whoever started us, if it wants to hear how we are."""

    address: str | None = None
    """Of its socket; None: nobody listens."""
    watchdog_s: float | None = None
    """It takes us for hung when it hears nothing for so long; None: it does not."""
    _is_heard: bool = attrs.field(default=True, init=False)
    """Whether it heard the last message: only the first failure is logged."""

    @staticmethod
    def of(environment: Mapping[str, str]) -> ServiceManager:
        """The one that the environment names; what cannot be read is logged and left out."""
        name = environment.get("NOTIFY_SOCKET", "")
        if not name:
            return ServiceManager()
        if not name.startswith(("/", "@")):
            log.warning("notify_unusable socket=%s: only Unix sockets are supported", name)
            return ServiceManager()
        # '@' stands for the zero byte with which names that are no files begin.
        return ServiceManager(f"\0{name[1:]}" if name.startswith("@") else name, _watchdog_s(environment))

    @property
    def is_there(self) -> bool:
        return self.address is not None

    async def tell(self, *lines: str) -> bool:
        """Send `NAME=value` lines, in one message. False: it could not be sent; it may be sent again."""
        if self.address is None:
            return True
        reason = "its queue is full"
        with trio.move_on_after(SEND_S), trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            try:
                await sender.connect(self.address)
                await sender.send("\n".join(map(_one_line, lines)).encode())
                reason = ""
            except OSError as error:
                reason = error.strerror or str(error)
        if reason and self._is_heard:
            log.warning("notify_failed what=%s reason=%s", lines[0], reason)
        self._is_heard = not reason
        return self._is_heard

    async def keep_watchdog(self) -> None:
        """Say twice in each interval that we are alive. A loop that hangs says nothing."""
        while self.watchdog_s is not None:
            await self.tell("WATCHDOG=1")
            await trio.sleep(self.watchdog_s / 2)


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    """The interval, if it is meant for this process."""
    text, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if pid and pid != str(os.getpid()):
        return None
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text[:20]) > 0):
        log.warning("notify_unusable watchdog_usec=%s: it must be a number above 0", text)
        return None
    return int(text[:20]) / 1e6


def _one_line(text: str) -> str:
    return " ".join(text.split())
