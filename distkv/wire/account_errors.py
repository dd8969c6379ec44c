"""What the service of accounts refuses with, besides the errors that all know.

Knows: the code of each, and what it means.  Does not know who refuses.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import RequestError


class NameTakenError(RequestError):
    """Somebody has registered the name."""

    code = "name_taken"


class NoMajorityError(RequestError):
    """No majority of the token servers says what it knows of the name; nothing was changed."""

    code = "no_majority"


class WrongSecretError(RequestError):
    """There is no such account with this secret; it is not said which of the two is wrong."""

    code = "wrong_secret"


ERRORS: Final = (NameTakenError, NoMajorityError, WrongSecretError)
