"""What a user says of tokens, checked.

Knows: how a token and a session are written.  Does not know what is asked about them.
"""

from __future__ import annotations

from distkv.client.arguments import shown
from distkv.errors import DecodeError, RequestError
from distkv.model.fence import TOKEN_BYTES_MAX, is_token_name
from distkv.wire.token_fields import read_session


def as_token(name: object) -> str:
    """The name of a token."""
    if type(name) is not str or not is_token_name(name):
        most = f"1 to {TOKEN_BYTES_MAX} bytes, without control characters"
        what = f"has {len(name.encode(errors='replace'))} bytes" if isinstance(name, str) else f"is {shown(name)}"
        raise RequestError(f"the name of the token {what}: give text of {most}")
    return name


def as_session(session: object) -> str:
    """What `token_open` gave."""
    try:
        return read_session(session)
    except DecodeError:
        raise RequestError(f"the session is {shown(session)}: give it as 'token acquire' printed it") from None
