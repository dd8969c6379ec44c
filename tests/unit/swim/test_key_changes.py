"""Which keyring a node keeps after what was said, and to whom it tells it."""

from __future__ import annotations

from itertools import permutations

import pytest

from distkv.swim.key_changes import CHANGES_MAX, RETRY_MS, KeyChanges
from distkv.swim.keyring import Keyring, key_id
from distkv.wire.swim_records import GENERATION_MAX, KeyAction, KeyChange

ONE, TWO, THREE, FOUR = (bytes((number,)) * 32 for number in range(1, 5))
INSTALL, USE, REMOVE = KeyAction


def _node(*keys: bytes, is_fixed: bool = False) -> KeyChanges:
    return KeyChanges(Keyring(keys), is_fixed=is_fixed)


def _write(node: KeyChanges, now_ms: int = 0) -> tuple[bytes, ...]:
    """The file can be written."""
    wanted = node.take_wanted(now_ms)
    if wanted is not None:
        node.kept(wanted)
    node.check()
    return node.keyring.keys


def _say(node: KeyChanges, action: KeyAction, key: bytes, **rings: tuple[bytes, ...]) -> str | None:
    """The operator says it; why it is refused."""
    name = key if action is INSTALL else key_id(key)
    found = node.begin(action, name, 7, {node: Keyring(keys).ids for node, keys in rings.items()})
    node.check()
    return found if isinstance(found, str) else None


def _tell(source: KeyChanges, target: KeyChanges) -> None:
    for change in source.told_to(target.keyring.ids):
        target.hear(change)
    target.check()


def test_rotation_reaches_another_node_step_by_step() -> None:
    here, there = _node(ONE), _node(ONE)
    for action, key, keys in ((INSTALL, TWO, (ONE, TWO)), (USE, TWO, (TWO, ONE)), (REMOVE, ONE, (TWO,))):
        assert _say(here, action, key, there=there.keyring.keys) is None
        _write(here)
        _tell(here, there)
        assert (_write(here), _write(there)) == (keys, keys)
        assert here.told_to(there.keyring.ids) == ()


def test_rotation_reaches_a_node_that_slept_through_it() -> None:
    here, there = _node(ONE), _node(ONE)
    for action, key in ((INSTALL, TWO), (USE, TWO)):
        _say(here, action, key)
        _write(here)
    _tell(here, there)
    assert _write(there) == (TWO, ONE)


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_changes_come_to_the_same_in_any_order(order: tuple[int, ...]) -> None:
    changes = [
        KeyChange(1, INSTALL, FOUR),
        KeyChange(2, USE, key_id(TWO)),
        KeyChange(3, REMOVE, key_id(ONE)),
        KeyChange(4, USE, key_id(FOUR)),
    ]
    node = _node(ONE, TWO, THREE)
    for index in order:
        node.hear(changes[index])
        _write(node, index * RETRY_MS)
    assert {*_write(node, 9 * RETRY_MS)} == {TWO, THREE, FOUR}
    assert node.keyring.keys[0] == FOUR


def test_two_operators_come_to_the_same_key() -> None:
    here, there = _node(ONE, TWO, THREE), _node(ONE, TWO, THREE)
    _say(here, USE, TWO)
    _say(there, USE, THREE)
    _write(here)
    _write(there)
    for source, target in ((here, there), (there, here)):
        _tell(source, target)
        _write(source, RETRY_MS)
        _write(target, RETRY_MS)
    assert here.keyring.keys[0] == there.keyring.keys[0]


def test_older_word_about_a_key_changes_nothing() -> None:
    node = _node(ONE, TWO)
    node.hear(KeyChange(5, REMOVE, key_id(TWO)))
    _write(node)
    node.hear(KeyChange(4, INSTALL, TWO))
    assert _write(node) == (ONE,)


def test_key_is_told_by_nobody_before_it_was_written() -> None:
    """docs/protocol, SWIM-47."""
    here = _node(ONE)
    _say(here, INSTALL, TWO)
    assert here.told_to(Keyring((ONE,)).ids) == ()


def test_keyring_that_could_not_be_written_is_wanted_again_later() -> None:
    node = _node(ONE)
    _say(node, INSTALL, TWO)
    wanted = Keyring((ONE, TWO))
    found = [node.take_wanted(now_ms) for now_ms in (0, 1, RETRY_MS - 1, RETRY_MS)]
    assert found == [wanted, None, None, wanted]
    assert node.keyring == Keyring((ONE,))


def test_file_written_by_hand_is_not_changed_back() -> None:
    here, there = _node(ONE), _node(ONE)
    _say(here, INSTALL, TWO)
    _write(here)
    _tell(here, there)
    _write(there)
    there.reread(Keyring((THREE, ONE)))
    _tell(here, there)
    assert _write(there, RETRY_MS) == (THREE, ONE)
    assert there.told_to(Keyring((ONE,)).ids) == ()


def test_key_that_was_written_by_hand_is_told_to_nobody() -> None:
    assert _node(ONE, TWO).told_to(Keyring((ONE,)).ids) == ()


def test_keys_in_the_configuration_are_not_changed() -> None:
    node = _node(ONE, is_fixed=True)
    assert "file:/PATH" in str(_say(node, INSTALL, TWO))
    node.hear(KeyChange(1, INSTALL, TWO))
    assert _write(node) == (ONE,)
    assert node.told_to(Keyring((ONE,)).ids) == ()


def test_key_is_not_removed_while_a_node_lacks_the_one_that_seals() -> None:
    """docs/protocol, SWIM-47."""
    node = _node(TWO, ONE)
    told = _say(node, REMOVE, ONE, desk=(ONE,), lamp=(TWO, ONE), door=())
    assert "is not yet on desk, door:" in str(told)
    assert _write(node) == (TWO, ONE)
    assert _say(node, REMOVE, ONE, desk=(ONE, TWO), lamp=(TWO,)) is None


def test_few_of_many_that_lack_it_are_named() -> None:
    told = _say(_node(TWO, ONE), REMOVE, ONE, a=(), b=(), c=(), d=())
    assert "on a, b, c and others:" in str(told)


@pytest.mark.parametrize(("action", "key"), [(USE, THREE), (REMOVE, ONE)])
def test_what_cannot_be_done_here_is_refused(action: KeyAction, key: bytes) -> None:
    assert _say(_node(ONE, TWO), action, key) is not None


def test_new_word_is_above_all_that_was_heard_and_above_the_own_generation() -> None:
    node = _node(ONE)
    node.hear(KeyChange(9, INSTALL, TWO))
    found = [node.begin(INSTALL, THREE, generation, {}) for generation in (3, 50)]
    assert [one.epoch for one in found if isinstance(one, KeyChange)] == [10, 51]


def test_highest_epoch_ends_nothing() -> None:
    node = _node(ONE)
    node.hear(KeyChange(GENERATION_MAX, INSTALL, TWO))
    assert isinstance(node.begin(INSTALL, THREE, GENERATION_MAX, {}), KeyChange)


def test_few_words_are_remembered() -> None:
    node = _node(ONE)
    for number in range(2 * CHANGES_MAX):
        node.hear(KeyChange(number, REMOVE, number.to_bytes(4, "big")))
        node.check()
    assert len(node.told_to([number.to_bytes(4, "big") for number in range(2 * CHANGES_MAX)])) == CHANGES_MAX
