"""Which events are looked at for a lag, and what their times say."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import count, is_within
from distkv.spark.reporting.lag import newest, spent

TICKS = st.dictionaries(
    st.sampled_from([NodeName(name) for name in "abc"]),
    st.sets(st.integers(1, 60), min_size=1).map(lambda ticks: Ranges.from_ticks(sorted(ticks))),
)


@given(TICKS, st.integers(0, 100))
def test_latest_ticks_are_as_many_as_may_be_and_the_highest_of_each_node(
    ticks: dict[NodeName, Ranges], count_max: int
) -> None:
    found = newest(ticks, count_max)
    assert count(found) == min(count_max, count(ticks))
    assert is_within(found, ticks)
    for node, some in found.items():
        assert list(some) == list(ticks[node])[-len(some) :]


@given(TICKS, st.integers(0, 100))
def test_no_node_gives_more_than_its_share_while_another_has_some_left(
    ticks: dict[NodeName, Ranges], count_max: int
) -> None:
    found = newest(ticks, count_max)
    sizes = {node: len(found.get(node, ())) for node in ticks}
    for node, some in sizes.items():
        if some < len(ticks[node]):
            assert max(sizes.values()) <= some + 1


def test_time_that_is_not_known_or_cannot_be_is_none() -> None:
    made = pa.array([1.7e9, 1.7e9, 0.0, 1.7e9])
    micros = [1_700_000_001_500_000, None, 1_700_000_000_000_000, 1_699_999_999_000_000]
    came = pa.array(micros, pa.timestamp("us", "UTC"))
    assert spent(made, came).to_pylist() == [1.5, None, None, -1.0]
