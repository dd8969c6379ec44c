"""What the pages show of the code, and, as a Sphinx extension, how their links work.

Knows: how to write as reStructuredText the help of every command, every setting, the table of requests, the changes and
the latest figures of the benchmark, and how to show the message graph of a scenario.  Does not know what any of them
says.

The reference of commands, settings and requests is kept in the pages, between `.. begin generated: NAME` and
`.. end generated: NAME`, so that it can be read where they lie: `python docs/reference.py` writes it anew. What changes
with every commit or run is not kept: a page asks for it by a line `.. generated: NAME`, and for a graph by `.. graph:
FILE`, comments to whoever else reads the file; Sphinx fills them in. Links between the pages name files (`text
<other.rst>`_), so that they work where the sources are shown; here they become links to pages, and one whose text is
the name of the file shows the title of the page instead.

Invariant: what is generated and kept is what the code says now; tests/tidy/test_reference.py looks.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Final

import asyncclick as click
import attrs

from distkv import config
from distkv.cli import settings
from distkv.cli.main import everything
from distkv.cli.settings import AUTH_FILE, Setting, known_settings
from distkv.errors import SettingsError
from distkv.graph.page import page
from distkv.graph.picture import compose
from distkv.graph.svg import svg
from distkv.sim.grammar import parse_script
from distkv.sim.player import play
from distkv.wire.frames import ROWS

if typing.TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[1]
COLUMNS: Final = 80
"""How wide the help of a command is; wider lines would have to be scrolled on most screens."""

UNDERLINES: Final = '.~^"'
"""Of the sections of commands, by their depth."""

MARKER: Final = re.compile(r"^\.\. generated: (\w+)$", re.MULTILINE)
KEPT: Final = re.compile(r"^(\.\. begin generated: (\w+)\n\n).*?(\n\.\. end generated: \2)$", re.MULTILINE | re.DOTALL)
GRAPH: Final = re.compile(r"^\.\. graph: (\S+\.txt)$", re.MULTILINE)


def setup(app: Sphinx) -> Mapping[str, bool]:
    """What Sphinx calls."""
    app.connect("source-read", _fill_in)
    app.connect("doctree-read", _link_pages)
    app.connect("build-finished", _draw_graphs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# -- commands -----------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, str]]:
    """Every command that help shows, as it is typed, and its help."""
    yield from _commands(everything, click.Context(everything, info_name="distkv", terminal_width=COLUMNS))


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            if not inner.hidden:
                yield from _commands(inner, click.Context(inner, context, name, terminal_width=COLUMNS))


def cli_text() -> str:
    """A section for every command; those of a group are below it."""
    parts = []
    for name, help_text in commands():
        title = _title(name, UNDERLINES[max(0, name.count(" ") - 1)])
        parts.append(f"{title}\n\n.. code-block:: text\n\n{textwrap.indent(help_text, '   ')}\n")
    return "\n".join(parts)


# -- settings -----------------------------------------------------------------------------------------------------


def settings_text() -> str:
    """A section for every section of the configuration, with its keys."""
    parts = []
    known = settings.sections()
    for word in dict.fromkeys(known.values()):
        mine = [setting for setting in known_settings().values() if known[setting.section] == word]
        below = word or "node"
        parts.append(f"{_title(below, '-')}\n\n{_literals(inspect.getdoc(mine[0].section) or '')}\n")
        parts += [_setting_text(setting) for setting in mine]
        if AUTH_FILE.startswith(f"{below}."):
            parts.append(_entry(AUTH_FILE, "text", None, _docstrings(settings)["AUTH_FILE"], ""))
    return "\n".join(parts)


def requests_text() -> str:
    """The table of all requests: in which states each is answered, and in which form."""
    forms: dict[str, dict[str, None]] = {}
    states = {row.action: row.when.value for row in ROWS}
    for row in ROWS:
        forms.setdefault(row.action, {})[row.form.value] = None
    lines = [(f"``{action}``", states[action], " or ".join(found)) for action, found in forms.items()]
    return _table(("request", "states", "reply"), lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    rule = "  ".join("=" * width for width in widths)

    def text(cells: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

    return "\n".join([rule, text(head), rule, *map(text, lines), rule, ""])


def setting_docstring(setting: Setting) -> str:
    """What stands below the field that a key sets."""
    return _docstrings(sys.modules[setting.section.__module__], setting.section.__name__).get(setting.field, "")


def setting_rule(setting: Setting) -> str:
    """What its check says of a value that nobody can mean; empty when every value of the type will do."""
    needed: dict[str, object] = {"node": "x", "data_dir": Path()} if setting.section is config.Config else {}
    for wrong in (-1, "\0", ("\0",)):
        try:
            setting.section(**{**needed, setting.field: wrong})
        except SettingsError as error:
            _, found, rule = str(error).rpartition("must be ")
            rule = f"must be {rule}" if found else rule.rpartition(": ")[2]
            return f"{rule[0].upper()}{rule[1:]}."
        except (TypeError, AttributeError):
            continue  # a check may need a value of its type
    return ""


def _setting_text(setting: Setting) -> str:
    return _entry(
        setting.key, _kind(setting.kind), _default(setting.default), setting_docstring(setting), setting_rule(setting)
    )


def _entry(key: str, kind: str, default: str | None, docstring: str, rule: str) -> str:
    fields = f"{kind[0].upper()}{kind[1:]}{'' if default is None else f', by default ``{default}``'}."
    body = "\n\n".join(filter(None, (fields, _literals(docstring), _literals(rule))))
    return f"``{key}``\n{_indented(body)}\n"


def _kind(kind: object) -> str:
    if isinstance(kind, types.UnionType):
        kind = next(option for option in typing.get_args(kind) if option is not type(None))
    return _KINDS.get(kind, "text, or a list of texts")


_KINDS: Final[Mapping[object, str]] = {
    str: "text", int: "integer", float: "number", bool: "true or false", Path: "a directory",
}  # fmt: skip


def _default(default: object) -> str | None:
    """As one would write it; None when there is none, and the docstring says what happens then."""
    if default is None or default is attrs.NOTHING or default == ():
        return None
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default).lower() if default is True else str(default)


def _docstrings(module: ModuleType, kind: str | None = None) -> dict[str, str]:
    """The texts that stand below the names of a module, or of a class in it."""
    body: list[ast.stmt] = ast.parse(inspect.getsource(module)).body
    if kind is not None:
        body = next(part.body for part in body if isinstance(part, ast.ClassDef) and part.name == kind)
    found = {}
    for named, below in itertools.pairwise(body):
        match named, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


# -- changes and figures ------------------------------------------------------------------------------------------


def changes_text() -> str:
    """What the next release brings, from the fragments in `changelog/`, then what earlier ones brought."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next", "--date", "not released yet"]
    drafted = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    earlier = ROOT / "CHANGELOG.rst"
    return drafted + (earlier.read_text(encoding="utf-8") if earlier.exists() else "")


def figures_text() -> str:
    """The latest results that are kept, of all that is measured by default and of each part that was asked for."""
    latest: dict[str, Path] = {}
    for file in sorted((ROOT / "packaging" / "bench" / "results").glob("*.txt")):
        latest[file.stem[len("2026-01-01-000000") :]] = file
    shown = (_indented(latest[part].read_text(encoding="utf-8")) for part in sorted(latest))
    return "".join(f".. code-block:: text\n\n{text}\n\n" for text in shown)


GENERATED: Final[Mapping[str, Callable[[], str]]] = {"changes": changes_text, "figures": figures_text}
"""What a page may ask for."""

WRITTEN: Final[Mapping[str, Callable[[], str]]] = {
    "cli": cli_text,
    "settings": settings_text,
    "requests": requests_text,
}
"""What is kept in a page."""


def written(page: str) -> str:
    """The text of a page with what is kept in it made anew."""
    return KEPT.sub(lambda found: f"{found[1]}{WRITTEN[found[2]]()}{found[3]}", page)


def main() -> None:
    """Bring every page up to date."""
    for file in sorted((ROOT / "docs").rglob("*.rst")):
        old = file.read_text(encoding="utf-8")
        new = written(old)
        if new != old:
            file.write_text(new, encoding="utf-8")


# -- graphs -------------------------------------------------------------------------------------------------------


def graph_text(file: str, depth: int) -> str:
    """The picture of a scenario, which leads to a page of its own, for a page so many folders below the top."""
    where = f"{'../' * depth}graphs/{Path(file).stem}"
    words = f"Message graph of {file}. The link leads to a page in which one can follow what happens."
    picture = f'<a href="{where}.html"><img src="{where}.svg" alt="{words}"></a>'
    return f".. raw:: html\n\n   <p class=\"graph\">{picture}</p>\n"


def draw_graph(file: str, folder: Path) -> None:
    """Play a scenario and draw what happens in it: FILE.svg and FILE.html."""
    path = ROOT / file
    moments = play(parse_script(path.read_text(encoding="utf-8"), file)).moments
    picture = compose(moments, path.stem.replace("_", " "))
    folder.joinpath(f"{path.stem}.svg").write_text(svg(picture), encoding="utf-8")
    folder.joinpath(f"{path.stem}.html").write_text(page(picture), encoding="utf-8")


# -- inside -------------------------------------------------------------------------------------------------------


def _fill_in(_app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = MARKER.sub(lambda found: GENERATED[found[1]](), source[0])
    source[0] = GRAPH.sub(lambda found: graph_text(found[1], name.count("/")), source[0])


def _draw_graphs(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    files = {file for source in app.srcdir.rglob("*.rst") for file in GRAPH.findall(source.read_text(encoding="utf-8"))}
    folder = Path(app.outdir, "graphs")
    folder.mkdir(exist_ok=True)
    for file in sorted(files):
        draw_graph(file, folder)


def _link_pages(app: Sphinx, document: nodes.document) -> None:
    from docutils import nodes
    from sphinx import addnodes
    from sphinx.util import logging

    page = PurePosixPath(app.env.docname)
    for link in list(document.findall(nodes.reference)):
        uri = link.get("refuri", "")
        if not uri or "://" in uri or uri.startswith(("mailto:", "#")):
            continue
        file = Path(app.srcdir, page.parent, uri).resolve()
        if file.suffix != ".rst" or not file.is_relative_to(app.srcdir):
            logging.getLogger(__name__).warning("%s is no page", uri, location=link)
            continue
        target = f"/{file.relative_to(app.srcdir).with_suffix('').as_posix()}"
        words = nodes.inline("", link.astext(), classes=["doc"])
        found = addnodes.pending_xref(
            "", words, refdomain="std", reftype="doc", reftarget=target, refdoc=str(page), refwarn=True,
            refexplicit=link.astext() != file.name,
        )  # fmt: skip
        found.source, found.line = link.source, link.line
        link.replace_self(found)


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"


def _indented(text: str) -> str:
    return textwrap.indent(text, "   ")


def _literals(text: str) -> str:
    """`name`, as docstrings write it, is ``name`` in reStructuredText."""
    return re.sub(r"(?<![`\w])`([^`]+)`(?![`_])", r"``\1``", text)


if __name__ == "__main__":
    main()
