"""`distkv graph`: what happened between nodes, as text or as a picture.

Knows: where a trace comes from, and how a graph is written.  Does not know how it is drawn (`distkv.graph`), nor what
happens in it.

Invariant: only the graph goes to stdout, or into the file; what is left out of a picture is said in it.
"""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TextIO, TypeAlias

import asyncclick as click
import attrs

from distkv.cli import exits
from distkv.cli.input import STDIN
from distkv.cli.output import Form, check_stdout, complain
from distkv.cli.session import CliSession, Job, once
from distkv.cli.sim import only_option, outcome_line, without_option
from distkv.client.addresses import Address, read_address
from distkv.errors import RequestError, SettingsError
from distkv.text.display import visible, visible_json

if TYPE_CHECKING:
    from distkv.graph.picture import Choice, Picture
    from distkv.graph.trace import Moment

TRACE_MAX: Final = 100_000
"""So many moments are looked at for a picture, the last ones; text has no limit."""

Write: TypeAlias = Callable[["Moment"], object]
Source: TypeAlias = Callable[[Write], int]
"""Hands on each moment of a trace, in its order; the exit code."""


class GraphForm(StrEnum):
    """What -o takes here."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    SVG = "svg"
    HTML = "html"


STREAMS: Final = (GraphForm.TEXT, GraphForm.JSON)
"""Written moment by moment; the others are pictures."""


class _Names(click.ParamType[frozenset[str]]):
    """Names with commas between them."""

    name = "names"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:  # noqa: ARG002
        if isinstance(value, frozenset):
            return value
        return frozenset(filter(None, (name.strip() for name in str(value).split(","))))


@click.command("graph")
@click.option("--live", metavar="HOST", multiple=True, help="A running node, as HOST:PORT; may be repeated.")
@click.option("--for", "for_s", metavar="SECONDS", type=click.FloatRange(0), help="With --live, stop after this time.")
@click.option(
    "--trace", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True), multiple=True, callback=once,
    help="A file from -o json; '-' is stdin.",
)
@click.option(
    "--scenario", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True), multiple=True, callback=once,
    help="A scenario file to run; '-' is stdin.",
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(0), multiple=True, callback=once, help="A seed of 'distkv sim'."
)
@only_option
@without_option
@click.option("--nodes", metavar="NAMES", type=_Names(), multiple=True, help="Show only these, such as a,b.")
@click.option("--kinds", metavar="KINDS", type=_Names(), multiple=True, help="Show only these, such as ping,update.")
@click.option("--from", "since", metavar="SECONDS", type=float, help="Begin at this time.")
@click.option("--to", "until", metavar="SECONDS", type=float, help="End at this time.")
@click.option("--last", metavar="N", type=click.IntRange(1), help="Draw only the last N moments of a picture.")
@click.option(
    "-o", "--output", "form", type=click.Choice([form.value for form in GraphForm]), help="The output format (text)."
)
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True),
    help="Write to FILE. [default: -, which is stdout]",
)
@click.pass_obj
def graph_command(
    session: CliSession,
    live: tuple[str, ...],
    for_s: float | None,
    trace: str | None,
    scenario: str | None,
    seed: int | None,
    only: tuple[int, ...] | None,
    off: tuple[str, ...],
    nodes: tuple[frozenset[str], ...],
    kinds: tuple[frozenset[str], ...],
    since: float | None,
    until: float | None,
    last: int | None,
    form: str | None,
    out: str | None,
) -> Job:
    """Draw what happened between nodes: their messages, and what each node held then.

    text is a line for each step, json a trace for --trace, mermaid a sequence diagram, svg a picture, and html a page
    in which you can filter, follow an event from node to node, and move through time.

    With --live you see what nodes do from now until Ctrl-C: as text at once, as a picture at the end.
    """
    from distkv.graph.picture import Choice

    if [trace, scenario, seed, live or None].count(None) != 3:
        raise click.UsageError("give one of --live, --trace, --scenario and --seed")
    if for_s is not None and not live:
        raise click.UsageError("--for belongs to --live")
    if for_s is not None and math.isnan(for_s):
        raise click.UsageError("nan is no time: --for is seconds")
    if seed is None and (only is not None or off):
        raise click.UsageError("--only and --without belong to --seed")
    if since is not None and until is not None and since > until:
        raise click.UsageError(f"--from {since:g} is after --to {until:g}: nothing lies between")
    out = None if out == STDIN else out
    choice = Choice(frozenset().union(*nodes), frozenset().union(*kinds), _milliseconds(since), _milliseconds(until))
    output = _Output(_form(form, session.form), out, choice, last)
    if last is not None and output.form in STREAMS:
        raise SettingsError(f"--last is for pictures, and {output.form} is all there is: choose with --from and --to")
    if out is None:
        check_stdout()
    if live:
        addresses = tuple(map(read_address, live))
        return partial(_draw, f"{len(live)} live nodes", partial(_listen, addresses, for_s), output)
    if trace is not None:
        return partial(_draw, Path(trace).name, partial(_read, trace), output)
    if scenario is not None:
        return partial(_draw, Path(scenario).stem, partial(_play, scenario), output)
    return partial(_draw, f"seed {seed}", partial(_simulate, seed or 0, frozenset(off), only), output)


# -- where a trace comes from -------------------------------------------------------------------------------------


def _listen(addresses: Sequence[Address], for_s: float | None, write: Write) -> int:
    from distkv.cli.live import listen

    listen(addresses, for_s, write)
    return exits.DONE


def _read(file: str, write: Write) -> int:
    from distkv.graph.trace import read_lines

    with _opened(file) as lines:
        for moment in read_lines(lines, file):
            write(moment)
    return exits.DONE


@contextmanager
def _opened(file: str) -> Iterator[TextIO]:
    if file == STDIN:
        if sys.stdin is None:  # as with `<&-` in a shell
            raise SettingsError("standard input is closed: there is no trace to read")
        yield sys.stdin
        return
    with open(file, encoding="utf-8", errors="replace") as found:
        yield found


def _play(file: str, write: Write) -> int:
    from distkv.sim.grammar import parse_script
    from distkv.sim.player import ScriptFailedError, play

    with _opened(file) as lines:
        script = parse_script(lines.read(), file)
    try:
        moments, failure = play(script).moments, None
    except ScriptFailedError as error:  # the graph shows how it came to that
        moments, failure = error.moments, error
    for moment in moments:
        write(moment)
    if failure is None:
        return exits.DONE
    complain(str(failure))
    return exits.FAILED


def _simulate(seed: int, off: frozenset[str], only: tuple[int, ...] | None, write: Write) -> int:
    from distkv.graph.recorder import outside
    from distkv.sim.draft import draw
    from distkv.sim.recording import Recording
    from distkv.sim.run import Verdict, run

    scenario = draw(seed, off)
    outcome = run(scenario if only is None else scenario.only(only), observers=[Recording(write)])
    has_failed = outcome.verdict is Verdict.FAILED
    if has_failed:
        write(outside(outcome.virtual_ms, "", "fails", outcome.what))
    complain(outcome_line(outcome))
    return exits.FAILED if has_failed else exits.DONE


# -- what becomes of it -------------------------------------------------------------------------------------------


@attrs.frozen
class _Output:
    """What is wanted."""

    form: GraphForm
    file: str | None
    choice: Choice
    last: int | None
    """How many moments a picture has at the most; None: what its form bears."""


class _Sink(Protocol):
    """Takes a trace."""

    def take(self, moment: Moment) -> None:
        """The next moment."""

    def end(self) -> None:
        """There are no more."""


def _draw(title: str, source: Source, output: _Output) -> int:
    with _writer(output.file) as write:
        sink: _Sink = _LineOutput(output, write) if output.form in STREAMS else _DrawnOutput(title, output, write)
        code = source(sink.take)
        sink.end()
    return code


@contextmanager
def _writer(file: str | None) -> Iterator[Callable[[str], object]]:
    """Writes text; what is none (a trace may hold halves of characters) is replaced by question marks.

    Whether a file can be written shows at once; what it held goes when there is something else to write.
    """
    if file is None:
        yield lambda text: click.echo(_sound(text), nl=False)
        return
    is_new = not os.path.exists(file)
    out = open(file, "a", encoding="utf-8", errors="replace")  # noqa: SIM115  # its end may fail, and is named, too
    is_written = False

    def write(text: str) -> None:
        nonlocal is_written
        with _naming(file):
            if not is_written and os.path.isfile(file):  # a pipe or a device has no end to cut off
                out.truncate(0)
            is_written = True
            out.write(text)

    try:
        yield write
    finally:
        if is_new and not is_written:
            os.unlink(file)
        with _naming(file):
            out.close()


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """A full disk does not say by itself which file it has no space for."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, file) from None


def _sound(text: str) -> str:
    return text.encode(errors="replace").decode()


class _LineOutput:
    """Writes each moment as it comes."""

    def __init__(self, output: _Output, write: Callable[[str], object]) -> None:
        from distkv.graph.picture import TraceContents
        from distkv.graph.text import TextWriter
        from distkv.graph.trace import write_line

        self._choice = output.choice
        self._seen = TraceContents()
        self._write = write
        self._is_json = output.form is GraphForm.JSON
        self._line = write_line if self._is_json else TextWriter().line
        self._is_empty = True

    def take(self, moment: Moment) -> None:
        self._seen.note(moment)
        if self._choice.takes(moment):
            self._is_empty = False
            line = self._line(moment)  # which has in it what other nodes said
            self._write(f"{visible_json(line) if self._is_json else visible(line)}\n")

    def end(self) -> None:
        self._choice.check(self._seen)
        if self._is_empty:
            raise _nothing(bool(self._seen.kinds))


class _DrawnOutput:
    """Draws when all is there."""

    def __init__(self, title: str, output: _Output, write: Callable[[str], object]) -> None:
        self._title = title
        self._output = output
        self._write = write
        self._moments: deque[Moment] = deque(maxlen=TRACE_MAX)
        self._count = 0

    def take(self, moment: Moment) -> None:
        self._count += 1
        self._moments.append(moment)

    def end(self) -> None:
        from distkv.graph.picture import compose

        draw, moments_max = _pictures()[self._output.form]
        moments_max = self._output.last or moments_max
        forgotten = self._count - len(self._moments)
        picture = compose(list(self._moments), self._title, self._output.choice, moments_max, forgotten)
        if not picture.moments:
            raise _nothing(bool(self._moments))
        self._write(draw(picture))


def _nothing(has_moments: bool) -> RequestError:
    why = "no moment is what --nodes, --kinds, --from and --to ask for" if has_moments else "the trace has no moments"
    return RequestError(f"there is nothing to draw: {why}")


def _pictures() -> dict[GraphForm, tuple[Callable[[Picture], str], int]]:
    """How each form is drawn, and how many moments it bears."""
    from distkv.graph import mermaid, page, svg

    return {
        GraphForm.MERMAID: (mermaid.mermaid, mermaid.MOMENTS_MAX),
        GraphForm.SVG: (svg.svg, svg.MOMENTS_MAX),
        GraphForm.HTML: (page.page, page.MOMENTS_MAX),
    }


def _form(own: str | None, common: Form) -> GraphForm:
    if own is not None:
        return GraphForm(own)
    if common not in (Form.TEXT, Form.JSON):
        raise SettingsError(f"-o {common}: a graph is written as {', '.join(GraphForm)}")
    return GraphForm(common.value)


def _milliseconds(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if not math.isfinite(seconds):
        raise click.UsageError(f"{seconds} is no time: --from and --to are seconds")
    return round(seconds * 1000)
