"""Who logs in to the activity network, as options of its commands say it.

Knows: the options, and where a secret is read.  Does not know what is done with it.

Invariant: no secret stands on a command line, nor in what is printed.
"""

from __future__ import annotations

from pathlib import Path

import asyncclick as click

from distkv.cli.input import STDIN, standard_input
from distkv.cli.session import Decorated
from distkv.errors import SettingsError
from distkv.wire.activity_lines import ANONYMOUS, SECRET_BYTES_MAX

USER = click.option("--user", metavar="USER", default=ANONYMOUS, help="Who logs in. [default: anonymous]")
SECRET = click.option("--secret-file", metavar="FILE", help="Its first line is the secret of the user. '-' is stdin.")


def user_options(command: Decorated) -> Decorated:
    """--user and --secret-file."""
    return USER(SECRET(command))


def read_user(user: str, secret_file: str | None) -> tuple[str, str | None]:
    """Who logs in, and the secret.

    Raises:
        SettingsError: the secret is missing, or cannot be read.
    """
    if user == ANONYMOUS:
        return user, None
    if secret_file is None:
        raise SettingsError(f"{user} needs a secret: name the file that holds it with --secret-file")
    return user, read_secret(secret_file)


def read_secret(file: str) -> str:
    """The first line of a file.

    Raises:
        SettingsError: it cannot be read, or is no secret.
    """
    try:
        data = standard_input("secret").readline() if file == STDIN else Path(file).read_bytes()
        text = data.decode().partition("\n")[0].removesuffix("\r")
    except OSError as error:
        raise SettingsError(f"--secret-file: {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"--secret-file: {file} is not UTF-8 text") from None
    if not 0 < len(text.encode()) <= SECRET_BYTES_MAX:
        raise SettingsError(f"--secret-file: the first line of {file} must have 1 to {SECRET_BYTES_MAX} bytes")
    return text
