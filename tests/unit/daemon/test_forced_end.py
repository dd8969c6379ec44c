"""A process that has to end ends, also when one of its tasks waits for something that never comes."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import sys, trio
from distkv.daemon.forced_end import ForcedEnd

async def wait_for_nothing():
    with trio.CancelScope(shield={hangs}):
        await trio.sleep_forever()

async def main():
    with ForcedEnd({after_s}) as end:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(end.watch)
                nursery.start_soon(wait_for_nothing)
                await trio.lowlevel.checkpoint()
                raise MemoryError
        except* MemoryError:
            print("left")
    await trio.sleep(0.2)
    print("goes on")

trio.run(main)
"""


WITHOUT_THREADS = """
import resource, threading
threading.stack_size(1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
"""
"""Begun before a program, so that it can begin no thread."""


def ran(*, hangs: bool, after_s: float, before: str = "") -> tuple[int, str, bool]:
    """Its code, what it printed, and whether it said that it was ended."""
    program = before + PROGRAM.format(hangs=hangs, after_s=after_s)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, "it is ended now" in done.stderr


def test_process_that_waits_for_something_lost_is_ended() -> None:
    assert ran(hangs=True, after_s=0.1) == (1, "", True)


def test_process_that_ends_by_itself_is_left_alone() -> None:
    assert ran(hangs=False, after_s=0.1) == (0, "left\ngoes on\n", False)


def test_without_threads_a_signal_ends_the_process() -> None:
    assert ran(hangs=True, after_s=0.1, before=WITHOUT_THREADS) == (-signal.SIGALRM, "", False)


def test_process_without_threads_that_ends_by_itself_is_left_alone() -> None:
    assert ran(hangs=False, after_s=0.1, before=WITHOUT_THREADS) == (0, "left\ngoes on\n", False)
