"""The order of beliefs is a join, and no bytes make a machine raise.

Knows: any beliefs, any datagrams.  Does not know what they mean.
"""

from __future__ import annotations

from functools import reduce
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from distkv.swim.inputs import Datagrams, Woke
from distkv.swim.members import Belief, joined
from distkv.wire.swim_frames import FrameType, PingFrame, encode_frame
from distkv.wire.swim_records import MemberState, NodeId, NodeRecord
from tests.swim_net import place, record_of, spoken

_RECORDS = st.builds(
    NodeRecord,
    node=st.just("lamp"),
    generation=st.integers(0, 3),
    start=st.sampled_from([b"11111111", b"22222222"]),
    addresses=st.sampled_from([("10.0.0.1:7000",), ("10.0.0.2:7000",)]),
)
_BELIEFS = st.builds(Belief, st.integers(0, 3), st.sampled_from(MemberState), _RECORDS)


@given(st.lists(_BELIEFS, min_size=1, max_size=4))
def test_order_of_words_does_not_matter(some: list[Belief]) -> None:
    """docs/protocol, SWIM-20."""
    found = {reduce(joined, order) for order in permutations(some)}
    assert len(found) == 1


@given(_BELIEFS, _BELIEFS)
def test_belief_never_goes_back(mine: Belief, theirs: Belief) -> None:
    """docs/protocol, SWIM-20."""
    after = joined(mine, theirs)
    assert joined(after, mine) == joined(after, theirs) == after
    assert (after.generation, after.state) >= (mine.generation, mine.state)


_FRAMES = st.sampled_from([*FrameType]).map(lambda kind: bytes([kind]))


@given(st.lists(st.tuples(_FRAMES | st.just(b""), st.binary(max_size=80)), max_size=20))
def test_no_bytes_make_a_machine_raise(parts: list[tuple[bytes, bytes]]) -> None:
    machine = spoken()
    ping = encode_frame(PingFrame(record_of("desk", 1).id, NodeId("lamp", 1), 1))
    items = [(place(1), kind + rest) for kind, rest in parts]
    items += [(place(1), ping[: len(rest)] + rest) for _, rest in parts]
    step = machine.step(Datagrams(tuple(items)))
    machine.step(Woke())
    machine.machine.check()
    assert len(step.datagrams) <= len(items)
    assert [one.node for one in machine.machine.members()] == ["lamp"]
