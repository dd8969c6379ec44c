"""Mutants of the ground that services stand on."""

from __future__ import annotations

from tests.mutants.broken import broken

_GROUND = "tests/unit/core/test_ground.py"
_SERVICES = "tests/unit/core/test_services.py"
_ASKS = "tests/unit/core/test_own_asks.py"

GROUNDS = (
    broken(
        "asked-before-it-began",
        "a machine is never given an input before it began",
        "core/ground/services.py",
        "                self._begin(mounted, turn)\n",
        "                self._begin(mounted, turn)\n                self._carry_out_own(mounted, turn)\n",
        _ASKS,
    ),
    broken(
        "asker-does-not-wait",
        "what follows from a step of another service waits for what that kept",
        "core/ground/services.py",
        "        taken.always_waits = always_waits\n",
        "",
        _ASKS,
    ),
    broken(
        "asks-without-bound",
        "services that ask each other in a circle come to an end",
        "core/ground/requests.py",
        "        if count >= ASKS_MAX:",
        "        if count < 0:",
        _ASKS,
    ),
    broken(
        "reply-after-withdrawal",
        "nothing is replied to what was withdrawn",
        "core/ground/requests.py",
        "        self._keep(lambda one: not (one.service == asker and _is_reply(one.what, what.purpose)))\n",
        "",
        _ASKS,
    ),
    broken(
        "steps-without-end",
        "a service that asks again for ever goes on a moment later",
        "core/ground/services.py",
        "                requests.again_ms = turn.boot_ms + 1\n",
        "",
        _ASKS,
    ),
    broken(
        "half-a-step",
        "of a step that fails nothing is done",
        "core/ground/services.py",
        "            self._turn_off(mounted.name, fault, turn)\n            return\n",
        "            self._turn_off(mounted.name, fault, turn)\n",
        _SERVICES,
    ),
    broken(
        "failed-and-asked",
        "who asks a service that failed is told so",
        "core/ground/services.py",
        "        self._failed.add(name)\n",
        "",
        _SERVICES,
    ),
    broken(
        "void-slots-of-the-ground",
        "no machine sees what the ground keeps",
        "core/ground/services.py",
        "slots.pop(BOOT_SLOT, None)",
        "slots.get(BOOT_SLOT, None)",
        _GROUND,
    ),
    broken(
        "same-start-again",
        "each start of a node that asks has a higher number",
        "core/ground/node_calls.py",
        "max(int(kept) + 1, first)",
        "max(int(kept), first)",
        _GROUND,
    ),
    broken(
        "start-not-kept",
        "the number of a start is kept before anybody hears it",
        "core/ground/node_calls.py",
        '            self._turn.keep(BOOT_SLOT, b"%d" % self._boot)\n',
        "",
        _GROUND,
    ),
    broken(
        "no-room-kept",
        "what is under way to a node has a bound",
        "core/ground/node_calls.py",
        "while some and under_way + len(some[0].frames[0]) <= UNDER_WAY_BYTES:",
        "while some:",
        _GROUND,
    ),
    broken(
        "patience-without-end",
        "a question ends when its patience is over",
        "core/ground/node_calls.py",
        "            if asked.give_up_ms <= now_ms:\n",
        "            if asked.give_up_ms < 0:\n",
        _GROUND,
    ),
    broken(
        "parts-of-nobody",
        "parts of which the other side knows nothing are said again",
        "core/ground/call_parts.py",
        "        if kept is None or index > len(kept.chunks):\n            return GONE\n",
        "        if kept is None:\n            return CAME\n",
        _GROUND,
    ),
    broken(
        "parts-for-ever",
        "what nobody asks about for long is forgotten",
        "core/ground/call_parts.py",
        "if kept.until_ms <= now_ms]:",
        "if kept.until_ms < 0]:",
        _GROUND,
    ),
    broken(
        "deaf-to-entries",
        "a service is told which of its entries changed",
        "core/registry.py",
        "                        self.service_changes[service, key] = None\n",
        "                        pass\n",
        _GROUND,
    ),
    broken(
        "nodes-of-before",
        "who seems alive is looked at again",
        "core/ground/seen_nodes.py",
        "        return before != (self.registered, self.alive)\n",
        "        return False\n",
        _GROUND,
    ),
)
