"""The page about the membership layer names its frames, codes and sizes as the code has them."""

from __future__ import annotations

from distkv.swim.seal import HEADER_BYTES, KeyedSeal
from distkv.wire.swim_frames import FrameType, JoinCode
from distkv.wire.swim_records import KeyAction, MemberState
from tests.tidy.documents import DOCS, rows, section

PAGE = DOCS / "swim.rst"
NAMES = {FrameType.PING_REQUEST: "Ping", FrameType.PING_RESPONSE: "Pong"}
"""Those that are called otherwise in the code."""


def test_page_has_each_frame_with_its_type() -> None:
    shown = {row[0]: row[1] for row in rows(section(PAGE, "Frames")) if row[0].isdecimal()}
    names = {kind: NAMES.get(kind, kind.name.title().replace("_", "")) for kind in FrameType}
    assert shown == {str(kind.value): name for kind, name in names.items()}


def test_page_has_each_code_of_a_refusal() -> None:
    shown = {row[0]: row[1] for row in rows(section(PAGE, "Who may join")) if row[0].isdecimal()}
    assert shown == {str(code.value): code.name.lower() for code in JoinCode}


def test_page_has_each_state_and_action() -> None:
    text = " ".join([row[1] for row in rows(section(PAGE, "What travels"))])
    for kind in (MemberState, KeyAction):
        assert ", ".join([f"{one.value} {one.name.lower()}" for one in kind]) in text


def test_page_has_the_header_of_sealed_datagrams() -> None:
    sizes = [int(row[0]) for row in rows(section(PAGE, "Sealed")) if row[0].isdecimal()]
    assert sum(sizes) == KeyedSeal.overhead > HEADER_BYTES
