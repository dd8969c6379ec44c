"""What `distkv doctor` sees of accounts, and what it makes of that.

Knows: what a node shows of accounts, and what is well.  Does not know how nodes are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from distkv.doctor.facts import Finding, Level, NodeFacts
from distkv.doctor.services import Checkup
from distkv.doctor.wording import counted
from distkv.wire.fields import read_int

ACCOUNTS: Final = "accounts"
SERVERS: Final = "tokens.servers"
"""The setting that names those who serve tokens."""


@attrs.frozen
class AccountFacts:
    """What a node shows of accounts."""

    accounts: int = 0
    """Names that are taken."""
    doubled: int = 0
    """Those that were registered twice."""


def read(shown: Mapping[str, object]) -> AccountFacts:
    """What the state of a node says.

    Raises:
        DecodeError: it cannot be meant.
    """
    return AccountFacts(**{name: read_int(shown, name) for name in ("accounts", "doubled") if name in shown})


def check(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether somebody can register, and each name has one owner."""
    found = [facts for node in nodes if isinstance(facts := node.services.get(ACCOUNTS), AccountFacts)]
    accounts = max((facts.accounts for facts in found), default=0)
    doubled = max((facts.doubled for facts in found), default=0)
    has_tokens = any(node.settings.get(SERVERS) for node in nodes)
    has_listeners = any(node.services.get("activity") is not None for node in nodes)
    if not accounts and not has_listeners:
        return
    if not has_tokens:
        says = f"{counted(accounts, 'account')}, and no token servers: nobody can register"
        yield Finding(ACCOUNTS, Level.WARN, says, f"name the servers in the setting {SERVERS}")
    if doubled:
        says = f"{counted(doubled, 'user name')} registered twice, because token servers lost their disks"
        yield Finding(ACCOUNTS, Level.WARN, says, "see 'distkv client activity account list', and remove what is wrong")
    if accounts and has_tokens and not doubled:
        yield Finding(ACCOUNTS, Level.OK, counted(accounts, "account"))


CHECKUP: Final = Checkup(ACCOUNTS, read, check)
