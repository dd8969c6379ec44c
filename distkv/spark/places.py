"""Folders that Spark fills with files, for other programs.

Knows: when a folder may be filled.  Does not know what the files hold.

Invariant: a folder that has something in it is left as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from distkv.errors import SettingsError

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


def _is_url(place: str) -> bool:
    """Whether Spark alone knows what is there, as in hdfs://..."""
    return "://" in place


def _not_empty(place: str) -> SettingsError:
    return SettingsError(f"{place} is there already, and not empty: nothing was written; name another folder")
