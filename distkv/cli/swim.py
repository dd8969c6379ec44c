"""`distkv swim keygen`: a new secret for the transport swim.

Knows: its form.  Does not know what it seals.

Invariant: what is printed is random, and was nowhere before.
"""

from __future__ import annotations

import os

import asyncclick as click

from distkv.cli.session import Job
from distkv.config import SECRET_BYTES
from distkv.swim.keyring import Keyring, keyring_text


@click.group("swim")
def swim_group() -> None:
    """Make what nodes without an agent need."""


@swim_group.command("keygen")
def keygen_command() -> Job:
    """Print a new secret for cluster.secret, or for the file that it names."""
    return _keygen


def _keygen() -> None:
    print(keyring_text(Keyring((os.urandom(SECRET_BYTES),))), end="")
