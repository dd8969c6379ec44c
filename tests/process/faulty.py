"""`distkv` with faults on demand: a program, and how a server is made to run it.

Knows: how a function is made to fail while a file names it.  Does not know what becomes of the failure.

    python tests/process/faulty.py FILE MODULE:NAME... -- server a ...
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def program(flag: Path, places: Sequence[str]) -> tuple[str, ...]:
    """What is typed for `distkv`, so that each of `places` fails while `flag` says its name."""
    return (sys.executable, str(Path(__file__)), str(flag), *places, "--")


@contextmanager
def failing(flag: Path, place: str, needle: str = "") -> Iterator[None]:
    """`place` fails in the servers that look at `flag`, where what it is given has `needle` in its text."""
    new = flag.with_suffix(".new")
    new.write_text(f"{place}\n{needle}")
    new.rename(flag)
    try:
        yield
    finally:
        flag.unlink()


def _arm(flag: Path, place: str) -> None:
    module, _, path = place.partition(":")
    owner: Any = import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    setattr(owner, name, _faulty(getattr(owner, name), flag, place))


def _faulty(function: Callable[..., Any], flag: Path, place: str) -> Callable[..., Any]:
    def fail(*given: object) -> None:
        try:
            named, _, needle = flag.read_text().partition("\n")
        except FileNotFoundError:
            return
        if named == place and needle in repr(given):
            raise KeyError(f"injected into {place}")

    @wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        fail(*values, *named.values())
        return function(*values, **named)

    @wraps(function)
    async def wait(*values: Any, **named: Any) -> Any:
        fail(*values, *named.values())
        return await function(*values, **named)

    return wait if inspect.iscoroutinefunction(function) else call


def main() -> None:
    sys.path.insert(0, str(ROOT))
    end = sys.argv.index("--")
    flag, *places = sys.argv[1:end]
    for place in places:
        _arm(Path(flag), place)
    sys.argv[:] = ["distkv", *sys.argv[end + 1 :]]
    from distkv.__main__ import main as command

    command()


if __name__ == "__main__":
    main()
