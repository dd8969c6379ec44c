"""The commands of a group, each loaded when it is asked for: who reads a value does not wait for the simulator.

Knows: in which module each command is.  Does not know any of them.

Invariant: a name leads to one command, always the same; names are told without loading anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import asyncclick as click

from distkv.mount import parts


def shared_commands(group: str = "") -> dict[str, str]:
    """Where the commands are that services add to a group of `distkv client`, such as `account` to `activity`, which is
    written `activity account`; or to that itself."""
    found = [(*name.rpartition(" "), place) for part in parts("cli") for name, place in part.COMMANDS.items()]
    return {name: place for above, _, name, place in found if above == group}


class Commands(MutableMapping[str, click.Command]):
    """What a `click.Group` takes for its commands."""

    def __init__(self, places: Mapping[str, str], elsewhere: Mapping[str, str] | None = None) -> None:
        """Places are written MODULE:NAME, where MODULE is one of this package; `elsewhere` with the package."""
        self._places = {name: f"{__package__}.{place}" for name, place in places.items()} | dict(elsewhere or {})
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = self._load(*self._places[name].split(":"))
        return self._loaded[name]

    def _load(self, module: str, attribute: str) -> click.Command:
        try:
            found = getattr(import_module(module), attribute)
        except KeyboardInterrupt:
            raise click.Abort from None  # for which the library writes no empty line
        assert isinstance(found, click.Command)
        return found

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places.setdefault(name, "")
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
