"""`distkv client load` and `dump`: many values out of a node and into one.

Knows: the three forms.  Does not know how values are stored (`loading`), nor the client protocol.

Each value is a map of `path` and `value`, where the path is relative to PATH: one JSON document per line, or one
msgpack map after another. What ends by itself has also `ttl`, the seconds that are left, and `end`, when it ends; what
was written under a fence has `fence`. As YAML it is one map from paths to values, without these. What JSON lacks is
written as `json_form` says, in YAML too, because YAML's own way needs tags.

Invariant: what `dump` writes `load` reads, in any of the forms, and it comes to the same values; what a form cannot
hold, and what is not stored, is said.
"""

from __future__ import annotations

import codecs
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from itertools import chain, count
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, BinaryIO, Final

import asyncclick as click
import attrs

from distkv.cli.input import STDIN, standard_input
from distkv.cli.loading import Item, Loading
from distkv.cli.output import Form, check_stdout, complain, is_terminal, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.suggestions import suggest_trees
from distkv.client.blocking import Client
from distkv.client.questions import Entry
from distkv.errors import BadPathError, BadValueError, DecodeError, SettingsError, TooLargeError
from distkv.model.fence import Fence, read_fence_text
from distkv.model.path import Path
from distkv.text.schema import YamlError
from distkv.wire import packing
from distkv.wire.events import TTL_S_MAX
from distkv.wire.framing import FrameReader
from distkv.wire.json_form import from_json, from_plain, to_plain
from distkv.wire.values import VALUE_BYTES_MAX

if TYPE_CHECKING:
    from distkv.text.yaml import YamlNode

READ_BYTES: Final = 1 << 16
LEFT_S_MIN: Final = 0.001
"""What is there is not over, whatever our clock says."""
FORMS: Final = (Form.JSON, Form.YAML, Form.MSGPACK)


# -- dump ---------------------------------------------------------------------------------------------------------


@click.command("dump")
@click.argument("path", default=":", shell_complete=suggest_trees)
@output_option
@click.pass_obj
def dump_command(session: CliSession, path: str, form: str | None) -> Job:
    """Write the values at and below PATH (the root) to standard output, for 'load'.

    Paths are relative to PATH. -o json, the default, writes one value per line; the other forms are -o yaml and
    -o msgpack. Each value comes with the time that is left to it, its end, and its fence, if it has them; YAML has no
    place for these. History, conflicts, and who wrote a value and when are only in a backup.
    """
    wanted = Form(form) if form else session.form
    if wanted is Form.TEXT:
        wanted = Form.JSON
    if wanted not in FORMS:
        raise SettingsError(f"-o {wanted}: a tree is written as {', '.join(FORMS)}")
    check_stdout()
    return partial(_dump, session, Path.parse(path), wanted)


def _dump(session: CliSession, path: Path, form: Form) -> None:
    bare = 0

    def items(client: Client) -> Iterator[dict[str, object]]:
        nonlocal bare
        for where, entry in client.get_tree(path):
            more = _more(entry)
            bare += bool(more)
            yield {"path": str(Path(where.names[len(path) :])), "value": entry.value, **more}

    with Client(session.addresses) as client, _progress("dump", None, is_shown=not is_terminal(sys.stdout)) as advance:
        print_dump(items(client), form, advance)
    if bare and form is Form.YAML:
        count = "one value has" if bare == 1 else f"{bare} values have"
        complain(f"{count} a ttl or a fence, for which YAML has no place: use -o json to keep it")


def _more(entry: Entry) -> dict[str, object]:
    """What a value has besides itself."""
    found: dict[str, object] = {}
    if entry.ttl is not None:
        end = entry.time + entry.ttl
        found |= {"ttl": max(end - time.time(), LEFT_S_MIN), "end": end}
    if entry.fence is not None and entry.fence.holds:
        found["fence"] = str(entry.fence)
    return found


def print_dump(items: Iterable[dict[str, object]], form: Form, advance: Callable[[int], None]) -> None:
    """Write values in a form that `read_items` reads."""

    def shown() -> Iterator[object]:
        for item in items:
            if form is Form.YAML:
                yield from _yaml_lines(item).split("\n")
            else:
                yield item
            advance(1)

    print_items(shown(), Form.TEXT if form is Form.YAML else form)


def _yaml_lines(item: dict[str, object]) -> str:
    """A piece of one map, without the newline at its end."""
    from distkv.text import yaml  # it takes longer to load than all the rest

    return yaml.dump({item["path"]: to_plain(item["value"])})[:-1]


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
@click.option("--without-fences", is_flag=True, help="Leave out the fences in FILE: for another network.")
@output_option
@click.pass_obj
def load_command(session: CliSession, path: str, file: str | None, without_fences: bool, form: str | None) -> Job:
    """Store the values that 'dump' wrote, below PATH (the root), and print how many.

    The first byte shows the form. A value replaces the present value, unless they are the same; paths that are not in
    FILE stay as they are. A value that has an 'end' is stored for the time that is left, and left out if that is over.
    YAML is one map from paths to values: a map in it is one value. It is read completely before anything is stored;
    use JSON or msgpack for large trees. If a value is refused, the values before it are stored: correct it, and load
    again. With 'distkv -q client', nothing is printed.
    """
    if file is None and FilePath(path).is_file():
        raise click.UsageError(f"{path!r} is a file: load it with -f {path}, or read standard input with -f -")
    is_quiet = session.verbosity < 0
    if not is_quiet:
        check_stdout()
    report = None if is_quiet else Form(form) if form else session.form
    return partial(_load, session, Path.parse(path), file or STDIN, not without_fences, report)


def _load(session: CliSession, path: Path, file: str, with_fences: bool, report: Form | None) -> None:
    with _opened(file) as stream:
        first = stream.read(READ_BYTES)  # a file that cannot be read is told before the server is asked
        loading = Loading(partial(Client, session.addresses), path, with_fences=with_fences)
        with closing(loading), _progress("load", _size(file), is_shown=True) as advance:
            loading.store(read_items(_chunks(first, stream, advance)))
    if report is not None:
        print_result(loading.words if report in (Form.TEXT, Form.RAW) else loading.counts, report)
        for remark in loading.remarks:
            complain(remark)


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
            item = _item({"path": key, "value": _from_yaml(node)}, f"line {node.line}")
            yield attrs.evolve(item, may_be_tree=True)
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
        path = Path.parse(found["path"])
    except BadPathError as error:
        raise BadPathError(f"{where}: {error}") from None
    return Item(path, found["value"], where, _ttl(found, where), _end(found, where), _fence(found, where))


def _ttl(found: dict[object, object], where: str) -> float | None:
    ttl = found.get("ttl")
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= TTL_S_MAX:
        raise BadValueError(f"{where}: 'ttl' must be seconds, above 0 and at most {TTL_S_MAX:g}")
    return float(ttl)


def _end(found: dict[object, object], where: str) -> float | None:
    end = found.get("end")
    if end is None:
        return None
    if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
        raise BadValueError(f"{where}: 'end' must be a time, in seconds since 1970")
    return float(end)


def _fence(found: dict[object, object], where: str) -> Fence | None:
    text = found.get("fence")
    if text is None:
        return None
    fence = read_fence_text(text) if isinstance(text, str) else None
    if fence is None:
        raise BadValueError(f"{where}: 'fence' must be NAME:EPOCH.COUNTER, as dump writes it")
    return fence


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
    if not is_shown or not is_terminal(sys.stderr):
        yield lambda _: None
        return
    unknown = count() if length is None else None
    with click.progressbar(
        unknown, length, label, file=sys.stderr, show_pos=length is None, update_min_steps=100
    ) as bar:
        yield bar.update
