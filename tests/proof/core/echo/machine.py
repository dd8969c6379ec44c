"""A small service, built like a real one: it shows that the ground has what a service needs.

It counts what it is asked, keeps the count, lets another node say it back, gives names to all nodes, and keeps texts on
this one.

Knows: the form of a service's machine.  Does not know the node around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Final, assert_never

from distkv.core.ground.frames import Announced, Heard, Lacked
from distkv.core.ground.machine import (
    EntryChanged,
    NodesChanged,
    ServiceGround,
    ServiceInput,
    ServiceWoken,
    Setting,
)
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, NodesSilent, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import NodeTold, ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.errors import BadValueError, DistkvError, NotFoundError, RequestError
from distkv.model.event import NodeName
from distkv.model.fence import Fence
from distkv.model.invariant import must
from distkv.model.service_paths import entry_key, key_names
from distkv.wire.values import NIL, pack_value, unpack_value
from tests.proof.core.echo.holding import Holding, begin, granted, replied
from tests.proof.core.echo.noting import EchoNoting
from tests.proof.wire.echo import (
    EchoAsk,
    EchoChanged,
    EchoHeard,
    EchoHold,
    EchoKeep,
    EchoKept,
    EchoMuteError,
    EchoName,
    EchoNamed,
    EchoRows,
    EchoSeal,
    EchoShout,
    EchoWatch,
)

ECHO: Final = "echo"
PATIENCE_MS: Final = 10_000
HALL: Final = "hall"
"""A name of two words that begins so is that of an entry whose key has two names."""
SILENCE: Final = b"say nothing"
"""To this no echo comes back."""


def sealed(text: str) -> bytes:
    """Takes a while, where it is done well. One text is refused, and one is a fault."""
    if text == "refused":
        raise BadValueError("this is not sealed")
    if text == "fault":
        raise KeyError("nobody foresaw this")
    return hashlib.scrypt(text.encode(), salt=b"salt", n=2, r=8, p=1).hex().encode()


class Echo:
    """Asked `{to}`, it keeps how often it was asked and tells that node, whose echo keeps what it was told and tells it
    back, and only then it answers. Asked `{wake_ms}`, it answers when that time has come. Asked `{entry}`, it
    writes that into the store and answers twice; asked `{key, value}`, it writes, or deletes, an entry by that key, and
    answers only when that is refused. Asked `{node, question}`, it asks that node, whose echo says it backwards, and
    answers with what it heard. Asked `{life}`, it says in which life that node is. Asked `{shout}`, it says that to
    all, and `{announce}`, it announces these fields. Asked anything else, it refuses."""

    def __init__(self, length: int = 5) -> None:
        self.length = length
        self.restored: list[dict[str, bytes]] = []
        """The slots of each `begin`."""
        self.doubts: list[tuple[set[str], bool, bool]] = []
        """Of the rows of data at each `begin`: which were lost, whether nobody knows which others were, and whether
        the disk was an old one."""
        self.entries: list[bytes] = []
        """What it found at its own path in the store, whenever that changed."""
        self.shouts = 0
        """What it said to all since it began; it announces how often."""
        self.heard: list[Heard | Lacked] = []
        """What others said to all, since it began."""
        self.ground: ServiceGround | None = None
        self.inputs: list[tuple[int, ServiceInput]] = []
        """What it was given since then, and when."""
        self._slots: dict[str, bytes] = {}
        self._open: dict[int, int] = {}
        """Who waits for the echo of which count."""
        self._wakes: dict[int, int] = {}
        """Who waits for which time."""
        self._named: dict[str, list[int]] = {}
        """Who waits until a name is given."""
        self._watches: dict[int, dict[str, str]] = {}
        """Who is told of names, and what each was told."""
        self._can_take: set[int] = set()
        """Which of them have taken what they were told."""
        self.notes: EchoNoting | None = None

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:  # noqa: ARG002
        self.ground = ground
        slots = dict(ground.slots)
        self._slots, self._open, self._wakes, self.inputs = dict(slots), {}, {}, []
        self._named, self._watches, self._can_take, self.heard = {}, {}, set(), []
        self.shouts = 0
        self.restored.append(slots)
        self.doubts.append((set(ground.data.lost), ground.data.is_unknown, ground.data.is_old))
        self.notes = EchoNoting(ground)

    @property
    def count(self) -> int:
        return int(self._slots.get("count", b"0"))

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        self.inputs.append((turn.boot_ms, what))
        if self.notes is not None and self.notes.step(turn, what):
            return
        match what:
            case ServiceAsked(id=id, request=EchoAsk(text=text)) if text == SILENCE.decode():
                turn.answer(id, EchoMuteError("nothing was said back: say something else"))
            case ServiceAsked(id=id, request=EchoShout(text=text, times=times)):
                for _ in range(times):
                    self.shouts += 1
                    turn.tell_all(b"%d %s" % (self.shouts, text.encode()))
                turn.announce({"shouts": self.shouts})
                turn.answer(id, EchoHeard(text))
            case ServiceAsked(id=id, request=EchoAsk(node=name, text=text, early=is_early)):
                purpose, body = ("text", id), text.encode()
                turn.ask_node(NodeName(name), body, purpose, patience_ms=PATIENCE_MS, waits=not is_early)
            case ServiceAsked(id=id, request=EchoName(name=name, text=text)):
                key = entry_key(*name.split(" ", 1))
                self._named.setdefault(key, []).append(id)
                if text is None:
                    turn.delete(key, ("wrote", id))
                else:
                    turn.write(key, pack_value(text), ("wrote", id))
            case ServiceAsked(id=id, request=EchoHold(token=token)):
                begin(turn, id, token)
            case Replied(purpose=Holding() as holding):
                replied(turn, holding, what)
            case Replied(purpose=(Holding() as holding, str(session))):
                granted(turn, holding, session, what)
            case ServiceAsked(id=id, request=EchoSeal(text=text)):
                turn.work(partial(sealed, text), ("text", id))
            case ServiceAsked(id=id, request=EchoKeep(name=name, text=text)):
                try:
                    turn.keep_data(name, None if text is None else text.encode())
                except RequestError as error:
                    turn.answer(id, error)
                else:
                    turn.answer(id, EchoNamed(name, text))
            case ServiceAsked(id=id, request=EchoRows(prefix=prefix, make_good=is_good)):
                if is_good:
                    turn.make_good()
                turn.answer(id, self._rows(prefix))
            case ServiceAsked(id=id, request=EchoWatch()):
                self._watches[id] = {}
                self._tell_watch(turn, id, is_first=True)
            case ServiceAsked(id=id, request={"to": str(name)}):
                count = self.count + 1
                self._open[count] = id
                self._keep(turn, "count", b"%d" % count)
                self._keep(turn, "asked", b"%d" % count)
                turn.tell(NodeName(name), b"ask %d" % count)
            case ServiceAsked(id=id, request={"wake_ms": int(wake_ms)}):
                self._wakes[id] = wake_ms
            case ServiceAsked(id=id, request={"entry": bytes(value)}):
                turn.write("", value)
                turn.answer(id, {"written": True}, is_last=False)
            case ServiceAsked(id=id, request={"key": str(key), "value": bytes(value), "fence": Fence() as fence}):
                turn.write(key, value, ("wrote", id), fence)
            case ServiceAsked(id=id, request={"key": str(key), "fence": Fence() as fence}):
                turn.delete(key, ("wrote", id), fence)
            case ServiceAsked(id=id, request={"key": str(key), "value": bytes(value), "closes": tuple() as closes}):
                turn.write(key, value, ("wrote", id), closes=closes)
            case ServiceAsked(id=id, request={"key": str(key), "closes": tuple() as closes}):
                turn.delete(key, ("wrote", id), closes=closes)
            case ServiceAsked(id=id, request={"key": str(key), "value": bytes(value)}):
                turn.write(key, value, ("wrote", id))
            case ServiceAsked(id=id, request={"key": str(key)}):
                turn.delete(key, ("wrote", id))
            case ServiceAsked(id=id, request={"shout": bytes(body)}):
                turn.tell_all(body)
                turn.answer(id, {})
            case ServiceAsked(id=id, request={"announce": fields}):
                turn.announce(fields)
                turn.answer(id, {})
            case ServiceAsked(id=id, request={"node": str(name), "question": bytes(body), **more}):
                is_once, waits = "once" in more, "early" not in more
                purpose = "asked", id
                turn.ask_node(NodeName(name), body, purpose, patience_ms=PATIENCE_MS, is_once=is_once, waits=waits)
            case ServiceAsked(id=id, request={"life": str(name)}):
                assert self.ground is not None
                turn.answer(id, {"life": self.ground.nodes.life_of(NodeName(name))})
            case ServiceAsked(id=id, request={"neighbours": _}):
                assert self.ground is not None
                turn.answer(id, {"neighbours": list(self.ground.nodes.neighbours)})
            case ServiceAsked(id=id):
                turn.answer(id, NotFoundError("this is no question for an echo"))
            case ServiceWithdrawn(id=id):
                self._wakes.pop(id, None)
                self._watches.pop(id, None)
                self._can_take.discard(id)
                self._open = {count: other for count, other in self._open.items() if other != id}
            case NodeTold(name=name, body=body):
                self._told(turn, name, *body.split())
            case ServiceContinued(id=id) if id in self._watches:
                self._can_take.add(id)
                self._tell_watch(turn, id)
            case ServiceContinued(id=id):
                turn.answer(id, {"continued": True})
            case NodeAsked(call=call, body=body):
                if body != SILENCE:
                    turn.answer_node(call, self.answer_of(body))
            case Replied(purpose=(_, int(id)), reply=DistkvError() as error):
                turn.answer(id, error)
            case Replied(purpose=("text", int(id)), reply=bytes(reply)):
                turn.answer(id, EchoHeard(reply.decode()))
            case Replied(purpose=(_, int(id)), reply=reply):
                turn.answer(id, {"reply": reply})
            case EntryChanged(key=""):
                assert self.ground is not None
                self.entries += [value for value in self.ground.entries.versions("") if value is not None]
            case EntryChanged(key=key):
                name = " ".join(key_names(key))
                for id in self._named.pop(key, ()):
                    turn.answer(id, EchoNamed(name, self.names().get(name)))
                for id in list(self._can_take):
                    self._tell_watch(turn, id)
            case Heard() | Lacked():
                self.heard.append(what)
            case NodesChanged() | NodeGaveUp() | NodesSilent() | Replied() | Announced():
                pass  # a test looks for itself
            case ServiceWoken():
                due = [id for id, ms in self._wakes.items() if ms <= turn.boot_ms]
                for id in due:
                    turn.answer(id, {"late_ms": turn.boot_ms - self._wakes.pop(id)})
            case _:
                assert_never(what)

    def wake_ms(self) -> int | None:
        notes_ms = None if self.notes is None else self.notes.routes.wake_ms()
        return min(self._wakes.values(), default=notes_ms)

    def statistics(self) -> Mapping[str, object]:
        return {"count": self.count}

    def alike(self) -> Mapping[str, Setting]:
        return {"echo.length": self.length}

    def check(self, *, is_whole: bool = True) -> None:  # noqa: ARG002
        must(self._can_take <= self._watches.keys(), "who can take more, watches")
        if self.notes is not None:
            self.notes.check()

    @staticmethod
    def answer_of(body: bytes) -> bytes:
        """What it says back."""
        return bytes(reversed(body))

    # -- inside

    def names(self) -> dict[str, str]:
        """All names, and their texts."""
        assert self.ground is not None
        entries = self.ground.entries
        keys = [*entries.all_keys(), *entries.all_keys(HALL)]
        return {" ".join(key_names(key)): str(unpack_value(entries.versions(key)[0] or NIL)) for key in keys}

    def _rows(self, prefix: str) -> EchoKept:
        """Rows of data, and what of them is in doubt."""
        assert self.ground is not None
        data = self.ground.data
        rows = {key: value.decode() for key, value in data.items(prefix)}
        return EchoKept(rows, tuple(sorted(data.lost)), data.is_unknown, data.is_old)

    def _tell_watch(self, turn: ServiceTurn, id: int, *, is_first: bool = False) -> None:
        before, now = self._watches[id], self.names()
        names = [name for name in sorted({**before, **now}) if before.get(name) != now.get(name)]
        changed = [EchoNamed(name, now.get(name)) for name in names]
        if changed or is_first:
            self._watches[id] = now
            self._can_take.discard(id)
            turn.answer(id, EchoChanged(tuple(changed), is_complete=is_first), is_last=False)

    def _told(self, turn: ServiceTurn, name: NodeName, kind: bytes, count: bytes) -> None:
        self._keep(turn, f"{kind.decode()} of {name}", count)
        if kind == b"ask":
            turn.tell(name, b"echo " + count)
        elif int(count) in self._open:
            turn.answer(self._open.pop(int(count)), {"count": int(count), "by": name})

    def _keep(self, turn: ServiceTurn, key: str, value: bytes) -> None:
        self._slots[key] = value
        turn.keep(key, value)
