"""Where results go: folders that Spark fills with files, and single files.

Knows: when a folder may be filled, and a file replaced.  Does not know what the files hold.

Invariant: a folder that has something in it is left as it is; a single file is the new one as a whole, or the old one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from distkv.errors import NoSpaceError, RequestError, SettingsError, StorageFailedError
from distkv.spark.table.folder import SCARCE_ERRNOS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_empty(place: str) -> None:
    """Whether a folder may be filled, as far as that can be seen from here.

    Raises:
        SettingsError: it has something in it, or is none.
    """
    if _is_url(place):
        return
    try:
        is_empty = not os.listdir(place)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SettingsError(f"{place}: {error.strerror}: name a folder that is empty or missing") from None
    if not is_empty:
        raise _not_empty(place)


def save(frame: DataFrame, place: str, form: str, options: Mapping[str, str]) -> None:
    """Write files of a form that Spark knows into a folder, which `check_empty` let pass.

    Raises:
        SettingsError: it has something in it.
    """
    from pyspark.errors import AnalysisException

    # A folder of this machine was looked at, and may be there, empty; of others Spark knows.
    mode = "errorifexists" if _is_url(place) else "append"
    where = place if _is_url(place) else os.path.abspath(place)
    try:
        frame.write.format(form).options(**options).mode(mode).save(where)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise _not_empty(place) from error


def writable_file(file: str) -> str:
    """The absolute name of a file that may be written; what a link leads to. Looked at before any work is done.

    Raises:
        RequestError: it may not.
    """
    place = os.path.realpath(file)
    folder = os.path.dirname(place)
    if not os.path.isdir(folder):
        raise RequestError(f"there is no folder {folder}: make it, or name another file")
    if os.path.exists(place) and not os.path.isfile(place):
        raise RequestError(f"{place} is no file: name one")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RequestError(f"{folder} cannot be written to: name a file in another folder")
    return place


def replace_file(place: str, chunks: Iterable[bytes]) -> None:
    """Put a whole file where there was another one, or none; `place` is from `writable_file`.

    Raises:
        NoSpaceError, StorageFailedError: the disk did not take it, and what was there before is there still.
    """
    new = os.path.join(os.path.dirname(place), f".distkv-{os.getpid()}.new")  # nobody else's name
    try:
        with open(new, "wb") as opened:
            opened.writelines(chunks)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(new, place)
    except OSError as error:
        with suppress(OSError):
            os.unlink(new)
        why = f"{place} was not written ({error.strerror or error}), and is as before"
        if error.errno in SCARCE_ERRNOS:
            raise NoSpaceError(f"{why}: make space, or name a file on another disk") from error
        raise StorageFailedError(f"{why}: see to the disk, or name a file on another one") from error


def _is_url(place: str) -> bool:
    """Whether Spark alone knows what is there, as in hdfs://..."""
    return "://" in place


def _not_empty(place: str) -> SettingsError:
    return SettingsError(f"{place} is there already, and not empty: nothing was written; name another folder")
