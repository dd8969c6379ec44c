"""Break one rule of the protocol at a time and see that the simulator or a scenario notices it.

Run `python -m tests.mutants simulated`; it prints what killed each mutant, and how long that took.

Knows: for each rule the few words of source that carry it, what they become without it, and a seed that was seen to
notice.  No unit tests: what a mutant breaks must show in what the whole fleet does.

Invariant: a mutant counts as killed only when a seed *failed* in the changed copy, or a scenario had another trace;
words that are no longer there once, and a copy that cannot run, are errors.
"""

from __future__ import annotations

import json
import subprocess
import sys

from distkv.sim.topics.draft import FIRST_SEED
from tests.mutants.run import Mutant, MutantError, clean_environment, without
from tests.mutants.simulated_activity import SIMULATED_ACTIVITY
from tests.mutants.simulated_mutant import Simulated
from tests.mutants.simulated_topics import SIMULATED_TOPICS

SEEDS_MAX = 40
"""So many seeds, and its own, a mutant may survive before it counts as alive."""
TIMEOUT_S = 9000

RUNNER = """
import json, sys
from distkv.sim.draft import draw
from distkv.sim.player import play
from distkv.sim.run import BUGS, Verdict, run
from tests.scenarios.files import FILES, read

first, *seeds = json.loads(sys.argv[1])
files = [path for path in FILES if path.match(sys.argv[2])]
shown = [path for path in files if path.stem == sys.argv[3]]

def seed_fails(seed):
    outcome = run(draw(seed))
    return f"seed {seed}: {outcome.what}" if outcome.verdict is Verdict.FAILED else None

def scenario_fails(path):
    script = read(path)
    try:
        same = script.text(play(script).outputs) == path.read_text(encoding="utf-8")
    except BUGS as error:
        return f"scenario {path.stem}: {error!r}"
    return None if same else f"scenario {path.stem} has another trace"

found = None
for path in shown:
    found = scenario_fails(path)
found = found or seed_fails(first)
for path in files if found is None else ():
    found = found or scenario_fails(path)
for seed in seeds if found is None else ():
    found = found or seed_fails(seed)
print(json.dumps(found))
"""
"""Tries what is known to notice, then the scenarios, then other seeds; stops when one notices."""


def _of(name: str, rule: str, file: str, old: str, new: str, seed: int = 0) -> Simulated:
    return Simulated(Mutant(name, rule, file, old, new), seed)


SIMULATED = (
    # -- what a path holds
    _of(
        "superseded",
        "applying an event marks every other link of its chain (APPLY-4)",
        "model/tree.py",
        "        unseen = [other for other in older if ledger.hold(other)] if older else []\n",
        "        unseen: list[Link] = []\n",
    ),
    _of(
        "duplicate",
        "an event whose tick the ledger has is not applied (APPLY-3)",
        "model/tree.py",
        "        if not ledger.hold(event.link):\n",
        "        if not ledger.hold(event.link) and self.event(event.link) is not None:\n",
    ),
    _of(
        "loser-dropped",
        "what arrives and does not win is an open loser (OPEN-1)",
        "model/entry.py",
        "            (gone_now if closed else kept).append(event)\n",
        "            gone_now.append(event)\n",
    ),
    _of(
        "chain-ignored",
        "a chain supersedes what it names (CONTAIN-1)",
        "model/event.py",
        "        if other == node and known >= tick and known >> COUNT_BITS == life:\n",
        "        if other == node and life < 0:\n",
    ),
    _of(
        "chain-cut",
        "what a write closes is never cut from its chain (CHAIN-3)",
        "model/event.py",
        "room = max(length_max - 1, len(sources))",
        "room = length_max - 2",
    ),
    _of(
        "wall-clock",
        "no rule looks at the wall clock (CHAIN-4)",
        "model/event.py",
        "    if a.tock != b.tock:\n        return a.tock > b.tock\n",
        "    if a.time != b.time:\n        return a.time > b.time\n",
    ),
    _of(
        "tie-break",
        "equal tocks are decided alike everywhere (ORDER-2, ORDER-3)",
        "model/event.py",
        "return (event.fence, event.tock, event.kind is not Kind.EXPIRE, event.tick, name, value_hash(event))",
        "return (event.fence, event.tock, event.kind is not Kind.EXPIRE, 0, name[:0], b'')",
    ),
    _of(
        "known-losers",
        "what is known as superseded closes open losers (PULL-2)",
        "model/tree.py",
        "                    gone = entry.settle(None, (event.link,))\n",
        "                    gone = entry.settle(None)\n",
    ),
    _of(
        "decision-unnamed",
        "a decision names the open loser that it is about (OPEN-6)",
        "model/entry.py",
        "*(loser for loser in decided if loser in listed), ",
        "",
    ),
    _of(
        "decision-in-one-life",
        "who has another open loser there decides in a new life (OPEN-7)",
        "core/clients.py",
        "            node.follow([Duty.BEGIN_LIFE], turn)\n",
        "            pass\n",
        seed=7,
    ),
    # -- ticks and tocks
    _of(
        "tock-stands",
        "the tock grows with every change (TOCK-1)",
        "core/update.py",
        "        self.tock = Tock(self.tock + 1)\n        sources",
        "        sources",
    ),
    _of(
        "tick-reused",
        "a restart uses no tick twice (TICK-1)",
        "core/update.py",
        "own.tick = max(own.tick, event.tick)",
        "own.tick = own.tick",
    ),
    _of(
        "tock-reused",
        "a restart goes on above the ceiling of the tock (TOCK-2)",
        "core/update.py",
        "self.tock = max(self.tock, self._ceiling)",
        "self.tock = self.tock",
    ),
    _of(
        "known-forgotten",
        "a restart remembers what was known as superseded",
        "core/update.py",
        "                _, closed = self.learn_known(ranges)\n"
        "                return [event.path for event in closed]\n",
        "                return []\n",
    ),
    # -- downloads and pulls
    _of(
        "present-before-ledger",
        "a joiner holds what arrived, and not what its sponsor holds (SNAP-1)",
        "core/sponsor.py",
        "ticks, superseded = tree.ledger.ticks(), tree.superseded()",
        "ticks, superseded = tree.ledger.ticks(), tree.ledger.held()",
    ),
    _of(
        "sponsor-late",
        "a sponsor registers the joiner before it takes the snapshot (REG-2)",
        "core/sponsor.py",
        "        node.publish(store.register(name, life, what.addr, turn.wall), turn)\n",
        "",
    ),
    _of(
        "pull-known",
        "a peer says known only of what it holds (PULL-1)",
        "core/peers.py",
        "PullEnd(without(common(joined(ranges, asked.doubted), held), present), lacks)",
        "PullEnd(without(joined(ranges, asked.doubted), present), lacks)",
    ),
    _of(
        "pull-news",
        "with the word comes what the asker has not heard of (PULL-5)",
        "core/peers.py",
        "asked.ranges if asked.ticks is None else joined(asked.ranges, without(held, through(asked.ticks)))",
        "asked.ranges",
    ),
    _of(
        "pull-gaps",
        "a pull asks for all that is missing (PULL-1)",
        "core/node.py",
        "            what, left = self._pull(what.doubted)\n",
        "            what, left = attrs.evolve(self._pull(what.doubted)[0], ranges=what.ranges), frozenset()\n",
        seed=1,
    ),
    _of(
        "pull-no-room",
        "an answer without room for all calls nothing superseded (PULL-5)",
        "core/peers.py",
        "return events[:limit], PullEnd({}, lacks)",
        "events = events[:limit]",
    ),
    _of(
        "lost-forgotten",
        "what was given up as lost is asked for again (LOST-2)",
        "core/peers.py",
        "        missing = node.store.tree.ledger.missing()\n",
        "        missing = node.store.tree.ledger.missing(but_lost=True)\n",
    ),
    _of(
        "gaps-stay",
        "a gap is pulled from a peer (GAP-1)",
        "core/peers.py",
        "        elif recovery.is_idle and node.unexpected():\n            recovery.gap_seen(now_ms)\n",
        "",
    ),
    _of(
        "lacks-forgotten",
        "what all lack is given up (LOST-1)",
        "core/peers.py",
        "            turn.ready.records += node.store.mark_lost(recovery.lost(missing, node.store.others(), now_ms))\n",
        "            pass\n",
    ),
    # -- deletion
    _of(
        "purge-reports",
        "a tombstone stays until every registered node has reported (PURGE-1)",
        "core/ageing.py",
        "for name, registered in store.registry.nodes.items() if name != store.me}\n        is_alone",
        "for name, registered in store.registry.nodes.items() if recovery.is_alive(name, now_ms)}\n        is_alone",
        seed=3,
    ),
    _of(
        "purge-outlived",
        "each of them says that nothing there stands below the tombstone (PURGE-1)",
        "core/deletion.py",
        "                if all(link in report.outlived for report in reports if report is not None):\n",
        "                if link is not None:\n",
        seed=59,
    ),
    _of(
        "purge-needed",
        "and holds nothing that is not here (PURGE-2)",
        "core/deletion.py",
        "            report is not None and report.life == life and not report.needed\n",
        "            report is not None and report.life == life\n",
    ),
    _of(
        "purge-wait",
        "for which it waits (PURGE-2)",
        "core/deletion.py",
        "            self._next_ms = now_ms + GAP_MS  # the ticks are on their way\n            return []\n",
        "            pass\n",
    ),
    _of(
        "purge-life",
        "and speaks in the life that is registered (PURGE-2)",
        "core/deletion.py",
        "            report is not None and report.life == life and not report.needed\n",
        "            report is not None and not report.needed\n",
    ),
    _of(
        "purge-stale-reporter",
        "the word of a stale node does not count (PURGE-2)",
        "core/peers.py",
        "        if asked.why is Why.TOMBSTONES and not maps.is_stale:\n",
        "        if asked.why is Why.TOMBSTONES:\n",
    ),
    _of(
        "purge-stale-self",
        "a stale node purges nothing (PURGE-2)",
        "core/ageing.py",
        " or is_alone or store.own.is_stale:\n",
        " or is_alone:\n",
    ),
    _of(
        "purge-missing",
        "nor anybody while a tick is missing that the tombstone speaks of (PURGE-3)",
        "core/deletion.py",
        "        if book is None or (not book.is_whole and book.held.gaps(first_tick(life), tick + 1)):\n",
        "        if book is None:\n",
    ),
    # -- gossip
    _of(
        "digest-ignored",
        "a ping that shows another state starts an exchange (REC-3)",
        "core/gossip.py",
        "        node.recovery.differed(name, node.recovery.changed_ms, turn.now_ms)\n",
        "",
    ),
    _of(
        "networks-merge",
        "messages of another network are dropped (NET-2)",
        "core/gossip.py",
        "        if header.network is not None and network_id is not None and header.network != network_id:\n",
        "        if header.network is not None and network_id is not None and not header.network:\n",
    ),
    _of(
        "stranger-believed",
        "an update of a node that is not registered changes nothing (REG-6)",
        "core/gossip.py",
        "        if header.node not in node.store.registry.nodes:\n",
        "        if header.node == node.store.me:\n",
    ),
    _of(
        "tick-jump",
        "ticks far ahead are not believed from gossip (INFO-2)",
        "core/gossip.py",
        "    return tick <= last + TICKS_AHEAD\n",
        "    return tick >= last - TICKS_AHEAD\n",
        seed=1,
    ),
    _of(
        "take-over",
        "nodes of a chain take over in turn (REC-6)",
        "core/reconcile.py",
        "        return 0 if place == 0 else int((first + each * (place - 1)) * self.clock_ms)\n",
        "        return place * int(first * each)\n",
    ),
    _of(
        "turn-kept",
        "a node gives up its turn when another one of its chain has spoken (REC-8)",
        "core/reconcile.py",
        "        if name in self._side:\n            self.forget()\n",
        "",
    ),
    _of(
        "links-forgotten",
        "a chain is known by the last 64 links, too (PING-8)",
        "core/election.py",
        ".union(self._seen)\n",
        "\n",
    ),
    # -- old disks
    _of(
        "stale-believed",
        "nobody compares with an old disk (SYNC-1)",
        "core/comparison.py",
        "maps.state.is_serving and maps.is_stale == store.own.is_stale:",
        "maps.state.is_serving:",
        seed=81,
    ),
    _of(
        "stale-sponsor",
        "who downloads from an old disk has one (LIFE-18)",
        "core/download.py",
        "        node.follow(node.lives.downloading(is_stale=head.is_stale), turn)\n",
        "",
        seed=81,
    ),
    _of(
        "stale-forgotten",
        "a retired node that serves downloads what it shows otherwise (LIFE-10)",
        "core/lives.py",
        "retired[1] >= own.first_life",
        "retired[1] > own.life",
        seed=738,
    ),
    _of(
        "stood-in",
        "who hears that its name was given to somebody else marks its disk (NAME-5)",
        "core/lives.py",
        "        if self._stands_in(event):\n",
        "        if is_serving is None:\n",
    ),
    _of(
        "stood-in-below",
        "also when its own life is above that one (NAME-5)",
        "core/lives.py",
        "        return given.life > own.first_life and given.life != own.life\n",
        "        return given.life > own.first_life and given.life > (own.life or 0)\n",
    ),
    _of(
        "late-join",
        "who joined by a node whose life was over is doubted (NAME-11)",
        "core/late_joins.py",
        "        is_replaced = here is not None and here.life > life\n",
        "        is_replaced = here is None and life < 0\n",
    ),
    _of(
        "late-join-by-another",
        "and who joined by that one (NAME-12)",
        "core/late_joins.py",
        " or self.is_doubted(event.node, life)\n",
        "\n",
    ),
    _of(
        "late-join-forgotten",
        "also in a later life of its own (NAME-12)",
        "core/late_joins.py",
        "                self._keep(NodeName(name), given.life, turn)\n",
        "                self._keep(NodeName(name), None, turn)\n",
    ),
    _of(
        "sponsor-too-early",
        "who is not ready sponsors nobody (START-4)",
        "core/sponsor.py",
        "        if not node.is_serving:  # others",
        "        if node.is_serving < 0:  # others",
        seed=81,
    ),
    # -- start-up
    _of(
        "ready-left",
        "ready is left by a restart only (START-2)",
        "core/startup.py",
        "        if not self.hands_over:  # then the others",
        "        self.state = State.PASSIVE\n        if not self.hands_over:  # then the others",
    ),
    _of(
        "ready-unheard",
        "a node with data that hears nobody waits for a clock (START-8)",
        "core/startup.py",
        "        left_ms = hearing.left_ms(now_ms)\n",
        "        left_ms = min(0, now_ms)\n",
    ),
    _of(
        "ready-missing",
        "what was missing at the first exchange must come first (START-7)",
        "core/startup.py",
        "        if self._awaited.is_of_others and is_whole and not self.hands_over:\n",
        "        if self._awaited.is_of_others and not self.hands_over:\n",
    ),
    _of(
        "watch-shown-twice",
        "a watcher is told of no change that the state shows already (docs/client-protocol)",
        "services/telling.py",
        "        return part == len(self._positions) or seen.position <= self._positions[part]\n",
        "        return False\n",
        seed=20,
    ),
    _of(
        "watch-missed",
        "watchers are told how many changes their node missed (docs/client-protocol)",
        "engine/feeds.py",
        "            for feed in self.all():\n                feed.offer(seen)\n",
        "            for feed in self.all():\n",
        seed=2,
    ),
    _of(
        "chain-unrecorded",
        "what a chain calls superseded before it came has a record, which watchers are told of (docs/architecture)",
        "core/node.py",
        "            if applied.unseen:\n",
        "            if applied.two_contents:\n",
        seed=26,
    ),
    _of(
        "watch-behind",
        "a watcher that fell behind begins anew (docs/client-protocol)",
        "engine/shared_queue.py",
        "        return self.next < self.queue.first\n",
        "        self.next = max(self.next, self.queue.first)\n        return False\n",
        seed=6,
    ),
    _of(
        "pings-stop",
        "where a node with data lives there is a ping (PING-12)",
        "core/election.py",
        "Phase.THINKING: 1.5,",
        "Phase.THINKING: 15.0,",
    ),
    # -- the server tree
    _of(
        "edge-overruns",
        "an edge whose other end takes nothing of what is said ends (TREE-11)",
        "core/server_tree/backlog.py",
        "if self._waiting[edge] > ITEMS_MAX:",
        "if self._waiting[edge] > 9 * ITEMS_MAX:",
        seed=9,
    ),
    _of(
        "frames-of-the-retired",
        "what a node said before it was retired is not taken again when it is back (TREE-18)",
        "core/server_tree/flood.py",
        "        for way in self._ways.values():\n            for origin in",
        "        self._last.clear()\n        for way in self._ways.values():\n            for origin in",
        seed=29,
    ),
    _of(
        "past-untold",
        "what was said without an edge waits for the next one (TREE-12)",
        "core/server_tree/flood.py",
        "        self._ways[edge] = _Way(dict(have), since_ms, self._first, self._tells_gone)\n",
        "        self._ways[edge] = _Way(dict(have), since_ms, self._first + len(self._kept), False)\n",
        seed=16,
    ),
    # -- the order of a Ready, which the simulated process and the driver have from one executor
    _of(
        "outbox-early",
        "a message leaves when what was decided before it is durable (docs/architecture)",
        "engine/executor.py",
        "while outbox and outbox[0][0] <= log.durable:",
        "while outbox and outbox[0][0] <= log.appended:",
    ),
    _of(
        "outbox-backwards",
        "messages leave in the order in which they were emitted",
        "engine/executor.py",
        "self._leave(outbox.popleft()[1])",
        "self._leave(outbox.pop()[1])",
    ),
    _of(
        "announcement-forgotten",
        "what a full outbox dropped is announced (UPD-1)",
        "engine/executor.py",
        "            self._must_announce = True\n",
        "",
        seed=144,
    ),
    _of(
        "reply-early",
        "what waits for the disk is done when it has followed",
        "engine/executor.py",
        "while waiting and waiting[0][0] <= log.durable:",
        "while waiting and waiting[0][0] <= log.appended:",
    ),
    _of(
        "ask-early",
        "an ask leaves when what it shows is durable (docs/architecture)",
        "sim/conversation.py",
        "        asker.when_durable(lambda: self._travel(lambda: self._arrive(request, size)))",
        "        self._travel(lambda: self._arrive(request, size))",
    ),
    _of(
        "answer-early",
        "a part of an answer leaves when what it shows is durable (docs/architecture)",
        "sim/conversation.py",
        "        peer.when_durable(lambda: self._travel(",
        "        (lambda do: do())(lambda: self._travel(",
    ),
    *SIMULATED_ACTIVITY,
    *SIMULATED_TOPICS,
)


def killer(simulated: Simulated, *, scenarios: str = "*.txt", is_soaking: bool = False) -> str | None:
    """The seed or scenario that notices, in words; None when none does. Without `is_soaking` its own seed is the only
    one. `scenarios`: the files that are tried.

    Raises:
        MutantError: its words are not there once, or the copy does not run.
    """
    with without(simulated.mutant) as root:
        begin = simulated.seed - simulated.seed % FIRST_SEED  # seeds of each service begin at a multiple
        seeds = list(dict.fromkeys([simulated.seed, *(range(begin, begin + SEEDS_MAX) if is_soaking else ())]))
        command = [sys.executable, "-c", RUNNER, json.dumps(seeds), scenarios, simulated.scenario]
        env = clean_environment(root)
        try:
            done = subprocess.run(
                command, cwd=root, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise MutantError(f"the seeds took longer than {TIMEOUT_S} s") from None
        if done.returncode:
            raise MutantError(f"the seeds could not be run:\n{done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        return None if found is None else str(found)
