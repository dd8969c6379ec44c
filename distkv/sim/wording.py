"""What befalls a node, as people are told.

Knows: what each action does to whom.  Does not know how it is written in a file (`verbs`).
"""

from __future__ import annotations

from typing import Final, assert_never

from distkv.sim.actions import (
    CutWay,
    Decide,
    DecideAny,
    Deed,
    Divert,
    Fill,
    Foreign,
    Happening,
    Lie,
    Move,
    Retire,
    Rot,
    RotSome,
    ServiceAction,
    SetClock,
    Split,
    StartNode,
    Swap,
    TellAll,
    ToNode,
    Write,
)
from distkv.sim.verbs import command_of

DEEDS: Final = {
    Deed.STOP: "is stopped",
    Deed.CRASH: "loses power",
    Deed.WIPE: "loses its disk",
    Deed.BURN: "loses its disk, and the only copy of something",
    Deed.BACKUP: "is backed up",
    Deed.ROLL_BACK: "is set back to its backup",
    Deed.PAUSE: "pauses",
    Deed.RESUME: "goes on",
    Deed.AGENT_DOWN: "agent stops",
    Deed.AGENT_UP: "agent starts",
    Deed.DISK_FULL: "has no space on its disk",
    Deed.DISK_SHORT: "has no space for another segment",
    Deed.DISK_FREE: "has space again",
    Deed.ISOLATE: "is cut off from all",
    Deed.REJOIN: "is back among all",
    Deed.NAMESAKE: "gets a namesake",
    Deed.NAMESAKE_GONE: "loses its namesake",
    Deed.OWN_ADDRESS: "starts again with its own address",
    Deed.HALF_OPEN: "forgets its connections, and nobody is told",
    Deed.STALL: "takes nothing from its edges",
    Deed.FLOW: "takes what comes on its edges again",
}


def words_for(action: Happening) -> tuple[str, str]:
    """Whom it befell, nobody where it is about the ways between all, and what; there a scenario file's words."""
    match action:
        case ToNode(node=node, deed=deed):
            return node, DEEDS[deed]
        case Rot(node=node, path=path):
            return node, f"ends, and its disk rots at {path}"
        case RotSome(nodes=nodes):
            return nodes[0], " ".join(["ends, and its disk rots", *(f"as that of {other}" for other in nodes[1:])])
        case SetClock(node=node, rate=rate, jump_s=jump_s):
            return node, f"wall clock jumps {jump_s:g} s" if rate is None else f"clock runs at {rate:g}"
        case Move(node=node, other=other):
            return node, f"starts again with the address of {other}"
        case Lie(node=node, what=what):
            return node, f"is lied about: {what}"
        case Retire(other=other):
            return other, "is said to be gone for good"
        case TellAll(node=node, text=text):
            return node, f"says to all: {text}"
        case Split() | CutWay() | Divert() | Foreign() | StartNode():
            return "", command_of(action)
        case Write() | Fill() | Swap() | Decide() | DecideAny() | ServiceAction():
            return "", command_of(action)
    assert_never(action)
