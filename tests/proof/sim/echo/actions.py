"""What clients of the echo do, and how a scenario file writes it.

Knows: which actions there are.  Does not know how they are carried out (`crowd`).
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.sim import forms
from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.forms import Verb, mention, option
from tests.proof.core.echo.machine import ECHO


@attrs.frozen
class AskEcho(ServiceAction):
    """A client asks a node for the echo of another one."""

    service = ECHO
    node: str
    other: str
    text: str
    is_early: bool = False
    """Whether the question does not wait for the disk."""


@attrs.frozen
class SealEcho(ServiceAction):
    """A client has a node seal a text."""

    service = ECHO
    node: str
    text: str


@attrs.frozen
class HoldEcho(ServiceAction):
    """A client has a node write an entry under the fence of a token."""

    service = ECHO
    node: str
    token: str


@attrs.frozen
class NameEcho(ServiceAction):
    """A client gives a name to all, or takes it away."""

    service = ECHO
    node: str
    name: str
    text: str | None = None


@attrs.frozen
class KeepEcho(ServiceAction):
    """A client has a node keep a row, or let it go."""

    service = ECHO
    node: str
    key: str
    text: str | None = None


@attrs.frozen
class ShoutEcho(ServiceAction):
    """A client has a node say a text to all others, so many times."""

    service = ECHO
    node: str
    text: str
    times: int = 1


@attrs.frozen
class NoteEcho(ServiceAction):
    """A client has a text noted under a name, by the node that keeps it."""

    service = ECHO
    node: str
    name: str
    text: str
    is_once: bool = False
    """Whether it must not be noted twice."""
    leaves: bool = False
    """Whether the client does not wait for the answer."""
    has_effects: bool = False
    """Whether it is told, when it waits in vain, that it may be noted."""


@attrs.frozen
class ListEcho(ServiceAction):
    """A client asks for the notes of all nodes."""

    service = ECHO
    node: str
    after: str = ""


@attrs.frozen
class ShowNames(ShowService):
    """Show which names each node has."""

    service = ECHO


VERBS: Final = (
    Verb("ask-echo", AskEcho, (
        mention("node"), mention("other"), forms.text("text", "the text"), forms.flag("early", "is_early"),
    )),
    Verb("seal-echo", SealEcho, (mention("node"), forms.text("text", "the text"))),
    Verb("hold-echo", HoldEcho, (mention("node"), forms.text("token", "the token"))),
    Verb("name-echo", NameEcho, (
        mention("node"), forms.text("name", "the name"), option("is", forms.text("text", "the text")),
    )),
    Verb("keep-echo", KeepEcho, (
        mention("node"), forms.text("key", "the key"), option("is", forms.text("text", "the text")),
    )),
    Verb("shout-echo", ShoutEcho, (
        mention("node"), forms.text("text", "the text"), option("times", forms.count("times")),
    )),
    Verb("note-echo", NoteEcho, (
        mention("node"), forms.text("name", "the name"), forms.text("text", "the text"), forms.flag("once", "is_once"),
        forms.flag("leaves", "leaves"), forms.flag("effects", "has_effects"),
    )),
    Verb("list-echo", ListEcho, (mention("node"), option("after", forms.text("after", "the name")))),
    Verb("names", ShowNames),
)  # fmt: skip
