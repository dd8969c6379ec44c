"""Values as JSON and back, without loss.

Knows: the forms for what JSON lacks, each a map with one key that begins with '$':

    {"$bytes": "base64"}   {"$float": "nan" | "inf" | "-inf"}   {"$ext": [code, "base64"]}
    {"$time": [seconds, nanoseconds]}   {"$map": [[key, value], ...]}

The last is for keys that are not text, and for maps that would look like one of these.

Does not know where JSON comes from or goes to.

Invariant: `from_json(to_json(value))` is `value`, for every value that can be stored.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable
from typing import Final

from distkv.errors import BadValueError, DecodeError
from distkv.wire import packing
from distkv.wire.packing import ExtType, Timestamp
from distkv.wire.values import unpack_value


def to_json(value: object) -> str:
    """One JSON document, without a newline at its end."""
    return json.dumps(_form(value), ensure_ascii=False, allow_nan=False)


def packed_to_json(packed: bytes) -> str:
    """`to_json` of a value as it is stored; in a third of the time when JSON has all that is in it.

    Raises:
        DecodeError, BadValueError: the bytes are no value.
    """
    try:
        text = _ENCODE(packing.unpack_strict(packed))
    except (DecodeError, TypeError, ValueError):  # keys that are no text, extensions; bytes, NaN
        return to_json(unpack_value(packed))
    return to_json(unpack_value(packed)) if '{"$' in text else text


def strict_to_json(value: object) -> str:
    """`to_json` of a value such as `packing.unpack_strict` gives, in a third of the time when JSON has all of it."""
    try:
        text = _ENCODE(value)
    except (TypeError, ValueError):  # bytes, times, NaN
        return to_json(value)
    return to_json(value) if '{"$' in text else text


def from_json(text: str, *, exact: bool = False) -> object:
    """The value of one JSON document; `exact`: a number that a float cannot hold with all its digits is refused.

    Raises:
        BadValueError: it is no JSON, has a key twice, or a '$' form that is not one of ours, or see `exact`.
    """
    read_float = exact_float if exact else _float
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=read_float)
    except json.JSONDecodeError as error:
        raise BadValueError(f"the value is no JSON: {error}") from None
    except RecursionError:
        raise BadValueError("the value nests lists and maps too deeply: flatten it") from None
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise BadValueError("the value cannot be stored: an integer needs more than 64 bits") from None


def exact_float(word: str) -> float:
    """The number, where a float has all of it: its shortest text, or the one with 17 digits, says the same.

    Raises:
        BadValueError: digits would be lost.
    """
    number = _float(word)
    from decimal import Decimal  # costs milliseconds, and few commands read a fraction

    if Decimal(word) not in (Decimal(repr(number)), Decimal(f"{number:.17g}")):
        raise BadValueError(f"the number {word[:40]} has more digits than a float keeps: write it as text")
    return number


def to_plain(value: object) -> object:
    """The value as JSON could hold it, for another language that lacks the same: text, numbers, true, lists, maps."""
    return _form(value)


def from_plain(form: object) -> object:
    """The value again.

    Raises:
        BadValueError: a '$' form is not one of ours.
    """
    match form:
        case list():
            return [from_plain(inner) for inner in form]
        case dict():
            pairs = [(key, from_plain(inner)) for key, inner in form.items()]
            return _object(pairs) if all(isinstance(key, str) for key in form) else dict(pairs)
    return form


# -- inside -------------------------------------------------------------------------------------------------------

_DOLLAR: Final = "$"


def _encoder() -> Callable[[object], str]:
    """As `JSONEncoder.encode`, which makes a C encoder anew for each value: half of the price of a small one."""
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
    make: Callable[..., Callable[[object, int], Iterable[str]]] | None = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # only CPython has it
        return encoder.encode
    quote, nothing = json.encoder.encode_basestring, None
    parts = make(
        nothing, encoder.default, quote, nothing, encoder.key_separator, encoder.item_separator, False, False, False
    )
    return lambda value: "".join(parts(value, 0))


_ENCODE: Final = _encoder()


def _form(value: object) -> object:
    """What the JSON library can write."""
    match value:
        case ExtType():  # before tuple: it is one
            return {"$ext": [value.code, base64.b64encode(value.data).decode()]}
        case Timestamp():
            return {"$time": [value.seconds, value.nanoseconds]}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case list() | tuple():
            return [_form(inner) for inner in value]
        case dict():
            if _is_plain(value):
                return {key: _form(inner) for key, inner in value.items()}
            return {"$map": [[_form(key), _form(inner)] for key, inner in value.items()]}
    return value


def _is_plain(value: dict[object, object]) -> bool:
    """Whether a JSON object says the same: its keys are text, and it does not look like a '$' form."""
    if len(value) == 1 and str(next(iter(value))).startswith(_DOLLAR):
        return False
    return all(isinstance(key, str) for key in value)


def _object(pairs: list[tuple[str, object]]) -> object:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise BadValueError(f"the value has the key {twice!r} twice: rename one")
    if len(found) == 1 and pairs[0][0].startswith(_DOLLAR):
        return _special(*pairs[0])
    return found


def _special(key: str, content: object) -> object:
    try:
        match key, content:
            case "$bytes", str():
                return base64.b64decode(content, validate=True)
            case "$float", "nan" | "inf" | "-inf":
                return float(str(content))
            case "$ext", [int(code), str(data)]:
                return ExtType(code, base64.b64decode(data, validate=True))
            case "$time", [int(seconds), int(nanoseconds)]:
                return Timestamp(seconds, nanoseconds)
            case "$map", list(pairs):
                return _map(pairs)
    except (binascii.Error, ValueError) as error:
        raise BadValueError(f"the value has a {key!r} that cannot be read: {error}") from None
    raise BadValueError(
        f"the value has a map with the one key {key!r}: such maps stand for what JSON lacks, "
        'as in {"$bytes": "base64"}; a map that has this key is written {"$map": [[key, value]]}'
    )


def _map(pairs: list[object]) -> dict[object, object]:
    found: dict[object, object] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("it must hold pairs of a key and a value")
        key, value = pair
        if isinstance(key, list | dict):
            raise ValueError("a key is a list or a map")
        if key in found:
            raise ValueError(f"the key {key!r} stands twice")
        found[key] = value
    return found


def _constant(word: str) -> object:
    raise BadValueError(f"the value is no JSON: {word} is written {{\"$float\": \"nan\"}}, \"inf\" or \"-inf\"")


def _float(word: str) -> float:
    number = float(word)
    if math.isinf(number):
        raise BadValueError(f"the number {word[:40]} is too large for a float")
    return number
