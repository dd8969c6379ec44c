"""Ports of loopback addresses that only one test uses, of all that run on this machine.

Knows: which ports are given already.  Does not know what they are for.

A test needs its port again after it killed who listened there, and needs a port at which nobody listens.  The kernel's
choice of a free one promises neither: it may give the same to somebody else a moment later.  So each process of tests
takes a block of ports for itself, below those from which the kernel chooses.

Invariant: no two living processes of tests give a port of the same block.
"""

from __future__ import annotations

import functools
import itertools
import socket
from collections.abc import Iterator
from typing import Final

import attrs

BLOCKS: Final = range(10_000, 32_000, 500)
"""The first port of each."""


def free_port() -> int:
    """A port that is free for TCP and UDP, and that comes again only after all others of its block."""
    block = _own_block()
    for _ in range(BLOCKS.step):
        port = next(block.ports)
        if _is_free(port):
            return port
    raise OSError("every port of a block is in use: what do the tests leave behind?")


@attrs.frozen
class _Block:
    ports: Iterator[int]
    held: socket.socket
    """Its name says that the block is taken; the kernel closes it with the process."""


@functools.cache
def _own_block() -> _Block:
    for first in BLOCKS:
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(f"\0distkv-tests-ports-{first}")
        except OSError:
            held.close()
        else:
            return _Block(itertools.cycle(range(first, first + BLOCKS.step)), held)
    raise OSError("every block of ports is taken: do so many tests run on this machine?")


def _is_free(port: int) -> bool:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        try:
            tcp.bind(("127.0.0.1", port))
            udp.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
