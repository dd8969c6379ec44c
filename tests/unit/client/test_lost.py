"""What a client makes of answers that say that something is lost."""

from __future__ import annotations

import pytest

from distkv.client.names import Listed, NameListing
from distkv.client.watch import Lost, Watching
from distkv.errors import DamagedError
from distkv.model.path import Path
from distkv.wire.replies import decode_reply, encode_names
from distkv.wire.watch import encode_lost


def listed(lost: DamagedError | None) -> tuple[Listed, ...]:
    """What the list of these names is."""
    listing = NameListing("a")
    assert listing.question is not None
    listing.add(listing.question.read(decode_reply(encode_names(5, [("x", True, 2)], None, lost))))
    return listing.result()


def test_list_that_lacks_names_is_an_error_that_has_the_others() -> None:
    with pytest.raises(DamagedError, match="not all is here") as found:
        listed(DamagedError("not all is here"))
    assert found.value.found == (Listed("x", True, 2),)


def test_list_without_losses_is_a_list() -> None:
    assert listed(None) == (Listed("x", True, 2),)


@pytest.mark.parametrize("path", [None, Path(["a", 7])])
def test_watch_is_told_what_is_lost(path: Path | None) -> None:
    watching = Watching("a", fetch=True, since=None, min_depth=0, max_depth=None)
    assert watching.question().read(decode_reply(encode_lost(path))) == Lost(path)
