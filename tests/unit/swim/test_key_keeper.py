"""Keys change in a fleet that runs: nobody falls out, and each node writes them before it uses them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from distkv.sim.swim.net import BareNode, SwimNet
from distkv.swim.inputs import ChangeKeys, Datagrams, KeysChanged, KeysKept, KeysRefused, MemberChanged, SwimSettings
from distkv.swim.key_changes import RETRY_MS
from distkv.swim.keyring import Keyring, key_id
from distkv.swim.machine import SwimMachine
from distkv.swim.seal import KeyedSeal
from distkv.wire.swim_frames import GossipFrame, encode_frame
from distkv.wire.swim_records import KeyAction, KeyChange, MemberState, NodeRecord, Payload
from tests.swim_net import check, is_whole, place, said, spoken

ONE, TWO, THREE = (bytes((number,)) * 32 for number in (1, 2, 3))
INSTALL, USE, REMOVE = KeyAction
SECOND_MS = 1000


class _House:
    """A fleet with a secret, in which each node writes its file as soon as it is asked to."""

    def __init__(self, number: int, *keys: bytes) -> None:
        self.net = SwimNet(1)
        self.files: dict[str, Keyring] = {}
        self.broken = set[str]()
        """Whose file cannot be written."""
        for one in range(number):
            self.begin(one, Keyring(keys))
        assert self.net.run_until(lambda: is_whole(self.net), 60 * SECOND_MS) is not None

    def begin(self, number: int, keyring: Keyring, *, is_fixed: bool = False) -> BareNode:
        name, address, rng = f"n{number}", place(number), self.net.rng
        start = rng.randbytes(8)
        record = NodeRecord(name, self.net.now_ms << 16, start, (f"{address[0]}:{address[1]}",), keys=keyring.ids)
        seal = KeyedSeal(keyring, "fleet", start, rng.randbytes)
        machine = SwimMachine(
            record, SwimSettings("fleet"), seal, Random(number), rng.randbytes(32), keyring, is_fixed=is_fixed
        )
        self.files[name] = keyring
        return self.net.start(BareNode(name, address, machine), [place(0)])

    def say(self, name: str, action: KeyAction, key: bytes) -> str | None:
        """The operator says it at a node; why it is refused."""
        node = self.net.nodes[name]
        before = len(node.reports)
        self.net.hand(node, ChangeKeys(action, key if action is INSTALL else key_id(key)))
        refused = [report for _, report in node.reports[before:] if isinstance(report, KeysRefused)]
        self.write()
        return refused[0].text if refused else None

    def write(self) -> None:
        for node in self.net.running():
            wanted = [report for _, report in node.reports if isinstance(report, KeysChanged)]
            node.reports = [one for one in node.reports if not isinstance(one[1], KeysChanged)]
            if wanted and node.label not in self.broken:
                self.files[node.label] = Keyring(wanted[-1].keys)
                self.net.hand(node, KeysKept(self.files[node.label]))

    def run(self, seconds: int) -> None:
        for _ in range(10 * seconds):
            self.net.run(SECOND_MS // 10)
            self.write()
        check(self.net)

    def keys(self, but: Iterable[str] = ()) -> set[tuple[bytes, ...]]:
        """Those that are in the files."""
        return {self.files[node.label].keys for node in self.net.running() if node.label not in but}

    def suspected(self) -> list[str]:
        """Who was ever held for anything but alive."""
        found = [report.member for node in self.net.running() for report in said(node, MemberChanged)]  # type: ignore[attr-defined]
        return [member.node for member in found if member.state is not MemberState.ALIVE]


def test_keys_rotate_and_nobody_is_suspected() -> None:
    """docs/protocol, SWIM-47."""
    house = _House(5, ONE)
    for action, key, keys in ((INSTALL, TWO, (ONE, TWO)), (USE, TWO, (TWO, ONE)), (REMOVE, ONE, (TWO,))):
        assert house.say("n1", action, key) is None
        house.run(10)
        assert house.keys() == {keys}
    assert house.suspected() == []
    assert is_whole(house.net)


def test_records_tell_who_has_which_keys() -> None:
    house = _House(3, ONE)
    house.say("n1", INSTALL, TWO)
    house.run(10)
    ids = {member.keys for node in house.net.running() for member in node.machine.members()}
    assert ids == {Keyring((ONE, TWO)).ids}


def test_node_that_was_away_during_use_comes_back_and_follows() -> None:
    house = _House(4, ONE)
    house.net.kill("n3")
    for action in (INSTALL, USE):
        assert house.say("n1", action, TWO) is None
        house.run(10)
    house.begin(3, Keyring((ONE,)))
    house.run(20)
    assert is_whole(house.net)
    assert house.keys() == {(TWO, ONE)}


def test_node_that_was_away_during_remove_stays_out() -> None:
    house = _House(3, TWO, ONE)
    assert house.say("n1", REMOVE, ONE) is None
    house.run(10)
    house.begin(7, Keyring((ONE,)))
    house.run(10)
    assert is_whole(house.net, but=["n7"])
    assert {member.node for member in house.net.nodes["n7"].machine.members()} == {"n7"}


def test_key_is_not_removed_while_a_node_cannot_write_the_new_one() -> None:
    """docs/protocol, SWIM-47."""
    house = _House(4, ONE)
    house.broken = {"n2"}
    for action in (INSTALL, USE):
        assert house.say("n1", action, TWO) is None
        house.run(10)
    assert "is not yet on n2:" in str(house.say("n1", REMOVE, ONE))
    assert is_whole(house.net)
    house.broken.clear()
    house.run(RETRY_MS // SECOND_MS + 5)
    assert house.say("n1", REMOVE, ONE) is None
    house.run(10)
    assert house.keys() == {(TWO,)}
    assert house.suspected() == []


def test_node_whose_keys_stand_in_the_configuration_keeps_them() -> None:
    house = _House(3, ONE)
    fixed = house.begin(5, Keyring((ONE,)), is_fixed=True)
    house.run(10)
    assert "file:/PATH" in str(house.say("n5", INSTALL, TWO))
    house.say("n1", INSTALL, TWO)
    house.run(10)
    assert house.keys(but=["n5"]) == {(ONE, TWO)}
    assert said(fixed, KeysChanged) == []
    assert is_whole(house.net)


def test_file_that_was_written_by_hand_holds() -> None:
    house = _House(3, ONE)
    house.say("n1", INSTALL, TWO)
    house.run(10)
    house.files["n2"] = Keyring((ONE, THREE))
    house.net.hand(house.net.nodes["n2"], KeysKept(house.files["n2"], is_by_hand=True))
    house.run(20)
    assert house.files["n2"] == Keyring((ONE, THREE))
    assert is_whole(house.net)


def test_same_keys_read_again_change_nothing() -> None:
    house = _House(2, ONE)
    node = house.net.nodes["n1"]
    before = node.machine.own
    house.net.hand(node, KeysKept(Keyring((ONE,)), is_by_hand=True))
    assert node.machine.own == before


def test_without_a_secret_no_key_is_changed() -> None:
    step = spoken().step(ChangeKeys(INSTALL, TWO))
    assert [report.text for report in step.reports if isinstance(report, KeysRefused)] == [
        "there is no secret: set cluster.secret on all nodes, and start them again"
    ]


def test_what_may_be_old_changes_no_key() -> None:
    """docs/protocol, SWIM-48."""
    house = _House(2, ONE, TWO)
    there, here = house.net.nodes["n1"], house.net.nodes["n0"]
    own = there.machine.own
    seal = KeyedSeal(Keyring((ONE,)), "fleet", own.start, lambda size: b"\x01" * size)
    for _ in range(200):  # those that the node itself sent were here
        seal.close(b"", None)
    said = GossipFrame(own.id, Payload(keys=(KeyChange(own.generation, USE, key_id(TWO)),)))
    for receiver, keys in ((None, (ONE, TWO)), (here.machine.own.start, (TWO, ONE))):
        data = seal.close(encode_frame(said), receiver)
        house.net.hand(here, Datagrams(((there.address, data),)))
        house.write()
        assert house.files["n0"].keys == keys
