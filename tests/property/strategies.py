"""Hypothesis strategies for everything that the store keeps and that nodes say: what is drawn is always well-formed.

Few node names and lives by default, so that what is drawn meets: equal paths, chains that contain one another.
Events, messages and ranges compare by `repr`, which shows all they hold; `Event` itself compares by identity.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

from hypothesis import strategies as st

from distkv.model.event import (
    COUNT_BITS,
    LIFE_MAX,
    TICK_MAX,
    TOCK_HEARD_MAX,
    Chain,
    Event,
    Kind,
    Link,
    NodeName,
    Tick,
    Tock,
    new_event,
)
from distkv.model.fence import FENCE_MAX, NO_FENCE, Fence
from distkv.model.pages import Page
from distkv.model.path import Name, Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.model.tick_ranges import TickRanges, up_to
from distkv.wire.account_requests import AccountList, AccountRemove, AccountRequest
from distkv.wire.activity import ActivityPlace, ActivityWho
from distkv.wire.codec import Payload
from distkv.wire.decisions import Dismiss, GetConflicts, Restore
from distkv.wire.edges import FramesAcked, SignOfLife, SubtreeHeight
from distkv.wire.message import (
    CeilingRecord,
    DataRecord,
    EventBatch,
    EventRecord,
    Header,
    Info,
    KnownRecord,
    LifeRecord,
    LostRecord,
    Message,
    Ping,
    PingLink,
    PullEnd,
    PurgeRecord,
    Record,
    ReleaseRecord,
    ResetRecord,
    SlotRecord,
    SnapshotHead,
    StaleRecord,
    Start,
    TickMap,
    TickMaps,
    Tombstone,
    Update,
)
from distkv.wire.node_requests import (
    Backup,
    ChangeKey,
    DecideAside,
    GetKeys,
    GetMembers,
    GetState,
    LookForDamage,
    PingRequest,
    RetireNodeRequest,
    Stop,
    TraceSteps,
)
from distkv.wire.packing import ExtType, Timestamp
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.request import (
    Attach,
    EventsWait,
    ExchangeRequest,
    Follow,
    GetChanges,
    GetEvents,
    GetPages,
    GetSnapshot,
    HeldRequest,
    Lend,
    NodeTell,
    Request,
    TreeSay,
)
from distkv.wire.subtrees import DeleteTree, GetTree, ListNames, Watch
from distkv.wire.swim_records import KeyAction
from distkv.wire.topic_fields import OP_MAX
from distkv.wire.topic_requests import (
    TopicDrop,
    TopicGet,
    TopicList,
    TopicPut,
    TopicRequest,
    TopicSet,
    TopicShow,
    TopicSubscribe,
    TopicUnsubscribe,
)
from distkv.wire.value_requests import Batch, GetHistory, GetValue, GetValueAt, SetValue
from distkv.wire.values import pack_value

FEW_NODES = ("a", "b", "c", "node-4.example_x")
FEW_LIVES = (0, 1, 77_000_000, LIFE_MAX)

# -- values -------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
integers = st.one_of(st.integers(-200, 200), st.integers(-(2**63), 2**64 - 1))
timestamps = st.builds(Timestamp, st.integers(-(2**63), 2**63 - 1), st.integers(0, 10**9 - 1))
extensions = st.builds(ExtType, st.integers(0, 127), st.binary(max_size=20))
scalars: st.SearchStrategy[object] = st.one_of(
    st.booleans(), integers, st.floats(), texts, st.binary(max_size=20), extensions, timestamps
)
"""Everything but nil, which as a whole value deletes."""

values: st.SearchStrategy[object] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner | st.none(), max_size=5) | st.dictionaries(scalars | st.none(), inner | st.none(), max_size=5)
    ),
    max_leaves=12,
)
"""Every Python value that may be stored."""

raw_values = values.map(pack_value)
"""Canonical bytes of any storable value."""

small_raw_values = st.integers(0, 3).map(pack_value)
"""A few values, so that equal ones are drawn."""

# -- paths --------------------------------------------------------------------------------------------------------

names: st.SearchStrategy[Name] = st.one_of(
    texts, st.binary(max_size=8), integers, st.floats(allow_nan=False), st.booleans(), st.none()
)
"""All types of names, those included which Python takes for one another."""

paths = st.lists(names, max_size=6).map(Path)
few_paths = st.sampled_from([Path(), Path(["x"]), Path(["x", "y"]), Path([1]), Path([True]), Path([None, "node", "a"])])

# -- ticks --------------------------------------------------------------------------------------------------------

any_node_names = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=63)
node_names = (st.sampled_from(FEW_NODES) | any_node_names).map(NodeName)
lives = st.sampled_from(FEW_LIVES) | st.integers(0, LIFE_MAX)
counts = st.integers(1, 40) | st.integers(1, 2**COUNT_BITS - 1)
ticks = st.builds(lambda life, count: Tick((life << COUNT_BITS) + count), lives, counts)
tocks = (st.integers(0, 100) | st.integers(0, TOCK_HEARD_MAX)).map(Tock)
times = st.floats(0, 4e9) | st.floats(allow_nan=False, allow_infinity=False)
ttls = st.floats(0, 1e9, exclude_min=True)
links: st.SearchStrategy[Link] = st.tuples(node_names, ticks)


def _writer(link: Link) -> tuple[NodeName, int]:
    return link[0], link[1] >> COUNT_BITS


def chains_of(link: st.SearchStrategy[Link], *, max_size: int = 6) -> st.SearchStrategy[Chain]:
    """Chains in which every (node, life) appears once."""
    return st.lists(link, min_size=1, max_size=max_size, unique_by=_writer).map(tuple)


chains = chains_of(links)


@st.composite
def ranges(draw: st.DrawFn) -> Ranges:
    """Non-empty, over one or several lives; no range crosses from one life into the next."""
    found = Ranges()
    for life in draw(st.lists(lives, min_size=1, max_size=3, unique=True)):
        for begin, length in draw(st.lists(st.tuples(counts, st.integers(1, 50)), min_size=1, max_size=5)):
            end = min(begin + length, 2**COUNT_BITS)
            found.add_range((life << COUNT_BITS) + begin, (life << COUNT_BITS) + end)
    return found


tick_ranges: st.SearchStrategy[TickRanges] = st.dictionaries(node_names, ranges(), max_size=4)
tick_lists = st.lists(ticks, min_size=1, max_size=3, unique_by=lambda tick: tick >> COUNT_BITS).map(sorted)
tick_maps: st.SearchStrategy[TickMap] = st.dictionaries(node_names, tick_lists, max_size=4)

# -- events -------------------------------------------------------------------------------------------------------


fence_numbers = st.integers(0, FENCE_MAX)
token_names = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=63)
fences = st.builds(Fence, fence_numbers, fence_numbers, fence_numbers, token_names) | st.builds(
    Fence, st.integers(1, FENCE_MAX), st.just(0), st.just(0), st.just("")
)


@st.composite
def events(
    draw: st.DrawFn,
    *,
    path: st.SearchStrategy[Path] = paths,
    chain: st.SearchStrategy[Chain] = chains,
    value: st.SearchStrategy[bytes] = raw_values,
    tock: st.SearchStrategy[Tock] = tocks,
    kinds: Sequence[Kind] = tuple(Kind),
    fence: st.SearchStrategy[Fence] | None = None,
) -> Event:
    """Any event; the arguments narrow it, for instance to `few_paths` and `small_raw_values`."""
    kind = draw(st.sampled_from(kinds))
    raw = draw(value) if kind is Kind.SET else b""
    ttl = draw(st.none() | ttls) if kind is Kind.SET else None
    where = draw(path)
    under = NO_FENCE if where.is_reserved else draw(st.just(NO_FENCE) | fences if fence is None else fence)
    return new_event(where, kind, raw, draw(chain), draw(tock), draw(times), draw(st.booleans()), ttl, under)


event_tuples = st.lists(events(), max_size=3).map(tuple)

# -- messages -----------------------------------------------------------------------------------------------------

hashes = st.binary(min_size=8, max_size=8)
digests = st.integers(0, 2**64 - 1)
states = st.sampled_from(State)
addresses = st.sampled_from(["", "127.0.0.1:27586", "[2001:db8::1]:1", "kitchen.example:65535"])
starts = st.builds(Start, times, st.integers(0, TICK_MAX))
headers = st.builds(Header, node_names, ticks | st.just(Tick(0)), tocks, lives, st.none() | hashes, st.none() | starts)
ping_links = st.builds(PingLink, node_names, ticks | st.just(Tick(0)) | st.none(), tocks)
ping_chains = st.lists(ping_links, min_size=1, max_size=5).map(tuple)

updates = st.builds(Update, headers, event_tuples)
infos = st.builds(
    Info,
    headers,
    addresses,
    states,
    ticks=st.none() | tick_maps,
    ticks_hash=st.none() | hashes,
    known=st.none() | tick_ranges,
    missing=st.none() | tick_ranges,
    lost=st.none() | tick_ranges,
    reason=st.none() | ping_chains,
    ping=st.none() | ping_chains,
)


@st.composite
def pings(draw: st.DrawFn) -> Ping:
    """The first link is the sender's own."""
    header = draw(headers)
    own = PingLink(header.node, draw(ticks | st.just(Tick(0)) | st.none()), draw(tocks))
    chain = (own, *draw(st.lists(ping_links, max_size=4)))
    return Ping(header, chain, draw(addresses), draw(states), draw(digests), draw(hashes))


messages: st.SearchStrategy[Message] = st.one_of(updates, infos, pings())

link_tuples = st.lists(links, min_size=1, max_size=3).map(tuple)
tombstones = st.builds(Tombstone, paths, link_tuples, tocks, st.booleans())
tick_map_snapshots = st.builds(
    TickMaps, headers, addresses, states, tick_maps, tick_ranges, tick_ranges, digests,
    st.lists(tombstones, max_size=3).map(tuple), st.just(()) | link_tuples, st.none() | lives, st.booleans(),
) | st.builds(
    TickMaps, headers, addresses, states, tick_maps, st.just({}), st.just({}), digests,
    behind=st.none() | lives, is_stale=st.booleans(), ticks_hash=hashes,
)  # fmt: skip
payloads: st.SearchStrategy[Payload] = st.one_of(
    tick_map_snapshots,
    st.builds(EventBatch, event_tuples),
    st.builds(PullEnd, tick_ranges, tick_ranges),
    st.builds(Page, st.none() | paths, digests, tick_ranges),
    st.builds(SnapshotHead, headers, lives, tick_maps, tick_ranges, st.integers(0, 10**9)),
)

# -- requests and records -----------------------------------------------------------------------------------------

seqs = st.integers(1, 300) | st.integers(1, TICK_MAX)
nchains = st.integers(0, 20)


@st.composite
def set_requests(draw: st.DrawFn, seq: st.SearchStrategy[int] = seqs) -> SetValue:
    """Writes and deletes, with all they may ask for."""
    value = draw(st.none() | raw_values)
    chain = draw(st.none() | st.just(()) | chains_of(links, max_size=1))
    prev = draw(st.none() | raw_values)
    new, idem, prev_value = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    ttl = None if value is None else draw(st.none() | ttls)
    return SetValue(draw(seq), draw(paths), value, chain, new, prev, idem, draw(nchains), prev_value, ttl)


topic_names = token_names
client_producers = topic_names.filter(lambda name: not name.startswith("~"))
topic_counters = st.integers(1, 50) | st.integers(1, 2**63 - 1)
topic_ops = st.integers(1, 50) | st.integers(1, OP_MAX)
counter_maps: st.SearchStrategy[dict[str, Ranges]] = st.dictionaries(
    topic_names,
    st.lists(st.tuples(st.integers(1, 200), st.integers(1, 20)), max_size=4).map(
        lambda parts: Ranges([(begin, begin + count) for begin, count in parts])
    ),
    max_size=3,
)


@st.composite
def topic_puts(draw: st.DrawFn) -> TopicPut:
    """With a producer or without."""
    seq, topic, value = draw(seqs), draw(topic_names), draw(raw_values)
    if draw(st.booleans()):
        return TopicPut(seq, topic, value)
    counter = draw(topic_counters)
    floor = draw(st.none() | st.integers(1, counter))
    return TopicPut(seq, topic, value, draw(client_producers), counter, floor, draw(st.none() | hashes))


topic_request_kinds: list[st.SearchStrategy[TopicRequest]] = [
    st.builds(TopicSubscribe, seqs, topic_names, topic_names, st.none() | topic_ops, st.none() | counter_maps),
    st.builds(TopicUnsubscribe, seqs, topic_names, topic_names, st.none() | topic_ops),
    topic_puts(),
    st.builds(
        TopicGet,
        seqs,
        topic_names,
        topic_names,
        st.lists(st.tuples(topic_names, topic_counters), max_size=4).map(tuple),
        st.integers(1, 1000),
        st.floats(0, 3600),
    ),
    st.builds(TopicShow, seqs, topic_names, st.booleans(), st.just("") | topic_names),
    st.builds(TopicList, seqs, st.just("") | topic_names, st.integers(1, 1000), st.just("") | topic_names),
    st.builds(TopicSet, seqs, topic_names, st.integers(1, 7), st.none() | st.floats(0, 1e10), st.none() | counts),
    st.builds(TopicDrop, seqs, topic_names, st.none() | topic_names, st.none(), st.booleans()),
    st.builds(TopicDrop, seqs, topic_names, st.none(), topic_names, st.booleans()),
]

usernames = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1, max_size=64)
account_request_kinds: list[st.SearchStrategy[AccountRequest]] = [
    st.builds(AccountList, seqs, st.just("") | usernames, st.integers(1, 1000), st.just("") | usernames),
    st.builds(AccountRemove, seqs, usernames),
]
activity_request_kinds: list[st.SearchStrategy[ActivityWho | ActivityPlace]] = [
    st.builds(ActivityWho, seqs, st.booleans(), st.integers(1, 1000), st.just("") | usernames.map("hut1 {}".format)),
    st.builds(ActivityPlace, seqs),
]

operations = st.one_of(st.builds(GetValue, st.just(0), paths, nchains), set_requests(st.just(0)))

request_kinds: Sequence[st.SearchStrategy[Request]] = (
    st.builds(Batch, seqs, st.lists(operations, max_size=5).map(tuple)),
    st.builds(
        GetTree, seqs, paths, st.integers(0, 65), st.integers(0, 64), nchains, st.none() | st.integers(0, 2**31 - 1)
    ),
    st.builds(
        Watch,
        seqs,
        paths,
        st.booleans(),
        st.none() | st.binary(max_size=40),
        st.integers(0, 65),
        st.integers(0, 64),
        st.booleans(),
    ),
    st.builds(Stop, seqs, seqs),
    st.builds(HeldRequest, seqs, seqs, st.dictionaries(node_names, ticks, max_size=3), st.booleans()),
    st.builds(Lend, seqs, node_names, st.integers(0, LIFE_MAX), st.binary(min_size=8, max_size=8)),
    st.builds(
        ListNames, seqs, paths, st.none() | st.integers(1, 2**31 - 1), st.none() | names.map(lambda one: Path([one]))
    ),
    st.builds(DeleteTree, seqs, paths),
    st.builds(GetValueAt, seqs, paths, times, nchains),
    st.builds(GetHistory, seqs, paths, st.none() | st.integers(0, 2**31 - 1), st.none() | st.integers(0, TICK_MAX)),
    st.builds(
        GetConflicts, seqs, paths, st.none() | paths, st.none() | st.integers(1, 2**31 - 1), st.booleans()
    ),
    st.builds(Restore, seqs, links, st.none() | links, paths, nchains, st.booleans()),
    st.builds(Dismiss, seqs, links, st.none() | links, paths, nchains),
    st.builds(GetValue, seqs, paths, nchains),
    set_requests(),
    st.builds(ReplicatedWrite, set_requests(), st.integers(1, 1024), st.floats(0, 3600)),
    st.builds(GetState, seqs),
    st.builds(Backup, seqs),
    st.builds(PingRequest, seqs),
    st.builds(GetMembers, seqs),
    st.builds(GetKeys, seqs),
    st.builds(ChangeKey, seqs, st.just(KeyAction.INSTALL), st.binary(min_size=32, max_size=32)),
    st.builds(ChangeKey, seqs, st.sampled_from([KeyAction.USE, KeyAction.REMOVE]), st.binary(min_size=4, max_size=4)),
    st.builds(RetireNodeRequest, seqs, node_names, st.booleans()),
    st.builds(DecideAside, seqs, st.text(max_size=20), st.booleans()),
    st.builds(LookForDamage, seqs, st.booleans()),
    st.builds(TraceSteps, seqs),
    st.builds(Attach, seqs, node_names, st.integers(0, LIFE_MAX), st.floats(0.1, 3600)),
    st.builds(
        TreeSay, seqs, seqs,
        st.just(SignOfLife()) | st.builds(FramesAcked, st.integers(0, TICK_MAX)) | st.builds(SubtreeHeight, st.just(2)),
        st.booleans(),
    ),
    st.builds(
        GetEvents,
        seqs,
        tick_ranges,
        tick_ranges,
        st.none() | tick_maps,
        st.none() | st.integers(1, 20_000),
        st.none() | hashes,
    ),
    st.builds(GetPages, seqs, st.integers(1, 1000), st.none() | paths, st.none() | paths, st.none() | hashes),
    st.builds(
        EventsWait,
        seqs,
        st.dictionaries(node_names, ticks | st.just(0)).map(up_to) | tick_ranges,
        st.floats(0, 3600),
        st.booleans(),
    ),
    st.builds(
        Follow,
        seqs,
        st.dictionaries(node_names, ticks | st.just(0)),
        st.floats(0.1, 3600),
        node_names,
        lives,
        st.none() | hashes,
    ),
    st.builds(
        NodeTell,
        seqs,
        st.text(min_size=1, max_size=8),
        node_names,
        lives,
        st.lists(st.binary(max_size=20), min_size=1, max_size=4).map(tuple),
        st.none() | hashes,
        st.booleans(),
    ),
    st.builds(GetChanges, seqs, tick_ranges, paths, st.booleans()),
    st.builds(GetSnapshot, seqs, node_names, times, addresses),
    st.builds(ExchangeRequest, seqs, tick_map_snapshots),
    *topic_request_kinds,
    *account_request_kinds,
    *activity_request_kinds,
)
"""One for each kind; those about tokens are in `test_wire_tokens`."""

requests: st.SearchStrategy[Request] = st.one_of(*request_kinds)

records: st.SearchStrategy[Record] = st.one_of(
    st.builds(EventRecord, events(), times),
    st.builds(KnownRecord, tick_ranges),
    st.builds(LostRecord, tick_ranges),
    st.builds(LifeRecord, node_names, lives),
    st.just(ResetRecord()),
    st.builds(CeilingRecord, tocks),
    st.builds(PurgeRecord, paths, link_tuples),
    st.builds(ReleaseRecord, tick_ranges),
    st.builds(StaleRecord, st.booleans()),
    st.builds(SlotRecord, st.text(max_size=8), st.text(max_size=8), st.none() | st.binary(max_size=20)),
    st.builds(DataRecord, st.text(max_size=8), st.text(max_size=8), st.none() | st.binary(max_size=20)),
)

# -- what hostile or broken senders make of it --------------------------------------------------------------------


@st.composite
def mutated(draw: st.DrawFn, valid: st.SearchStrategy[bytes]) -> bytes:
    """Valid bytes of which some are cut off, overwritten, inserted or repeated."""
    data = bytearray(draw(valid))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "overwrite", "insert", "repeat"])):
            case "cut":
                del data[at:]
            case "overwrite":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=5))
            case _:
                data[at:at] = data[: draw(st.integers(0, 20))]
    return bytes(data)


odd_objects: st.SearchStrategy[object] = st.one_of(
    values,
    st.none(),
    st.sampled_from(
        [True, False, 0, -1, 1.0, 2**63, 2**64 - 1, "", b"", [], {}, [[]], "1", float("nan"), float("inf")]
    ),
)
"""What a field may hold that should hold something else."""
