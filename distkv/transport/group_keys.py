"""The keys of a group on one node: in the file that holds its secret, and in the machine.

Knows: when the file is written, and read again.  Does not know how keys change (`swim.key_changes`), nor who asks.

Invariant: the machine keeps keys only after the file has them. No line of the log holds a key.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping
from typing import Final, assert_never

import trio

from distkv.config import FILE
from distkv.errors import SettingsError
from distkv.swim.inputs import ChangeKeys, KeysChanged, KeysKept, KeysRefused
from distkv.swim.keyring import Keyring
from distkv.swim.machine import SwimMachine
from distkv.transport.group import Group
from distkv.transport.key_file import read_keyring, write_keyring
from distkv.wire.swim_records import KeyAction, MemberState

log = logging.getLogger("distkv.engine")

AWAY: Final = "this node takes no part in the group right now: try again"


class GroupKeys:
    """The `KeyDesk` of one node."""

    def __init__(self, machine: SwimMachine, secret: str | None) -> None:
        """`secret`: `cluster.secret`."""
        self._machine: Final = machine
        self._path = secret if secret is not None and secret.startswith(FILE) else None
        self._group: Group | None = None
        self._wanted: Keyring | None = None
        self._news = trio.Event()
        self._refusal = ""

    def keys(self) -> Mapping[str, tuple[bytes, ...]]:
        """See `KeyDesk.keys`."""
        live = (MemberState.ALIVE, MemberState.SUSPECT)
        return {member.node: member.keys for member in self._machine.members() if member.state in live}

    def change(self, action: KeyAction, key: bytes) -> str:
        """See `KeyDesk.change`."""
        if self._group is None:
            return AWAY
        self._refusal = ""
        self._group.step(ChangeKeys(action, key))
        return self._refusal

    def take(self, report: KeysChanged | KeysRefused) -> None:
        """The machine wants it."""
        match report:
            case KeysChanged(keys=keys):
                self._wanted = Keyring(keys)
                self._news.set()
            case KeysRefused(text=text):
                self._refusal = text
            case _:
                assert_never(report)

    async def run(self, group: Group) -> None:
        """Write the file when keys change, and read it when a signal comes, until cancelled."""
        self._group = group
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, group)
                if self._path is not None:
                    nursery.start_soon(self._read, group, self._path)
        finally:
            self._group = None

    async def _write(self, group: Group) -> None:
        while True:
            await self._news.wait()
            self._news = trio.Event()
            wanted, self._wanted = self._wanted, None
            if wanted is None or self._path is None:
                continue
            try:
                await trio.to_thread.run_sync(write_keyring, self._path, wanted)
            except (OSError, RuntimeError) as error:  # also a lack of threads
                log.warning("keys_not_written path=%s reason=%s", self._path.removeprefix(FILE), error)
                continue
            group.step(KeysKept(wanted))
            log.info("keys_changed ids=%s", ",".join([one.hex() for one in wanted.ids]))

    async def _read(self, group: Group, path: str) -> None:
        with trio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                try:
                    found = await trio.to_thread.run_sync(read_keyring, path, "cluster.secret")
                except (SettingsError, RuntimeError) as error:
                    log.warning("keys_not_read: %s", error)
                    continue
                group.step(KeysKept(found, is_by_hand=True))
                log.info("keys_read ids=%s", ",".join([one.hex() for one in found.ids]))
