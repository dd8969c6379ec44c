"""A play of the activity network: nodes die and return, words get lost, clients move; and what must hold afterwards.

Knows: what is promised to clients that resume.  Does not know how the machines keep it.
"""

from __future__ import annotations

from collections import Counter

import attrs

from tests.activity_net import Fleet, NetworkClient

CALM_MS = 40_000


@attrs.define
class Play:
    """One seed."""

    seed: int
    deaths: bool = True
    jumps: bool = True
    ms: int = 40_000
    names: str = ""

    def run(self) -> tuple[Fleet, list[NetworkClient]]:
        """All of it, and then calm."""
        fleet = Fleet(self.names or "abcdef"[: 3 + self.seed % 4], self.seed, loss=0.03, tell_loss=0.02)
        fleet.is_checked = self.seed % 10 == 0
        rng = fleet.rng
        fleet.run(8000)
        clients = [NetworkClient(fleet, f"c{at}") for at in range(6)]
        for client in clients:
            client.connect(fleet.any_host())
        fleet.run(3000)
        end_ms, quiet_ms = fleet.now_ms + self.ms, fleet.now_ms
        while fleet.now_ms < end_ms:
            fleet.run(rng.choice((5, 20, 100, 300)))
            for client in clients:
                if rng.random() < 0.3:
                    client.send()
                if self.jumps and rng.random() < 0.02:
                    client.connect(fleet.any_host())
            if self.deaths and fleet.now_ms > quiet_ms and rng.random() < 0.1:
                quiet_ms = fleet.now_ms + 15_000
                names = rng.sample(fleet.names, rng.choice((1, 1, 2)))
                fleet.kill(*names)
                fleet.later(rng.choice((100, 800, 3000, 8000)), lambda names=names: fleet.begin(*names))
        fleet.loss = fleet.tell_loss = 0.0
        fleet.run(CALM_MS)
        for host in fleet.hosts.values():
            host.machine.check()
        return fleet, clients


def broken_promises(fleet: Fleet, clients: list[NetworkClient]) -> list[str]:
    """What does not hold."""
    found = list[str]()
    echoed = {text for client in clients for text in client.echoed}
    for client in clients:
        counts = Counter(client.got)
        found += [f"{client.name} got {text} {times} times" for text, times in counts.items() if times > 1]
        since_ms = client.since_ms
        if since_ms is None:
            found.append(f"{client.name} never logged in")
            continue
        lost = [text for text in echoed if fleet.sent_ms[text] >= since_ms and not counts[text]]
        found += [f"{client.name} lacks {text}" for text in sorted(lost)]
        last = dict[str, int]()
        for text in client.got:
            sender, number = text.split(":")
            if int(number) < last.get(sender, 0):
                found.append(f"{client.name} got {text} after {sender}:{last[sender]}")
            last[sender] = max(last.get(sender, 0), int(number))
    return found
