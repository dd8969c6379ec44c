"""Looking up the names of hosts.

Knows: that a thread waits for the answer, and what to say when none can be begun.  Does not know who dials whom.

Invariant: a lack of threads is one address that cannot be reached, never more. The loop waits for no answer.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from distkv.engine.scarce import is_lack_of_threads

T = TypeVar("T")


class HostNames(trio.abc.HostnameResolver):
    """What trio asks, once it is set; numbers are not looked up."""

    async def getaddrinfo(
        self, host: bytes | None, port: bytes | str | int | None, family: int = 0, type: int = 0, proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:  # fmt: skip
        """Abandoned when it is cancelled.

        Raises:
            OSError: the name is not known, or cannot be looked up now.
        """
        return await self._on_a_thread(socket.getaddrinfo, host, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Abandoned when it is cancelled.

        Raises:
            OSError: the address has no name, or it cannot be looked up now.
        """
        return await self._on_a_thread(socket.getnameinfo, sockaddr, flags)

    async def _on_a_thread(self, look_up: Callable[..., T], *arguments: Any) -> T:
        try:
            return await trio.to_thread.run_sync(look_up, *arguments, abandon_on_cancel=True)
        except RuntimeError as error:
            if not is_lack_of_threads(error):
                raise
            text = "no thread can be begun to look the name up: raise the limit (ulimit -u, TasksMax=)"
            raise socket.gaierror(socket.EAI_AGAIN, text) from error
