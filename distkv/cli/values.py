"""How a value is written on the command line (docs/shell.rst, Values).

Knows: the options that say how VALUE is meant, and what is refused.  Does not know which texts are numbers, collections
or text (`text.argument`), nor what is done with the value.

Invariant: what comes out is what a user sees written; nothing is a value by accident (a date, a comment, null).
"""

from __future__ import annotations

from typing import Final

from distkv.cli.input import STDIN, standard_input
from distkv.errors import BadPathError, BadValueError, SettingsError
from distkv.model.event import Link, read_tick_text
from distkv.model.fence import Fence, read_fence_text
from distkv.model.path import NAMES_MAX, Path
from distkv.text.argument import read_argument
from distkv.text.schema import YamlError
from distkv.wire.json_form import from_json
from distkv.wire.values import pack_value

DELETING: Final = "to delete, use 'distkv client delete'; "
_QUOTING: Final = "quote it"
_QUOTING_OR_S: Final = "add -s or quote it"


def read_value(
    text: str | None,
    file: str | None = None,
    *,
    as_text: bool = False,
    as_json: bool = False,
    argument: str = "VALUE",
    instead: str = "",
) -> object:
    """The value that VALUE, -s, -j and -f say together. A lone `-` is standard input, whatever the options.

    Args:
        argument: how the command calls it, in place of VALUE.
        instead: what to do who means null by null, for the message.

    Raises:
        BadValueError: what it is cannot be stored, or could be meant in two ways.
        SettingsError: both VALUE and -f, or neither, or both -s and -j; or the file cannot be read.
    """
    if as_text and as_json:
        raise SettingsError("-s and -j exclude each other: is the value text, or JSON?")
    if (text is None) == (file is None):
        raise SettingsError(f"give either {argument} or -f FILE" + ("" if text is None else ", not both"))
    if text == STDIN:
        text, file = None, STDIN
    if file is not None:
        text = _read_file(file)
    assert text is not None
    if as_text:
        return text
    if as_json:
        value = from_json(text)
    elif file is not None:
        value = _read_document(text)
    else:
        value = read_argument(text, _QUOTING_OR_S)
    if value is None:
        raise BadValueError(f"null is no {argument.lower()}: {instead}for the text, {_QUOTING_OR_S}")
    return value


def read_aside(option: str, text: str) -> object:
    """A value in one argument that stands alone: without -s, -j, -f and standard input.

    Raises:
        SettingsError: it is a lone `-`.
        BadValueError: null, anchors, tags, a collection or quoted text that does not end well.
    """
    if text == STDIN:
        raise SettingsError(f"{option} does not read standard input, for which '-' stands: write '\"-\"' for the text")
    return _read_alone(text)


def pack_argument(text: str) -> bytes:
    """The same as the bytes that are stored; `-` is standard input.

    Raises:
        BadValueError, TooLargeError: as `read_aside`, or it cannot be stored.
    """
    return pack_value(read_value(None, STDIN) if text == STDIN else _read_alone(text))


def read_link(text: str) -> Link:
    """NODE:LIFE.N, NODE:N, or NODE:TICK with the whole tick as one integer.

    Raises:
        BadPathError: it is none of these.
    """
    found = read_tick_text(text)
    if found is not None:
        return found
    where = "as 'get -m' and 'conflicts' show it"
    raise BadPathError(f"{text!r} names no change: write NODE:TICK {where}, such as a:12 or a:7.12")


def read_fence(text: str) -> Fence:
    """NAME:EPOCH.COUNTER.

    Raises:
        SettingsError: it is no fence.
    """
    found = read_fence_text(text)
    if found is None:
        raise SettingsError(f"--fence is {text!r}: write NAME:EPOCH.COUNTER as 'get -m' shows it, such as backup:12.3")
    return found


def slashed(path: Path) -> Path | None:
    """The path that somebody may have meant who wrote one name with slashes, as in the path of a file."""
    name = path.names[0] if len(path) == 1 else None
    if not isinstance(name, str) or "/" not in name:
        return None
    names = [part for part in name.split("/") if part]
    return Path(names) if 0 < len(names) <= NAMES_MAX else None


# -- inside -------------------------------------------------------------------------------------------------------


def _read_alone(text: str) -> object:
    found = read_argument(text, _QUOTING)
    if found is None:
        raise BadValueError(f"null is no value: for the text, {_QUOTING}")
    return found


def _read_file(name: str) -> str:
    """Text of a file or of standard input, exactly as it is."""
    try:
        if name == STDIN:
            return standard_input("value").read().decode()
        with open(name, "rb") as file:
            return file.read().decode()
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError:
        where = "standard input" if name == STDIN else name
        raise BadValueError(f'{where} is not UTF-8 text: for bytes, use -j with {{"$bytes": "base64"}}') from None


def _read_document(text: str) -> object:
    try:
        return _read_yaml(text)
    except YamlError as error:
        raise BadValueError(f"line {error.line}: {error}: for the text as it is, add -s") from None


def _read_yaml(text: str) -> object:
    from distkv.text import yaml  # it takes longer to load than all the rest, and few values need it

    node = yaml.read(text)
    return None if node.is_empty else yaml.plain(node)
