"""A value in one argument of the command line, or in one cell of a file (docs/shell.rst, Values).

Knows: which texts are numbers, collections or text, and which are refused because they could be meant in two ways.
Does not know where the text stands, nor what is done with the value.

Invariant: what comes out is what a user sees written; nothing is a value by accident (a date, a comment).
"""

from __future__ import annotations

from typing import Final

from distkv.errors import BadValueError
from distkv.text.schema import YamlError, scalar

_COLLECTIONS: Final = "[{\"'"
_MARKS: Final = "&*!"


def read_argument(text: str, quoting: str) -> object:
    """A scalar or flow collection of YAML 1.2, None for its null; whatever is neither is text as it stands.

    Args:
        text: what stands there.
        quoting: what to do so that all is text, as in "add -s or quote it"; for the message.

    Raises:
        BadValueError: anchors, tags, a collection or quoted text that does not end well.
    """
    begin = text.lstrip()[:1]
    if not begin:
        return text
    if begin in _MARKS:
        raise BadValueError(
            f"{text[:40]!r} begins like an anchor, an alias or a tag: for the text, {quoting}"
        )
    try:
        found = _read_yaml(text) if begin in _COLLECTIONS else scalar(text.strip())
    except YamlError as error:
        raise BadValueError(f"{text[:40]!r} cannot be read ({error}): for the text, {quoting}") from None
    return text if isinstance(found, str) and begin not in _COLLECTIONS else found


def _read_yaml(text: str) -> object:
    from distkv.text import yaml  # it takes longer to load than all the rest, and few values need it

    return yaml.plain(yaml.read(text))
