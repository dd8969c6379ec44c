"""Whatever members and strangers say, in whatever order, a machine does not raise, and keeps what it promises.

Knows: frames of a small world, in which names, generations and starts often meet.  Does not know what should come of
them.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distkv.swim.inputs import Datagrams, Dropped, KnownNodes, LeaveGroup, Noticed, SayMessage, Seeds, SwimInput, Woke
from distkv.wire.swim_frames import (
    DOMAIN,
    Frame,
    GossipFrame,
    JoinAck,
    JoinNak,
    JoinRequest,
    Leave,
    Nack,
    PingFrame,
    PongFrame,
    encode_frame,
)
from distkv.wire.swim_records import MemberState, NodeId, NodeRecord, Payload, Rumour, UserMessage
from tests.swim_net import Spoken, place, record_of, spoken

_NAMES = st.sampled_from(["lamp", "desk", "sofa", "vase"])
_GENERATIONS = st.sampled_from([0, 1 << 20, (1 << 20) + 1, 1 << 21, 2**63 - 1])
_STARTS = st.sampled_from([b"lamp....", b"desk....", b"sofa....", b"another1"])
_NUMBERS = st.integers(0, 4)
_IDS = st.builds(NodeId, _NAMES, _GENERATIONS)
_RECORDS = st.builds(
    lambda name, generation, start, number: NodeRecord(name, generation, start, (f"10.0.0.{number + 1}:7000",)),
    _NAMES, _GENERATIONS, _STARTS, _NUMBERS,
)  # fmt: skip
_STATES = st.sampled_from(MemberState)
_RUMOURS = st.one_of(
    st.builds(lambda state, record, by: Rumour(state, record.id, by, record), _STATES, _RECORDS, _NAMES),
    st.builds(Rumour, st.sampled_from([MemberState.SUSPECT, MemberState.DEAD, MemberState.LEFT]), _IDS, _NAMES),
)
_MESSAGES = st.builds(UserMessage, _NAMES, _STARTS, st.integers(1, 5), st.just(1), st.just(b"m"))
_PAYLOADS = st.builds(
    Payload,
    rumours=st.lists(_RUMOURS, max_size=3).map(tuple),
    table=st.none() | st.just(5),
    page=st.integers(0, 5),
    sample=st.lists(_RUMOURS, max_size=3).map(tuple),
    messages=st.lists(_MESSAGES, max_size=2).map(tuple),
)
_SEQS = st.integers(0, 2**32 - 1) | st.integers(0, 3)
_FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(PingFrame, _IDS, _IDS, _SEQS, st.integers(0, 5), _PAYLOADS),
    st.builds(PongFrame, _IDS, _IDS, _SEQS, st.integers(0, 5), _PAYLOADS),
    st.builds(GossipFrame, _IDS, _PAYLOADS),
    st.builds(Nack, _IDS, _IDS, _SEQS),
    st.builds(Leave, _RECORDS),
    st.builds(JoinAck, _RECORDS),
    st.builds(JoinRequest, _RECORDS, st.just(b""), st.just(b""), st.just("fleet")),
    st.builds(JoinNak, st.just(DOMAIN), st.integers(0, 9), st.sampled_from([b"", b"10.0.0.3:7000", b"\xff"])),
)
_INPUTS: st.SearchStrategy[SwimInput | tuple[int, Frame]] = st.one_of(
    st.tuples(_NUMBERS, _FRAMES),
    st.tuples(_NUMBERS, _FRAMES),
    st.builds(Woke),
    st.builds(Noticed, _NAMES, st.booleans()),
    st.builds(Dropped, st.just(3)),
    st.just(Seeds((place(1), place(3)))),
    st.just(KnownNodes({"desk": place(1), "vase": place(3)})),
    st.just(SayMessage(1, b"m")),
)
_STEPS = st.lists(st.tuples(_INPUTS, st.sampled_from([0, 1, 100, 300, 500, 5_000, 100_000_000])), max_size=30)


def _play(machine: Spoken, steps: list[tuple[SwimInput | tuple[int, Frame], int]]) -> None:
    """Some inputs, and time between them; what the machine asks is answered now and then by its number."""
    generation = machine.machine.own.generation
    for item, ms in steps:
        if isinstance(item, tuple):
            number, frame = item
            item = Datagrams(((place(number), encode_frame(frame)),))
        step = machine.step(item)
        machine.machine.check()
        assert step.wake_ms >= machine.now_ms
        assert machine.machine.own.generation >= generation
        generation = machine.machine.own.generation
        machine.now_ms += ms


@given(_STEPS)
def test_machine_keeps_what_it_promises(steps: list[tuple[SwimInput | tuple[int, Frame], int]]) -> None:
    machine = spoken()
    token = machine.hear(1, JoinRequest(record_of("desk", 1), b"", b"", "fleet"))[0][1]
    assert isinstance(token, JoinNak)
    machine.hear(1, JoinRequest(record_of("desk", 1), token.etag, b"", "fleet"))
    _play(machine, steps)
    own = [one for one in machine.machine.members() if one.node == "lamp"]
    assert [one.state for one in own] == [MemberState.ALIVE]
    _play(machine, [(LeaveGroup(), 0), *steps])
