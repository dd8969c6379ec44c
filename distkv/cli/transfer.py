"""`distkv client load` and `dump`: many values out of a node and into one.

Knows: the three forms, and how a tree is cut into batches.  Does not know the client protocol.

Each value is a map of `path` and `value`, where the path is relative to PATH: one JSON document per line, or one
msgpack map after another. As YAML it is one map from paths to values. What JSON lacks is written as `json_form` says,
in YAML too, because YAML's own way needs tags.

Invariant: what `dump` writes `load` reads, in any of the forms, and it comes to the same values.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain, count
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, BinaryIO, Final

import asyncclick as click
import attrs

from distkv.cli.input import STDIN, standard_input
from distkv.cli.output import Form, print_items
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.suggestions import suggest_trees
from distkv.client.blocking import Client
from distkv.client.questions import Set
from distkv.errors import BadPathError, BadValueError, DecodeError, RequestError, SettingsError, TooLargeError
from distkv.model.path import Path
from distkv.text.schema import YamlError
from distkv.wire import packing
from distkv.wire.framing import FrameReader
from distkv.wire.json_form import from_json, from_plain, to_plain
from distkv.wire.values import VALUE_BYTES_MAX, pack_value

if TYPE_CHECKING:
    from distkv.text.yaml import YamlNode

BATCH_OPS: Final = 500
BATCH_BYTES: Final = 256 << 10
"""A batch is sent when it has so much; the server takes four times that, if it was not told otherwise."""
READ_BYTES: Final = 1 << 16
FORMS: Final = (Form.JSON, Form.YAML, Form.MSGPACK)


@attrs.frozen
class Item:
    """One value that was read."""

    path: Path
    value: object
    where: str
    """Line or number, for people."""


# -- dump ---------------------------------------------------------------------------------------------------------


@click.command("dump")
@click.argument("path", default=":", shell_complete=suggest_trees)
@output_option
@click.pass_obj
def dump_command(session: CliSession, path: str, form: str | None) -> Job:
    """Write the values at and below PATH (the root) to standard output, for 'load'.

    Paths are relative to PATH. -o json, the default, writes one value per line; the other forms are -o yaml and
    -o msgpack.
    """
    wanted = Form(form) if form else session.form
    if wanted is Form.TEXT:
        wanted = Form.JSON
    if wanted not in FORMS:
        raise SettingsError(f"-o {wanted}: a tree is written as {', '.join(FORMS)}")
    return partial(_dump, session, Path.parse(path), wanted)


def _dump(session: CliSession, path: Path, form: Form) -> None:
    with Client(session.addresses) as client, _progress("dump", None, is_shown=not sys.stdout.isatty()) as advance:
        found = ((Path(where.names[len(path) :]), entry.value) for where, entry in client.get_tree(path))
        print_dump(found, form, advance)


def print_dump(values: Iterable[tuple[Path, object]], form: Form, advance: Callable[[int], None]) -> None:
    """Write values in a form that `read_items` reads."""

    def items() -> Iterator[object]:
        for path, value in values:
            yield _yaml_lines(path, value) if form is Form.YAML else {"path": str(path), "value": value}
            advance(1)

    print_items(items(), Form.TEXT if form is Form.YAML else form)


def _yaml_lines(path: Path, value: object) -> str:
    """A piece of one map, without the newline at its end."""
    from distkv.text import yaml  # it takes longer to load than all the rest

    return yaml.dump({str(path): to_plain(value)})[:-1]


# -- load ---------------------------------------------------------------------------------------------------------


@click.command("load")
@click.argument("path", default=":", shell_complete=suggest_trees)
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    type=click.Path(),
    help="The output of 'dump'. [default: -, standard input]",
)
@click.pass_obj
def load_command(session: CliSession, path: str, file: str | None) -> Job:
    """Store the values that 'dump' wrote, below PATH (the root).

    The first byte shows the form. A value replaces the present value, unless they are the same; paths that are not in
    FILE stay as they are. YAML is read completely before anything is stored; use JSON or msgpack for large trees. If a
    value is refused, the values before it are stored: correct it, and load again.
    """
    if file is None and FilePath(path).is_file():
        raise click.UsageError(f"{path!r} is a file: load it with -f {path}, or read standard input with -f -")
    return partial(_load, session, Path.parse(path), file or STDIN)


def _load(session: CliSession, path: Path, file: str) -> None:
    with _opened(file) as stream:
        first = stream.read(READ_BYTES)  # a file that cannot be read is told before the server is asked
        with Client(session.addresses) as client, _progress("load", _size(file), is_shown=True) as advance:
            _store(client, path, read_items(_chunks(first, stream, advance)))


def read_items(chunks: Iterator[bytes]) -> Iterator[Item]:
    """The values in a file, in any of the forms.

    Raises:
        BadValueError, BadPathError: one cannot be read; the message says where it stands.
    """
    first = next(chunks, b"").removeprefix(codecs.BOM_UTF8)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BadValueError("the file is UTF-16: write it as UTF-8, or as dump writes it")
    whole = chain([first], chunks)
    if first[:1] and first[0] >= 0x80:  # a msgpack map; no text begins so
        return _read_msgpack(whole)
    return _read_json(_lines(whole)) if first.lstrip()[:1] == b"{" else _read_yaml(whole)


def _store(client: Client, path: Path, items: Iterable[Item]) -> None:
    """In batches, each of which is stored whole or not at all; a path that comes twice begins a new one."""
    done, size = 0, 0
    batch: dict[Path, Item] = {}
    for item in items:
        where = Path(path.names + item.path.names)
        if where in batch or len(batch) >= BATCH_OPS or size >= BATCH_BYTES:
            done += _send(client, list(batch.items()), done)
            batch, size = {}, 0
        batch[where] = item
        size += len(_packed(item))
    if batch:
        _send(client, list(batch.items()), done)


def _packed(item: Item) -> bytes:
    try:
        return pack_value(item.value)
    except RequestError as error:
        raise type(error)(f"{item.where}: {error}") from None


def _send(client: Client, batch: list[tuple[Path, Item]], done: int) -> int:
    """Store a batch, in parts when the server takes less at once than we thought; how many values it had."""
    try:
        client.batch([Set(path, item.value, idem=True) for path, item in batch])
    except TooLargeError as error:
        if len(batch) == 1:
            raise _refused(error, batch, done) from None
        half = len(batch) // 2
        stored = _send(client, batch[:half], done)
        _send(client, batch[half:], done + stored)
    except RequestError as error:
        raise _refused(error, batch, done) from None
    return len(batch)


def _refused(error: RequestError, batch: list[tuple[Path, Item]], done: int) -> RequestError:
    item = batch[error.op or 0][1]
    return type(error)(f"{item.where}: {error} ({done} values before it were stored)")


# -- the forms ----------------------------------------------------------------------------------------------------


def _read_json(lines: Iterator[bytes]) -> Iterator[Item]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"line {number}"
            try:
                yield _item(from_json(line.decode()), where)
            except UnicodeDecodeError:
                raise BadValueError(f"{where}: this is not UTF-8 text") from None
            except BadValueError as error:
                raise BadValueError(f"{where}: {error}" if where not in str(error) else str(error)) from None


def _read_msgpack(chunks: Iterator[bytes]) -> Iterator[Item]:
    reader = FrameReader(2 * VALUE_BYTES_MAX)
    number = 0
    try:
        for chunk in chunks:
            reader.feed(chunk)
            for frame in reader:
                number += 1
                yield _item(packing.unpack(frame), f"value {number}")
    except (DecodeError, TooLargeError) as error:
        raise BadValueError(f"value {number + 1}: {error}") from None
    if not reader.is_between_frames:
        raise BadValueError(f"value {number + 1} is cut short: the file is not whole")


def _read_yaml(chunks: Iterator[bytes]) -> Iterator[Item]:
    from distkv.text import yaml  # it takes longer to load than all the rest

    try:
        root = yaml.read(b"".join(chunks).decode())
        if root.is_empty:
            return
        if not isinstance(root.value, dict):
            raise YamlError("this is no map from paths to values, and neither JSON lines nor msgpack", root.line)
        for key, node in root.value.items():
            if not isinstance(key, str):
                raise YamlError(f"the path {key!r} is not text: quote it", node.line)
            yield _item({"path": key, "value": _from_yaml(node)}, f"line {node.line}")
    except YamlError as error:
        raise BadValueError(f"line {error.line}: {error}") from None
    except UnicodeDecodeError:
        raise BadValueError("the file is neither UTF-8 text nor msgpack maps") from None


def _from_yaml(node: YamlNode) -> object:
    from distkv.text import yaml

    try:
        return from_plain(yaml.plain(node))
    except BadValueError as error:
        raise YamlError(str(error), node.line) from None


def _item(found: object, where: str) -> Item:
    if not isinstance(found, dict) or not isinstance(found.get("path"), str) or "value" not in found:
        raise BadValueError(f"{where}: this is no map of 'path' (text) and 'value'")
    if found["value"] is None:
        raise BadValueError(f"{where}: null is no value: leave the path out")
    try:
        return Item(Path.parse(found["path"]), found["value"], where)
    except BadPathError as error:
        raise BadPathError(f"{where}: {error}") from None


# -- files --------------------------------------------------------------------------------------------------------


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    if file == STDIN:
        return nullcontext(standard_input("value"))
    try:
        return FilePath(file).open("rb")
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from None


def _size(file: str) -> int | None:
    path = FilePath(file)
    return path.stat().st_size if file != STDIN and path.is_file() else None


def _chunks(first: bytes, stream: BinaryIO, advance: Callable[[int], None]) -> Iterator[bytes]:
    chunk = first
    while chunk:
        yield chunk
        advance(len(chunk))
        chunk = stream.read(READ_BYTES)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    for chunk in chunks:
        *ended, open_line = chunk.split(b"\n")
        for line in ended:
            yield b"".join((*held, line))
            held = []
        held.append(open_line)
    yield b"".join(held)


@contextmanager
def _progress(label: str, length: int | None, *, is_shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, when stderr is one; what it gives moves it on."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    unknown = count() if length is None else None
    with click.progressbar(
        unknown, length, label, file=sys.stderr, show_pos=length is None, update_min_steps=100
    ) as bar:
        yield bar.update
