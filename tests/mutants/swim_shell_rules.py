"""Mutants of what carries out the membership machine: its socket, its time, its files, and what it hears of links."""

from __future__ import annotations

from tests.mutants.broken import broken

GROUP = ("tests/node/test_swim_group.py",)
DATAGRAMS = ("tests/node/test_swim_datagrams.py",)
NOTICING = ("tests/node/test_noticing.py",)
KEYS = ("tests/node/test_swim_key_file.py",)
PEERS = ("tests/node/test_swim_peers_file.py",)

SWIM_SHELL_RULES = (
    # Sockets
    broken(
        "answer-from-any-address",
        "an answer leaves from the address that was asked",
        "transport/datagrams.py",
        "        asked = self._asked.get(address)\n",
        "        asked = None\n",
        *DATAGRAMS,
    ),
    broken(
        "drops-told-twice",
        "datagrams for which the kernel had no room are told once",
        "transport/datagrams.py",
        "        before, self._told = self._told, self._overflowed\n",
        "        before = self._told\n",
        *DATAGRAMS,
    ),
    broken(
        "long-datagram-cut-to-fit",
        "a datagram that is too long is seen to be",
        "transport/datagrams.py",
        "recvmsg(DATAGRAM_BYTES_MAX + 1,",
        "recvmsg(DATAGRAM_BYTES_MAX,",
        *DATAGRAMS,
    ),
    # Time
    broken(
        "time-before-what-came",
        "what can be read is handed in before time is",
        "transport/group.py",
        "                self._take_what_is_there()\n                self.step(Woke())\n\n    async def _wait",
        "                self.step(Woke())\n\n    async def _wait",
        *GROUP,
    ),
    broken(
        "earlier-wake-missed",
        "a machine that wants to be woken sooner is",
        "transport/group.py",
        "            self._rewind.set()\n",
        "            pass\n",
        *GROUP,
    ),
    # Files
    broken(
        "open-secret-taken",
        "a file of keys that all may read is refused",
        "transport/key_file.py",
        "(stat.S_IROTH | stat.S_IWOTH)",
        "stat.S_IWOTH",
        *KEYS,
    ),
    broken(
        "negative-generation-believed",
        "a peers file with what no node wrote is none",
        "transport/peers_file.py",
        "not 0 <= generation <= GENERATION_MAX",
        "not generation <= GENERATION_MAX",
        *PEERS,
    ),
    # Links
    broken(
        "link-told-too-often",
        "that a node is well is told at most once a second",
        "engine/noticing.py",
        "        self._told_s[name] = now_s + EVERY_S\n",
        "        self._told_s[name] = now_s\n",
        *NOTICING,
    ),
    broken(
        "broken-link-not-told",
        "a link that breaks is told at once",
        "engine/noticing.py",
        "            self._transport.noticed(name, is_well=False)\n",
        "            pass\n",
        *NOTICING,
    ),
    broken(
        "silence-logged-once",
        "that nobody answers is logged again each minute",
        "transport/swim.py",
        "    while why := silence():\n",
        "    if why := silence():\n",
        "tests/node/test_swim_silence.py",
    ),
)
