"""Many clients of the activity network in a program of its own (`packaging/bench/crowd.c`), and a judge of its story.

Knows: what the lines of the program mean, and what is promised to whom.  Does not know what a test does to the servers.
"""

from __future__ import annotations

import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs
from bench.load import compiled

from tests.process.servers import wait_until

MOVES_MAX: Final = 5
"""So many clients a node may send on in a second, but for logins."""
HOPS_MAX: Final = 3
QUIET_S: Final = 120.0
LOOKS: Final = 12
"""So often nothing more must have come."""

Ranges = list[tuple[int, int]]


@attrs.define
class CrowdStory:
    """What the program wrote down."""

    told: dict[tuple[int, int], dict[str, Ranges]] = attrs.field(factory=lambda: defaultdict(lambda: defaultdict(list)))
    """Of each client and, of one that does not resume, each connection: by streams what it was told, in its order."""
    echoed: dict[str, Ranges] = attrs.field(factory=lambda: defaultdict(list))
    again: list[str] = attrs.field(factory=list)
    gaps: list[str] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)
    lost: int = 0
    moves: Counter[tuple[int, int]] = attrs.field(factory=Counter)
    """Of each port and second, how many clients were sent on that were there for a while."""
    hops: int = 0
    late_ms: dict[str, int] = attrs.field(factory=dict)

    def take(self, line: str) -> None:
        what, *words = line.split()
        match what:
            case "got":
                client, connection, stream, first, last = words
                self.told[int(client), int(connection)][stream].append((int(first), int(last)))
            case "echo":
                self.echoed[words[0]].append((int(words[1]), int(words[2])))
            case "move" if words[4] == "0":
                self.moves[int(words[3]), int(words[2]) // 1000] += 1
            case "hops":
                self.hops = max(self.hops, int(words[1]))
            case "late":
                self.late_ms[words[1]] = int(words[0])
            case "lost":
                self.lost += 1
            case "again" | "gap" | "refused":
                {"again": self.again, "gap": self.gaps, "refused": self.refused}[what].append(line.strip())
            case _:
                pass

    @property
    def echoes(self) -> int:
        return sum(last - first + 1 for some in self.echoed.values() for first, last in some)

    def summary(self) -> str:
        """For people."""
        late = ", ".join(f"{part} within {ms} ms" for part, ms in self.late_ms.items())
        counts = f"{self.echoes} echoes, {self.lost} lost connections, {self.hops} hops"
        ends = f"{len(self.gaps)} gaps {self.gaps[:9]}; {len(self.refused)} refused {self.refused[:9]}"
        return f"{counts}; {late}; {ends}"

    def wrong(self) -> list[str]:
        """What is not as it was promised, of deliveries."""
        found = [f"told twice: {line}" for line in self.again]
        if not self.echoed:
            found.append("nothing was echoed")
        for (client, connection), streams in self.told.items():
            who = f"client {client}.{connection}"
            for stream, ranges in streams.items():
                if any(first <= last for (_, last), (first, _) in pairwise(ranges)):
                    found.append(f"{who} was told those of {stream} twice or in another order: {ranges}")
            for stream, echoed in self.echoed.items():
                ranges = streams.get(stream, [])
                if self.resumes(client):
                    lacking = _without(echoed, ranges)
                else:
                    lacking = _without(_between(echoed, ranges), ranges)
                if lacking:
                    found.append(f"{who} was not told {lacking} of {stream}; {ranges}")
        return found

    def crowded_moves(self, but: Sequence[int] = ()) -> Mapping[tuple[int, int], int]:
        """Where and when too many clients were sent on at once; `but`: nodes that ended in order."""
        return {(port, s): count for (port, s), count in self.moves.items() if count > MOVES_MAX and port not in but}

    @staticmethod
    def resumes(client: int) -> bool:
        """As `crowd.c` has it."""
        return client % 5 != 3


def _between(wanted: Ranges, told: Ranges) -> Ranges:
    """That of it which is not before the first, nor behind the last."""
    if not told:
        return []
    low, high = told[0][0], told[-1][1]
    return [(max(low, first), min(high, last)) for first, last in wanted if last >= low and first <= high]


def _without(wanted: Ranges, told: Ranges) -> Ranges:
    """What is in the first, and not in the second; each is in order."""
    found, at = Ranges(), 0
    for first, last in wanted:
        next_ = first
        while next_ <= last:
            while at < len(told) and told[at][1] < next_:
                at += 1
            if at == len(told) or told[at][0] > last:
                found.append((next_, last))
                break
            if told[at][0] > next_:
                found.append((next_, told[at][0] - 1))
            next_ = told[at][1] + 1
    return found


class CrowdProgram:
    """One that runs."""

    def __init__(self, process: subprocess.Popen[str], clients: int, file: Path) -> None:
        self._process: Final = process
        self._clients: Final = clients
        self._file: Final = file
        self.logged_in = self.got = self.echoes = 0
        self._reader: Final = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def wait_in(self, deadline_s: float = 60.0) -> None:
        """Until all are logged in."""
        wait_until(lambda: self.logged_in == self._clients or self._is_over, "all are logged in", deadline_s)
        assert not self._is_over

    def wait_echoes(self, count: int, deadline_s: float = 120.0) -> None:
        """Until so many more were echoed."""
        wanted = self.echoes + count
        wait_until(lambda: self.echoes >= wanted or self._is_over, f"{count} more echoes", deadline_s)
        assert not self._is_over

    def end(self) -> CrowdStory:
        """Nobody sends any more; when nothing more comes, what it wrote down."""
        self.say("rest")
        got, looks = -1, 0

        def is_quiet() -> bool:
            nonlocal got, looks
            looks = looks + 1 if (self.got, self.logged_in) == (got, self._clients) else 0
            got = self.got
            return looks > LOOKS or self._is_over

        wait_until(is_quiet, "nothing more comes", QUIET_S, pause_s=0.5)
        self.say("quit")
        assert self._process.wait(60) == 0, self._process.stderr and self._process.stderr.read()
        story = CrowdStory()
        with self._file.open() as lines:
            for line in lines:
                story.take(line)
        return story

    def close(self) -> None:
        """End it, at once if it still runs."""
        self._process.kill()
        self._reader.join()

    @property
    def _is_over(self) -> bool:
        return self._process.poll() is not None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            _, self.logged_in, self.got, self.echoes = map(int, line.split())


@contextmanager
def open_program(
    directory: Path, ports: Sequence[int], clients: int, senders: int, rate: int
) -> Iterator[CrowdProgram]:
    """It, with clients that log in at these ports."""
    program, file = compiled("crowd", directory), directory / "story"
    words = [str(program), str(clients), str(senders), str(rate), ",".join(map(str, ports)), str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        crowd = CrowdProgram(process, clients, file)
        try:
            yield crowd
        finally:
            crowd.close()
