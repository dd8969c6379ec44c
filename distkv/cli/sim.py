"""`distkv sim`: run the core in a simulated network, one seed or many.

Knows: its options, and how outcomes are written.  Does not know what is simulated (`distkv.sim`), which is loaded only
when the command runs.

Invariant: exit 1 when a seed failed, or when none passed.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import asyncclick as click

from distkv import mount
from distkv.cli import exits
from distkv.cli.output import Form, check_stdout, complain, is_terminal, print_result
from distkv.cli.session import CliSession, Job, once, output_option
from distkv.errors import SettingsError

if TYPE_CHECKING:
    from distkv.sim.campaign import Sum
    from distkv.sim.run import Outcome

SHOWN_MAX: Final = 20
"""So many failed seeds are listed with what broke; of the rest the numbers are."""
NODES_MAX: Final = 1024
"""A node keeps an eye on so many others."""
NO_NUMBERS: Final = "none"
PART_MAX: Final = 40
"""Python reads no number of thousands of digits, and no scenario has so many actions."""


class Numbers(click.ParamType[tuple[int, ...]]):
    """Numbers and ranges of them: 3,7-9; `none` for no number at all."""

    name = "numbers"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        found: list[int] = []
        if value == NO_NUMBERS:
            return ()
        for part in filter(None, str(value).split(",")):
            first, _, last = part.partition("-")
            is_range = len(part) <= PART_MAX and first.isdecimal() and (last or first).isdecimal()
            if not is_range or not 0 <= int(last or first) - int(first) <= 1_000_000:
                self.fail(f"{part!r} is neither a number nor a range such as 7-9", param, ctx)
            found += range(int(first), int(last or first) + 1)
        return tuple(found)


class FaultName(click.ParamType[str]):
    """The name of a fault, or of a service."""

    name = "fault"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from distkv.sim.scenario import part_names

        if value not in part_names():
            self.fail(f"{value!r} is no fault; there are {', '.join(part_names())}", param, ctx)
        return str(value)


only_option: Final = click.option(
    "--only", metavar="NUMBERS", type=Numbers(), multiple=True, callback=once,
    help="Of its actions take these only, such as 3,7-9, or none.",
)  # fmt: skip
without_option: Final = click.option(
    "--without", "off", metavar="FAULT", type=FaultName(), multiple=True,
    help=f"Switch a fault off, or the {', '.join(mount.names())} or trees of a seed.",
)  # fmt: skip


def _service_options(command: Callable[..., Job]) -> Callable[..., Job]:
    """A flag for each service."""
    for name in reversed(mount.names()):
        text = f"Of the seeds take only those that have {name}."
        command = click.option(f"--{name}", "service", is_flag=True, flag_value=name, help=text)(command)
    return command


@click.command("sim")
@click.option("--seeds", metavar="N", type=click.IntRange(1), help="Run so many seeds, and say what they reached.")
@click.option("--first-seed", metavar="N", type=click.IntRange(0), help="The first of them (0).")
@_service_options
@click.option("--jobs", metavar="N", type=click.IntRange(1, 256), help="Processes that share them (1).")
@click.option("--seed", metavar="N", type=click.IntRange(0), multiple=True, callback=once, help="Run this one seed.")
@click.option(
    "--fleet",
    "fleets",
    metavar="N",
    type=click.IntRange(2, NODES_MAX),
    multiple=True,
    help="Measure what a fleet of N nodes costs, or a service there; may be repeated.",
)
@click.option("--digest", is_flag=True, help="Print the digest of its trace in the last line.")
@click.option("--trace", is_flag=True, help="Print every step of it.")
@only_option
@without_option
@output_option
@click.pass_obj
def sim_command(
    session: CliSession,
    seeds: int | None,
    first_seed: int | None,
    service: str | None,
    jobs: int | None,
    seed: int | None,
    fleets: tuple[int, ...],
    digest: bool,
    trace: bool,
    only: tuple[int, ...] | None,
    off: tuple[str, ...],
    form: str | None,
) -> Job:
    """Run the core in a simulated network, with faults drawn from a seed, and check what it promises.

    The same seed is the same run, everywhere and always. One of --seeds, --seed and --fleet says what to run.
    """
    if sum((seeds is not None, seed is not None, bool(fleets))) != 1:
        raise click.UsageError("give one of --seeds, --seed and --fleet")
    if seed is None and (digest or trace or only is not None):
        raise click.UsageError("--digest, --trace and --only belong to a single --seed")
    if seeds is None and (first_seed is not None or jobs is not None or (service and not fleets)):
        given = ", ".join(["--first-seed", *(f"--{name}" for name in mount.names())])
        raise click.UsageError(f"{given} and --jobs belong to --seeds")
    if fleets and off:
        raise click.UsageError("--without belongs to seeds: a fleet goes one fixed course")
    chosen = Form(form) if form else session.form
    if chosen is Form.RAW:
        raise SettingsError("-o raw: what comes of a run is neither text nor bytes: use -o json")
    if chosen is not Form.TEXT and trace:
        raise SettingsError(f"--trace is text: leave out -o {chosen}, or take 'distkv graph --seed {seed} -o json'")
    check_stdout()
    if fleets:
        return partial(_fleets, fleets, chosen, *_measured(service))
    if seed is not None:
        return partial(_one, seed, frozenset(off), only, chosen, digest=digest, trace=trace)
    return partial(_many, seeds or 0, first_seed or 0, jobs or 1, frozenset(off), chosen, service)


# -- one seed -----------------------------------------------------------------------------------------------------


def _one(
    seed: int,
    off: frozenset[str],
    only: tuple[int, ...] | None,
    form: Form,
    *,
    digest: bool,
    trace: bool,
) -> int:
    from distkv.sim.draft import draw
    from distkv.sim.run import Verdict, run

    scenario = draw(seed, off)
    if only is not None:
        scenario = scenario.only(only)
    outcome = run(scenario, click.echo if trace else None)
    if form is not Form.TEXT:
        print_result(_map(outcome), form)
    else:
        click.echo(outcome_line(outcome))
        if outcome.verdict is Verdict.FAILED:
            _print_shrunk(outcome, off, only)
    if digest:
        click.echo(outcome.digest)
    return exits.FAILED if outcome.verdict is Verdict.FAILED else exits.DONE


def _print_shrunk(outcome: Outcome, off: frozenset[str], only: tuple[int, ...] | None) -> None:
    """What is left when everything is left out without which it fails as well, as a scenario file; and commands that
    draw and run it."""
    from distkv.sim.shrink import Shrinker

    click.echo("cutting it down ...", err=True)
    shrinker = Shrinker(outcome.seed, off, outcome.rule, only)
    scenario = shrinker.shrink()
    click.echo("this scenario file is enough to make it fail:\n")
    click.echo(scenario.text(f"Seed {outcome.seed} broke this rule: {outcome.rule}"))
    again = f"{_command(outcome.seed, shrinker.off)} --only {_ranges(shrinker.kept)}"
    click.echo(f"graph: {again.replace(' sim ', ' graph ', 1)} -o html --out seed-{outcome.seed}.html")
    click.echo(f"again: {again}")


# -- many ---------------------------------------------------------------------------------------------------------


def _many(count: int, first: int, jobs: int, off: frozenset[str], form: Form, service: str | None) -> int:
    from distkv.sim.draft import seeds_with
    from distkv.sim.run import Verdict

    seeds = [*islice(seeds_with(service, first), count)] if service else range(first, first + count)
    found = _watched(seeds, jobs, off)
    if form is not Form.TEXT:
        print_result(_sum_map(found), form)
    else:
        _print_sum(seeds, found, service)
        for outcome in found.failed[:SHOWN_MAX]:
            click.echo(outcome_line(outcome))
            click.echo(f"  again: {_command(outcome.seed, off)}")
        if len(found.failed) > SHOWN_MAX:
            click.echo(f"more failed: {', '.join(str(outcome.seed) for outcome in found.failed[SHOWN_MAX:])}")
        if found.failed:
            _print_shrunk(found.failed[0], off, None)
    return exits.FAILED if found.failed or not found.verdicts[Verdict.PASSED] else exits.DONE


def _print_sum(seeds: Sequence[int], found: Sum, service: str | None) -> None:
    from distkv.sim.reached import NOT_LEGAL, SIGNS

    width = max(map(len, SIGNS))
    click.echo(f"{'rule':<10}  {'shown by':<{width}}  seeds")
    for sign, label in SIGNS.items():
        why = "" if found.reached[sign] else f"  {NOT_LEGAL.get(sign, 'a hole')}"
        click.echo(f"{label:<10}  {sign:<{width}}  {found.reached[sign]:>5}{why}")
    verdicts = ", ".join(f"{count} {verdict.value}" for verdict, count in sorted(found.verdicts.items()))
    traffic = f"{found.deliveries} deliveries in {found.virtual_ms / 3_600_000:.1f} virtual hours"
    which = f"{len(seeds)} seeds with {service}, from" if service else "seeds"
    click.echo(f"{which} {seeds[0]} to {seeds[-1]}: {verdicts}; {traffic}")
    if found.rejected:
        click.echo(f"rejected, because too little happened: {', '.join(str(o.seed) for o in found.rejected)}")
    click.echo(f"rules that no seed reached: {', '.join(found.holes()) or 'none'}")


def _watched(seeds: Sequence[int], jobs: int, off: frozenset[str]) -> Sum:
    """Run them, and show how far they are. Ctrl-C ends all of it with one line, also when it comes again."""
    from distkv.cli.campaign_progress import CampaignProgress
    from distkv.sim.campaign import campaign

    progress = CampaignProgress(len(seeds), outcome_line)
    try:
        found = campaign(seeds, jobs, off, progress.tell)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        progress.end()
        complain(f"interrupted after {progress.so_far}")
        raise
    progress.end()
    return found


# -- fleets of several sizes --------------------------------------------------------------------------------------


def _fleets(
    sizes: tuple[int, ...], form: Form, words: Mapping[str, str], measure: Callable[[int], Mapping[str, float]]
) -> int:
    from distkv.sim.rule import BrokenRuleError

    gc.disable()  # to look through millions of objects again and again would find next to nothing that is let go
    found: dict[int, dict[str, float]] = {}
    for nodes in dict.fromkeys(sizes):
        if is_terminal(sys.stderr):
            click.echo(f"a fleet of {nodes} ...", err=True)
        try:
            found[nodes] = dict(measure(nodes))
        except BrokenRuleError as error:
            click.echo(f"Error: the fleet of {nodes} does not agree: {error}", err=True)
            return exits.FAILED
    if form is Form.TEXT:
        click.echo("\n".join(_table(words, found)))
    else:
        print_result([{"nodes": nodes, **figures} for nodes, figures in found.items()], form)
    return exits.DONE


def _measured(service: str | None) -> tuple[Mapping[str, str], Callable[[int], Mapping[str, float]]]:
    """What is measured of a fleet, in words, and what measures it."""
    from distkv.sim.cost import FIGURES, Course
    from distkv.sim.service import sim_parts

    if service is None:
        return FIGURES, lambda nodes: Course(nodes).figures()
    (part,) = (part for part in sim_parts() if part.name == service)
    if part.measure is None:
        measured = ", ".join(f"--{part.name}" for part in sim_parts() if part.measure is not None)
        raise click.UsageError(f"nothing is measured of --fleet with --{service}; there is {measured}")
    return part.figures, part.measure


def _table(words: Mapping[str, str], found: dict[int, dict[str, float]]) -> Iterator[str]:
    """A simple table, as reStructuredText has it: the docs hold one."""
    width, column = max(map(len, words.values())), 9
    rule = "  ".join(["=" * width, *("=" * column for _ in found)])
    yield rule
    yield "  ".join([f"{'nodes':<{width}}", *(f"{nodes:>{column},}" for nodes in found)])
    yield rule
    for key, text in words.items():
        yield "  ".join([f"{text:<{width}}", *(f"{figures[key]:>{column},.1f}" for figures in found.values())])
    yield rule


# -- words --------------------------------------------------------------------------------------------------------


def outcome_line(outcome: Outcome) -> str:
    """What became of a seed, in one line for people."""
    why = f": {outcome.what}" if outcome.what else ""
    seconds = outcome.virtual_ms / 1000
    return f"seed {outcome.seed} {outcome.verdict.value}{why} ({outcome.deliveries} deliveries, {seconds:.0f} s)"


def _command(seed: int, off: frozenset[str]) -> str:
    """What to type to see it again."""
    from distkv.sim.scenario import part_names

    return " ".join([f"distkv sim --seed {seed}", *(f"--without {name}" for name in part_names() if name in off)])


def _ranges(numbers: tuple[int, ...]) -> str:
    """Numbers as --only takes them."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts) or NO_NUMBERS


def _map(outcome: Outcome) -> dict[str, object]:
    return {
        "seed": outcome.seed,
        "verdict": outcome.verdict.value,
        "rule": outcome.rule,
        "what": outcome.what,
        "digest": outcome.digest,
        "deliveries": outcome.deliveries,
        "virtual_ms": outcome.virtual_ms,
        "reached": outcome.reached,
    }


def _sum_map(found: Sum) -> dict[str, object]:
    return {
        "verdicts": {verdict.value: count for verdict, count in sorted(found.verdicts.items())},
        "deliveries": found.deliveries,
        "virtual_ms": found.virtual_ms,
        "reached": dict(sorted(found.reached.items())),
        "holes": found.holes(),
        "failed": [_map(outcome) for outcome in found.failed],
        "rejected": [outcome.seed for outcome in found.rejected],
    }
