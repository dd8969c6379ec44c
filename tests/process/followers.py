"""Watchers that resume: each follows all of its node, and goes on with its last token whenever it was cut off.

Knows: what it was told, in order, and which token is good for going on.  Does not know what it should have been told.

Invariant: `told` is what the node said, in order, however many connections it took; `Fresh` and `Resumed` in it are
where one began, without and with a token.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Final, Self, TypeAlias

import attrs

from distkv.client.watch import Change, Contested, Lost, Missed, Resync, UpToDate, WatchEvent
from distkv.errors import DistkvError
from distkv.model.event import Link
from distkv.model.path import ROOT, Path
from tests.process.servers import Server

AGAIN_S: Final = 0.2
BREAK_S: Final = (3.0, 12.0)
"""After so long it breaks the connection itself, between two of its faults."""


@attrs.frozen
class Fresh:
    """It begins with nothing, and asks for all that is there."""


@attrs.frozen
class Resumed:
    """It goes on behind its last token. What it knew of conflicts is void: all that are open are told now."""


Told: TypeAlias = WatchEvent | Fresh | Resumed


class Follower:
    """One watcher of one server, in a thread of its own while it is entered."""

    def __init__(self, server: Server, seed: str) -> None:
        self.name: Final = server.name
        self.told: Final[list[Told]] = []
        self.known: Final[dict[Path, Link]] = {}
        """What it takes the node's values to be, each by its change."""
        self.contested: Final[dict[Path, tuple[Link, ...]]] = {}
        """And which open losers there are."""
        self.resumed = 0
        """How often it went on with a token."""
        self.errors: Final[dict[str, int]] = {}
        """Why it was cut off or not served, by code."""
        self._server: Final = server
        self._chance: Final = random.Random(f"{seed} follower {server.name}")
        self._token: bytes | None = None
        self._is_shown_state = True
        self._is_over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """It ends with the connection: its server ends before."""
        self._is_over.set()
        self._thread.join()

    # -- inside

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._follow()
            except DistkvError as error:
                self.errors[error.code] = self.errors.get(error.code, 0) + 1
            self._is_over.wait(AGAIN_S)

    def _follow(self) -> None:
        """On one connection, until it breaks."""
        until = time.monotonic() + self._chance.uniform(*BREAK_S)
        with self._server.client() as client:
            if self._token is None:
                self._note(Fresh())
            else:
                self._note(Resumed())
            is_first = True
            for event in client.watch_events(ROOT, fetch=self._token is None, since=self._token):
                self.resumed += is_first and self._token is not None and not isinstance(event, Resync)
                is_first = False
                self._note(event)
                if time.monotonic() > until or self._is_over.is_set():
                    return

    def _note(self, told: Told) -> None:
        """A token is good for going on only when all that it covers was told."""
        self.told.append(told)
        match told:
            case Fresh() | Resync():
                self._is_shown_state, self._token = True, None
                self.known.clear()
                self.contested.clear()
            case Resumed():
                self._is_shown_state = False
                self.contested.clear()
            case UpToDate(token=token):
                self._is_shown_state, self._token = False, token
            case Change():
                if told.is_deleted:
                    self.known.pop(told.path, None)
                else:
                    self.known[told.path] = told.link
                if not self._is_shown_state:
                    self._token = told.token
            case Missed(token=token):
                if not self._is_shown_state:
                    self._token = token
            case Lost():
                pass
            case Contested(path=path, losers=losers):
                self.contested[path] = losers
                if not losers:
                    del self.contested[path]
