"""What must hold in every run, each rule by itself."""

from __future__ import annotations

from distkv.sim.rule import Observer
from distkv.sim.rules.announced import DroppedIsAnnounced
from distkv.sim.rules.apart import StaysApart
from distkv.sim.rules.contents import OneContent
from distkv.sim.rules.covered import SupersededIsCovered
from distkv.sim.rules.disk import DiskKeeps
from distkv.sim.rules.durable import NothingUndone
from distkv.sim.rules.kept import PromisesAreKept
from distkv.sim.rules.ledger import LedgerPartition
from distkv.sim.rules.progress import NoBusyLoop, ReadyStays
from distkv.sim.rules.purged import PurgedStays
from distkv.sim.rules.recorded import HeldIsRecorded
from distkv.sim.rules.ring import RingStays
from distkv.sim.rules.ticks import TicksRise
from distkv.sim.rules.timing import GapsArePulled, PingsCome, ReadyInTime, TakesTurns
from distkv.sim.rules.trees import HeardOnce, NoCircle, OverrunEnds
from distkv.sim.rules.ttl import TtlEnds
from distkv.sim.rules.writes import AcknowledgedStay, DecisionsCloseOne, WritesWin
from distkv.sim.service import sim_parts


def always() -> list[Observer]:
    """The rules that need no more than to watch."""
    return [
        DecisionsCloseOne(),
        DiskKeeps(),
        DroppedIsAnnounced(),
        HeldIsRecorded(),
        LedgerPartition(),
        NoBusyLoop(),
        NothingUndone(),
        PurgedStays(),
        PromisesAreKept(),
        ReadyStays(),
        ReadyInTime(),
        TakesTurns(),
        TtlEnds(),
        GapsArePulled(),
        PingsCome(),
        WritesWin(),
    ]


def every() -> list[Observer]:
    """All rules: these, those that want all that a run did, and those of services."""
    return [
        *always(),
        OneContent(),
        SupersededIsCovered(),
        TicksRise(),
        AcknowledgedStay(),
        RingStays(),
        StaysApart(),
        *(rule for part in sim_parts() for rule in part.rules()),
        HeardOnce(),
        NoCircle(),
        OverrunEnds(),
    ]
