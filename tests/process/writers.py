"""Clients that write whatever happens to their node, connect again, and remember what was promised to them.

Knows: what was acknowledged, with the tick, tock and chain that the answer named.  Does not know which faults there
are, nor what became of a write.

Each writes paths of its own, a few that all write to all the time, and some that all write to for ten seconds; sets,
deletions, batches, decisions about open losers, some of them with `replicas`.

Invariant: what `Writer.acknowledged` holds was answered with success. A write whose answer never came is in it nowhere.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, Self

import attrs

from distkv.client.blocking import Client
from distkv.errors import DistkvError, NotFoundError, NotReadyError, UnreachableError
from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.fields import LINKS_MAX, read_chain
from distkv.wire.values import pack_value
from tests.process.servers import Server

OWN_PATHS: Final = 15
HOT_PATHS: Final = 6
WARM_PATHS: Final = 30
WARM_S: Final = 10.0
"""So long the same warm paths are written to."""
PAUSE_MAX_S: Final = 0.05
AGAIN_S: Final = 0.2
"""Before the next attempt to connect."""
REPLY_S: Final = 5.0
REPLICAS_WAIT_S: Final = 2.0
DECIDED: Final = "warm"
"""Losers are decided only on paths that are soon given up, and have few."""


@attrs.frozen
class Acknowledged:
    """A write that was answered."""

    event: Event
    """As the answer named it; the value of a decision is not known."""
    is_decision: bool
    by: str
    """Who wrote it."""
    at: float
    """When the answer was read, by the monotonic clock."""
    replicas: int
    """On how many nodes it was durable then, for certain."""

    @property
    def link(self) -> Link:
        return self.event.link


class Writer:
    """One client of one server, in a thread of its own while it is entered."""

    def __init__(self, server: Server, number: int, seed: str) -> None:
        self.name: Final = f"{server.name}{number}"
        self.acknowledged: Final[list[Acknowledged]] = []
        self.unanswered = 0
        """How many times the connection broke, or nothing came, with a write under way perhaps."""
        self.refused: Final[dict[str, int]] = {}
        """How many writes were refused, by code."""
        self._server: Final = server
        self._chance: Final = random.Random(f"{seed} {self.name}")
        self._count = 0
        self._began = time.monotonic()
        self._is_over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Wait until the write under way is answered, or never will be."""
        self._is_over.set()
        self._thread.join()

    # -- inside

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                with self._server.client(reply_s=REPLY_S) as client:
                    self._write_on(client)
            except (NotReadyError, UnreachableError):
                self.unanswered += 1
            self._is_over.wait(AGAIN_S)

    def _write_on(self, client: Client) -> None:
        """Until the connection breaks."""
        while not self._is_over.is_set():
            try:
                self._write_one(client)
            except (NotReadyError, UnreachableError):
                raise
            except DistkvError as error:
                self.refused[error.code] = self.refused.get(error.code, 0) + 1
            self._is_over.wait(self._chance.uniform(0, PAUSE_MAX_S))

    def _write_one(self, client: Client) -> None:
        drawn = self._chance.random()
        if drawn < 0.75:
            self._set(client)
        elif drawn < 0.85:
            self._delete(client)
        elif drawn < 0.97:
            self._batch(client)
        else:
            self._decide(client)

    def _set(self, client: Client) -> None:
        path, value = self._path(), self._value()
        fields: dict[str, object] = {"path": path.names, "value": value, "nchain": LINKS_MAX}
        if self._chance.random() < 0.1:
            fields |= {"replicas": 2, "timeout": REPLICAS_WAIT_S}
        self._note(client, path, pack_value(value), client.request("set_value", fields))

    def _delete(self, client: Client) -> None:
        path = self._path()
        self._note(client, path, None, client.request("delete_value", {"path": path.names, "nchain": LINKS_MAX}))

    def _batch(self, client: Client) -> None:
        paths = list(dict.fromkeys(self._path() for _ in range(self._chance.randint(2, 5))))
        values = [self._value() for _ in paths]
        ops = [
            {"action": "set_value", "path": path.names, "value": value, "nchain": LINKS_MAX}
            for path, value in zip(paths, values, strict=True)
        ]
        results = client.request("batch", {"ops": ops})["results"]
        assert isinstance(results, list)
        for path, value, result in zip(paths, values, results, strict=True):
            self._note(client, path, pack_value(value), result)

    def _decide(self, client: Client) -> None:
        """What a person would do about one of the open losers."""
        losers = client.conflicts(Path([DECIDED]), limit=50)
        if not losers:
            return
        loser = self._chance.choice(losers)
        what = self._chance.choice(("restore", "dismiss"))
        try:
            reply = client.request(what, {"id": loser.id, "nchain": LINKS_MAX})
        except NotFoundError:
            return  # another one was quicker
        self._note(client, loser.path, b"", reply, is_decision=True)

    def _note(
        self, client: Client, path: Path, value: bytes | None, reply: Mapping[str, object], *, is_decision: bool = False
    ) -> None:
        if not reply["changed"]:
            return  # there was nothing to delete
        chain, is_cut = read_chain(reply["chain"], "chain")
        tick, tock, replicas = reply["tick"], reply["tock"], reply.get("replicas", 1)
        assert isinstance(tick, int)
        assert isinstance(tock, int)
        assert isinstance(replicas, int)
        assert chain[0] == (NodeName(client.hello.node), Tick(tick))
        kind = Kind.DELETE if value is None else Kind.SET
        event = Event(path, kind, value or b"", chain, Tock(tock), 0.0, is_cut)
        self.acknowledged.append(Acknowledged(event, is_decision, self.name, time.monotonic(), replicas))

    def _path(self) -> Path:
        drawn = self._chance.random()
        if drawn < 0.4:
            return Path(["own", self.name, self._chance.randrange(OWN_PATHS)])
        if drawn < 0.9:
            turn = int((time.monotonic() - self._began) / WARM_S)
            number = self._chance.randrange(WARM_PATHS if drawn < 0.7 else HOT_PATHS)
            return Path([DECIDED, turn, number])
        return Path(["hot", self._chance.randrange(HOT_PATHS)])

    def _value(self) -> str:
        self._count += 1
        return f"{self.name} {self._count}"


def acknowledged(writers: Sequence[Writer]) -> list[Acknowledged]:
    """What all of them were promised."""
    return [write for writer in writers for write in writer.acknowledged]
