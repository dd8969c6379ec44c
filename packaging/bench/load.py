"""The load generators: built from `load.c`, `fanout.c`, `tokens.c` and `topics.c`, run, and their line of JSON read.

Knows: the arguments and the answers of the generators.  Does not know which cells there are.

Invariant: a `Load` that exists was measured to its end; whether it may be used, `failure` says.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import attrs

Verb = Literal["get", "set", "fill"]

SOURCES: Final = Path(__file__).parent
VALUE_BYTES: Final = 100
SAMPLES_DEPTH: Final = 400
RUN_S: Final = 120.0
"""What a run may take beyond the time that it is asked for: it drains, and `fill` takes as long as it takes."""


class LoadError(Exception):
    """The generator could not be built, or did not come to its end."""


@attrs.frozen
class Load:
    """What one run of the generator saw."""

    ops: int
    """Right answers in the time that counts."""
    seconds: float
    p50_us: int
    p99_us: int
    acknowledged: int
    """Right answers in the whole run, the warm-up too."""
    errors: int
    """Error replies: no operations."""
    wrong: int
    """Replies that are not the one to their request, or show another value."""
    checked: int
    """How many of the acknowledged keys were read back over a new connection; the wrong ones are in `wrong`."""
    busy: float
    """The part of the time in which the generator itself used a processor: near 1 it, not the server, was measured."""
    note: str
    """The first bad reply."""
    resyncs: int = 0
    """Of a fan-out: how often a watcher was told to begin anew. What it was shown then is no operation."""

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.ops / self.seconds if self.seconds > 0 else 0.0

    @property
    def failure(self) -> str:
        """Why this run is not to be used; empty when it is."""
        if self.errors or self.wrong:
            return f"{self.errors} error replies, {self.wrong} wrong ones, first: {self.note[:160]}"
        return "" if self.ops else "no operation was completed"


def read_load(line: str) -> Load:
    """The generator's answer.

    Raises:
        LoadError: it is none.
    """
    try:
        return Load(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise LoadError(f"the generator answered {line[:200]!r}") from error


@attrs.frozen
class Generator:
    """The generators, built."""

    load: Path
    fanout: Path
    tokens: Path
    topics: Path

    def run(
        self,
        protocol: str,
        port: int,
        verb: Verb,
        *,
        connections: int = 1,
        depth: int = 1,
        seconds: float = 0.0,
        keys: int,
        family: str,
        tag: int,
    ) -> Load:
        """Load the server at `port` of loopback.

        Args:
            protocol: distkv, redis or etcd; or distkv in another way: numbers, with names that are numbers; fenced,
                with sets under a fence; held, with sets that are answered when three nodes hold them (held2: two).
            port: where it listens.
            verb: `fill` writes every key once, whatever `seconds` says.
            connections: how many there are.
            depth: requests under way on each.
            seconds: how long; the first 15 % are not counted.
            keys: how many different ones.
            family: one letter, the first of every key.
            tag: a number that is in every value; `get` expects it there.

        Raises:
            LoadError: the server went away, or is silent.
        """
        words = [port, protocol, verb, connections, depth, seconds, keys, family, tag, VALUE_BYTES]
        return _run([str(self.load), *map(str, words)], seconds)

    def fan_out(
        self,
        protocol: str,
        port: int,
        *,
        watchers: int,
        depth: int,
        seconds: float,
        tag: int,
        watched: Sequence[int] = (),
        paths: int = 1000,
        pause_s: float = 0.0,
    ) -> Load:
        """One writer and many watchers; an operation is the delivery of one message to one of them.

        Args:
            protocol: distkv, redis, nats, or activity, for the listener of a node.
            port: where the writer writes, on loopback.
            watchers: how many connections watch the same; none: the answer to each message is an operation.
            depth: a message is under way until it is answered and every watcher has it.
            seconds: how long; the first 15 % are not counted.
            tag: a number that is in every message, and names what is watched.
            watched: the ports at which the watchers watch in turn; none: that of the writer.
            paths: how many are written below the one that is watched (distkv).
            pause_s: before each message a random pause, so long on average.

        Raises:
            LoadError: the server went away, is silent, or a watcher did not get everything.
        """
        ports = ",".join(map(str, watched or (port,)))
        words = [port, protocol, watchers, depth, seconds, tag, VALUE_BYTES, ports, paths, round(1e6 * pause_s)]
        return _run([str(self.fanout), *map(str, words)], seconds)

    def lock(
        self,
        protocol: str,
        port: int,
        mode: Literal["alone", "handed"],
        *,
        connections: int,
        names: int,
        seconds: float,
        tag: int,
    ) -> Load:
        """Acquire and release tokens; an operation is a grant and the release after it.

        Args:
            protocol: distkv or etcd.
            port: where it listens on loopback.
            mode: whether each connection has tokens of its own, or all want the same one.
            connections: how many there are, each with a session of its own.
            names: how many tokens each has of its own, which it takes in turn.
            seconds: how long; the first 15 % are not counted.
            tag: a number that is in the name of every token.

        Raises:
            LoadError: the server went away, or is silent.
        """
        words = [port, protocol, mode, connections, names, seconds, tag]
        return _run([str(self.tokens), *map(str, words)], seconds)

    def put(
        self,
        protocol: str,
        port: int,
        verb: Literal["put", "get", "tell"],
        *,
        connections: int,
        depth: int,
        seconds: float,
        count: int,
        copies: int,
        tag: int,
    ) -> Load:
        """Put messages, get what waits, or tell one who waits for each.

        Args:
            protocol: distkv, redis or nats.
            port: where it listens on loopback.
            verb: what an operation is: a put, a message that is got, or one that a get had waited for.
            connections: how many there are, each a producer of its own.
            depth: puts under way on each.
            seconds: how long; the first 15 % are not counted. `get` takes as long as it takes.
            count: how many messages are got; or the port at which they are waited for.
            copies: how many there are to be of each, at the least.
            tag: a number that is in the name of the topic.

        Raises:
            LoadError: the server went away, or is silent.
        """
        words = [port, protocol, verb, connections, depth, seconds, count, copies, tag, VALUE_BYTES]
        return _run([str(self.topics), *map(str, words)], seconds)

    @contextmanager
    def sampling(self, port: int, watched: Sequence[int], *, tag: int, pause_s: float) -> Iterator[Sampling]:
        """While the block runs, set now and then on one node, and see when these others tell it; all of that counts."""
        ports = ",".join(map(str, watched))
        words = [port, "distkv", len(watched), SAMPLES_DEPTH, 0, tag, VALUE_BYTES, ports, 1000, round(1e6 * pause_s)]
        command = [str(self.fanout), *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield Sampling(process)
            finally:
                process.kill()


@attrs.frozen
class Sampling:
    """A fan-out that runs beside what is measured."""

    process: subprocess.Popen[str]

    def stop(self) -> None:
        """No more sets."""
        self.process.terminate()

    def end(self) -> Load:
        """What it saw, when all of it has arrived; it was stopped before.

        Raises:
            LoadError: a server went away, is silent, or a watcher did not get everything.
        """
        try:
            out, err = self.process.communicate(timeout=RUN_S)
        except subprocess.TimeoutExpired as error:
            raise LoadError("the samples did not end") from error
        if self.process.returncode:
            raise LoadError(f"samples: {err.strip()}")
        return read_load(out)


def build(directory: Path) -> Generator:
    """Compile them into `directory`.

    Raises:
        LoadError: the compiler is missing, or refuses.
    """
    return Generator(*(compiled(name, directory) for name in ("load", "fanout", "tokens", "topics")))


def _run(command: list[str], seconds: float) -> Load:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + RUN_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"{' '.join(command)} did not end") from error
    if done.returncode:
        raise LoadError(f"{' '.join(command)}: {done.stderr.strip()}")
    return read_load(done.stdout)


def compiled(name: str, directory: Path) -> Path:
    """One of the programs, by the name of its source.

    Raises:
        LoadError: the compiler is missing, or refuses.
    """
    program = directory / f"generator-{name}"  # the parts have directories of their names beside it
    command = ["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-o", str(program), str(SOURCES / f"{name}.c")]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise LoadError("there is no C compiler: apt-get install gcc libc6-dev") from error
    except subprocess.CalledProcessError as error:
        raise LoadError(f"{' '.join(command)}:\n{error.stderr}") from error
    return program
