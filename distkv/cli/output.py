"""What commands print, in the form that -o asks for.

Knows: the forms.  Does not know what is printed.

Invariant: nothing but results goes to stdout, and a result goes there whole, or the command fails. What is wrong is one
line on stderr.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import BinaryIO, Final, TextIO

import asyncclick as click

from distkv.errors import RequestError
from distkv.text.display import document, json_line, one_line, text_of, visible
from distkv.wire import packing
from distkv.wire.values import pack_value

SAID_CHARS_MAX: Final = 8192
"""What is wrong is said in fewer; a node that says more is broken or hostile."""


class Form(StrEnum):
    """What -o takes."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    MSGPACK = "msgpack"
    RAW = "raw"


def print_result(value: object, form: Form) -> None:
    """Print one result; it is flushed.

    Raises:
        RequestError: it has no raw form.
        OSError: it cannot be written.
    """
    out = binary_stdout()
    out.write(rendered(value, form))
    out.flush()


def print_items(items: Iterable[object], form: Form) -> int:
    """Print results one by one, as they come; how many there were.

    As text each is a line, in which what cannot be seen is escaped, because others have a say in names; as JSON a
    document in a line, as YAML a map or an element of one list, as msgpack an object.

    Raises:
        RequestError: there is no raw form of this.
        OSError: it cannot be written.
    """
    if form is Form.RAW:
        raise RequestError("only a single value can be printed raw: use -o json")
    out = binary_stdout()
    count = 0
    try:
        for item in items:
            out.write(_rendered_item(item, form))
            count += 1
    finally:
        out.flush()
    return count


def binary_stdout() -> BinaryIO:
    """Standard output, of which all that was printed before is out.

    Raises:
        OSError: it is closed, as with `>&-` in a shell.
    """
    out: BinaryIO | None = getattr(sys.stdout, "buffer", None)
    if out is None:
        raise OSError(errno.EBADF, "standard output is closed")
    sys.stdout.flush()
    return out


def complain(text: str) -> None:
    """Say what is wrong, and what to do, on stderr; the exit code says it where nobody can be told."""
    try:
        click.echo(f"distkv: {one_line(text[:SAID_CHARS_MAX])}", err=True)
    except OSError:
        give_up(sys.stderr)


def check_stdout() -> None:
    """
    Raises:
        OSError: it is closed, as with `>&-` in a shell: what takes long is not even begun.
    """
    binary_stdout()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether people look at it; None: it is closed, as with `2>&-` in a shell."""
    return stream is not None and stream.isatty()


def give_up(stream: TextIO) -> None:
    """What is still buffered has nowhere to go, also when Python exits and tries once more."""
    with suppress(AttributeError, io.UnsupportedOperation):  # when it is closed, or no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def rendered(value: object, form: Form) -> bytes:
    """The bytes that are printed.

    Raises:
        RequestError: it has no raw form.
    """
    match form:
        case Form.TEXT:
            return f"{text_of(value)}\n".encode()
        case Form.JSON:
            return f"{json_line(value)}\n".encode()
        case Form.YAML:
            return document(value).encode()
        case Form.MSGPACK:
            return pack_value(value)
        case Form.RAW:
            return _raw(value)


def _rendered_item(item: object, form: Form) -> bytes:
    if form is Form.MSGPACK:
        return packing.pack(item)
    if form is Form.YAML:
        return document([item]).encode()
    if form is Form.TEXT and isinstance(item, str):
        return f"{visible(item)}\n".encode()
    return rendered(item, form)


def _raw(value: object) -> bytes:
    """Text and bytes as they are, without a newline."""
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
    raise RequestError("only text and bytes can be printed raw, this is neither: use -o json")
