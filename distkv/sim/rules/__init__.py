"""What must hold in every run, each rule by itself."""

from __future__ import annotations

from distkv.sim.rule import Observer
from distkv.sim.rules.announced import DroppedIsAnnounced
from distkv.sim.rules.disk import DiskKeeps
from distkv.sim.rules.durable import NothingUndone
from distkv.sim.rules.ledger import LedgerPartition
from distkv.sim.rules.progress import NoBusyLoop, ReadyStays
from distkv.sim.rules.purged import PurgedStays
from distkv.sim.rules.timing import GapsArePulled, PingsCome, ReadyInTime, TakesTurns
from distkv.sim.rules.ttl import TtlEnds
from distkv.sim.rules.writes import DecisionsCloseOne, WritesWin


def always() -> list[Observer]:
    """The rules that need no more than to watch."""
    return [
        DecisionsCloseOne(),
        DiskKeeps(),
        DroppedIsAnnounced(),
        LedgerPartition(),
        NoBusyLoop(),
        NothingUndone(),
        PurgedStays(),
        ReadyStays(),
        ReadyInTime(),
        TakesTurns(),
        TtlEnds(),
        GapsArePulled(),
        PingsCome(),
        WritesWin(),
    ]
