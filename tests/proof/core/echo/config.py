"""The settings of the echo.

Knows: what can be set.  Does not know where a setting comes from.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.errors import SettingsError

LENGTH_MAX: Final = 64


@attrs.frozen
class EchoConfig:
    """The echo."""

    length: int = attrs.field(default=0)
    """How long an echo is; 0: there is none. The same on all nodes."""

    @length.validator
    def _check_length(self, _: object, value: int) -> None:
        if not 0 <= value <= LENGTH_MAX:
            raise SettingsError(f"echo.length is {value}: it must be 0 to {LENGTH_MAX}")


SECTIONS: Final = ((EchoConfig, "echo"),)
