"""What a node that is followed does, where only the machine of the follower is there."""

from __future__ import annotations

from distkv.core.following import Following


def answer(following: Following, follow: int) -> None:
    """The peer answers, and has told all that it held."""
    following.began(follow)
    following.told(follow, {})
