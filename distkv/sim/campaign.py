"""Many seeds on several processors, and what they reached together.

Knows: how seeds are spread and summed up.  Does not know what one run does.

Invariant: each seed is run once, and the sum does not depend on how many processes shared the work. Who is interrupted
leaves no process behind.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from multiprocessing import active_children, get_context, parent_process
from threading import Thread

import attrs

from distkv.sim.draft import draw
from distkv.sim.reached import NOT_LEGAL, SIGNS
from distkv.sim.run import Outcome, Verdict, run


@attrs.define
class Sum:
    """What many runs came to."""

    verdicts: Counter[Verdict] = attrs.field(factory=Counter)
    deliveries: int = 0
    virtual_ms: int = 0
    reached: Counter[str] = attrs.field(factory=Counter)
    """By how many seeds each sign was seen."""
    failed: list[Outcome] = attrs.field(factory=list)
    rejected: list[Outcome] = attrs.field(factory=list)

    def add(self, outcome: Outcome) -> None:
        self.verdicts[outcome.verdict] += 1
        self.deliveries += outcome.deliveries
        self.virtual_ms += outcome.virtual_ms
        self.reached.update(outcome.reached.keys())
        if outcome.verdict is Verdict.FAILED:
            self.failed.append(outcome)
        elif outcome.verdict is Verdict.REJECTED:
            self.rejected.append(outcome)

    def sort(self) -> None:
        """What is listed is in the order of the seeds, whichever was the first to end."""
        self.failed.sort(key=lambda outcome: outcome.seed)
        self.rejected.sort(key=lambda outcome: outcome.seed)

    @property
    def runs(self) -> int:
        return self.verdicts.total()

    def holes(self) -> list[str]:
        """The signs that no run showed, and should."""
        return [sign for sign in SIGNS if not self.reached[sign] and sign not in NOT_LEGAL]


@attrs.frozen
class _Runner:
    """Runs one seed, in whichever process."""

    off: frozenset[str]

    def __call__(self, seed: int) -> Outcome:
        gc.disable()  # a run fits into memory, and its fleet is garbage as a whole when it is over
        try:
            return run(draw(seed, self.off))
        finally:
            gc.enable()
            gc.collect()


def campaign(
    seeds: Iterable[int], jobs: int = 1, off: Collection[str] = (), tell: Callable[[Sum], object] = lambda _: None
) -> Sum:
    """Run all seeds, also when some fail; `tell` hears the sum after each."""
    found = Sum()
    with closing(_outcomes(list(seeds), jobs, _Runner(frozenset(off)))) as outcomes:
        for outcome in outcomes:
            found.add(outcome)
            tell(found)
    found.sort()
    return found


def _begin_worker() -> None:
    gc.freeze()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Who commands the workers may be killed: then nobody tells them to end, and they would wait for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _outcomes(seeds: list[int], jobs: int, runner: _Runner) -> Generator[Outcome]:
    """What became of each, as it ends."""
    if jobs == 1:
        yield from map(runner, seeds)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin_worker) as pool:
        # Ctrl-C reaches all of them: what they begin with here is deaf to it.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            ending = as_completed([pool.submit(runner, seed) for seed in seeds])
        finally:
            signal.signal(signal.SIGINT, before)
        try:
            for one in ending:
                yield one.result()
        except BaseException:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing from here on takes long
            for worker in active_children():
                worker.kill()
            raise
