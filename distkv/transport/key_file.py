"""The secret of a group, as people give it: written out, or the name of a file that holds it.

Knows: who may read the file.  Does not know what a key is for (`swim.keyring`).

Invariant: a file that others may read is refused; a change is there whole, or not at all; no message repeats a key.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from distkv.config import FILE
from distkv.errors import SettingsError
from distkv.swim.keyring import Keyring, keyring_text, parse_keyring

SIZE_MAX: Final = 4096


def read_keyring(secret: str, what: str) -> Keyring:
    """The keys of a secret: base64, or file:/PATH.

    Raises:
        SettingsError: it is neither, the file cannot be read, or others may read it.
    """
    if not secret.startswith(FILE):
        return parse_keyring(secret, what)
    path = Path(secret.removeprefix(FILE))
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IROTH | stat.S_IWOTH):
                raise SettingsError(f"{what}: all users may read or write {path}: change that with chmod o-rwx {path}")
            text = file.read(SIZE_MAX + 1).decode("ascii")
    except OSError as error:
        raise SettingsError(f"{what}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{what}: {path} holds no keys: write each as base64 on a line of its own") from None
    return parse_keyring(text, f"{what}: {path}")


def write_keyring(secret: str, keyring: Keyring) -> None:
    """Replace what the file holds; owner and mode stay. Blocks.

    Raises:
        OSError: it cannot be written; it holds what it held before.
    """
    path = Path(secret.removeprefix(FILE))
    before = path.stat()
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # another node of this host may write the same file
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(keyring_text(keyring))
            file.flush()
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            if (os.geteuid(), os.getegid()) != (before.st_uid, before.st_gid):
                os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fsync(descriptor)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
