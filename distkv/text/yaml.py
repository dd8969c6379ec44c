"""YAML: the one module that meets the library.

Knows: how YAML text becomes values with line numbers, and how a value becomes YAML text.  Does not know what the values
mean, nor which plain word is a number (`schema`).

Invariant: nothing is read that would be silently something else: anchors, aliases, tags, a key that stands twice and a
second document are refused.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs
from ruyaml import YAML
from ruyaml.error import MarkedYAMLError, YAMLError
from ruyaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruyaml.nodes import Node as RepresentedNode
from ruyaml.representer import SafeRepresenter

from distkv.text.schema import Scalar, YamlError, scalar
from distkv.wire.packing import ExtType, Timestamp

NESTING_MAX: Final = 256
"""How many lists and maps may stand inside one another; values have the same limit."""


@attrs.frozen
class YamlNode:
    """One value and the line where it begins."""

    value: Scalar | list[YamlNode] | dict[Scalar, YamlNode]
    line: int
    is_empty: bool = False
    """Whether nothing at all stands there, which YAML takes for null."""


# -- reading ------------------------------------------------------------------------------------------------------


Twice: TypeAlias = Callable[[Sequence[Scalar], int], None]
"""What is done about a key that stands twice: its name below those of the maps around it, and the second line."""


def _refuse_twice(names: Sequence[Scalar], line: int) -> None:
    raise YamlError(f"the key {names[-1]!r} stands twice (1, 1.0 and true are one key)", line)


def read(text: str, twice: Twice = _refuse_twice) -> YamlNode:
    """The one document in `text`. When `twice` returns, the first value of the key counts.

    Raises:
        YamlError: it is not that, or uses anchors or tags.
    """
    try:
        return _build(YAML(typ="safe", pure=True).parse(text), twice)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(error.problem or error.context or "not YAML", mark.line + 1 if mark else 1) from None
    except YAMLError as error:  # a character that YAML forbids; its position is that in the text
        at = getattr(error, "position", 0)
        raise YamlError("a control character stands in it", text.count("\n", 0, at) + 1) from None


def plain(node: YamlNode) -> object:
    """The value alone.

    Raises:
        YamlError: a key or an element has no value at all, as in `{x:1}`, whose one key is `x:1`.
    """
    if node.is_empty:
        raise YamlError("a value is missing (mind the space after a colon); write null if that is meant", node.line)
    match node.value:
        case list(nodes):
            return [plain(inner) for inner in nodes]
        case dict(nodes):
            return {key: plain(inner) for key, inner in nodes.items()}
    return node.value


@attrs.define
class _OpenCollection:
    """A list or map whose end has not come yet."""

    node: YamlNode
    key: YamlNode | None = None
    """Of a map, when its value has not come yet."""
    is_twice: bool = False
    """Whether that key had a value before."""

    def add(self, found: YamlNode, twice: Callable[[YamlNode], None]) -> None:
        if isinstance(self.node.value, list):
            self.node.value.append(found)
            return
        keys = self.node.value
        assert isinstance(keys, dict)
        if self.key is not None:
            if not self.is_twice:
                # Nothing stands where the next token does; the key's line is where people look for it.
                keys[self.key.value] = attrs.evolve(found, line=self.key.line) if found.is_empty else found  # type: ignore[index]
            self.key = None
            return
        if isinstance(found.value, list | dict):
            raise YamlError("a key is a list or a map: use text or a number", found.line)
        self.is_twice = found.value in keys
        if self.is_twice:
            twice(found)
        self.key = found


def _build(events: Iterator[Event], twice: Twice) -> YamlNode:
    """Values from the library's events, with a stack of our own, so that depth costs no recursion."""
    root: YamlNode | None = None
    documents = 0
    stack: list[_OpenCollection] = []

    def tell_twice(key: YamlNode) -> None:
        around = [opened.key.value for opened in stack if opened.key]
        twice([name for name in [*around, key.value] if not isinstance(name, list | dict)], key.line)

    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise YamlError("more follows where it should end", line)
        elif isinstance(event, SequenceEndEvent | MappingEndEvent):
            closed = stack.pop().node
            if stack:
                stack[-1].add(closed, tell_twice)
            else:
                root = closed
        elif isinstance(event, NodeEvent):
            node = _node(event, line)
            if isinstance(node.value, list | dict):
                stack.append(_OpenCollection(node))
                if len(stack) > NESTING_MAX:
                    raise YamlError(f"lists and maps nest deeper than {NESTING_MAX}: flatten it", line)
            elif stack:
                stack[-1].add(node, tell_twice)
            else:
                root = node
    return root or YamlNode(None, 1, is_empty=True)


def _node(event: NodeEvent, line: int) -> YamlNode:
    if isinstance(event, AliasEvent) or event.anchor is not None:
        raise YamlError("anchors and aliases (& and *) are not read: quote the text, or write the value twice", line)
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise YamlError(f"tags such as {tag} are not read: quote the text that begins with '!'", line)
    if isinstance(event, SequenceStartEvent):
        return YamlNode([], line)
    if isinstance(event, MappingStartEvent):
        return YamlNode({}, line)
    assert isinstance(event, ScalarEvent)
    if event.style is not None:
        return YamlNode(str(event.value), line)
    try:
        return YamlNode(scalar(event.value), line, is_empty=event.value == "")
    except YamlError as error:
        raise YamlError(str(error), line) from None


# -- writing ------------------------------------------------------------------------------------------------------


def dump(value: object) -> str:
    """YAML text, ending in a newline. Bytes become `!!binary`; what YAML has no form for, a map with a `$` key."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 1 << 20  # type: ignore[assignment]  # declared as what it is before it is set
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(value, stream)
    text = stream.getvalue()
    text = text[:-4] if text.endswith("\n...\n") else text
    if text.replace("\n", "").isprintable():
        return text
    # What cannot be seen must not steer a terminal. It is in double quotes, whichever part of the value it stands in.
    return "".join(mark if mark.isprintable() or mark == "\n" else f"\\U{ord(mark):08x}" for mark in text)


_OLD_WORDS: Final = re.compile(r"y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?", re.IGNORECASE)
"""What readers of YAML 1.1 take for something else than text."""


class _Representer(SafeRepresenter):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the library's signature
        """What stands twice is written twice."""
        return True

    def text(self, data: str) -> RepresentedNode:
        quoted = not data.isprintable() or _OLD_WORDS.fullmatch(data)
        node: RepresentedNode = self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if quoted else None)
        return node

    def extension(self, data: ExtType) -> RepresentedNode:
        return self._map({"$ext": [data.code, base64.b64encode(data.data).decode()]})

    def timestamp(self, data: Timestamp) -> RepresentedNode:
        return self._map({"$time": [data.seconds, data.nanoseconds]})

    def _map(self, data: dict[str, object]) -> RepresentedNode:
        node: RepresentedNode = self.represent_dict(data)
        return node


_Representer.add_representer(str, _Representer.text)
_Representer.add_representer(ExtType, _Representer.extension)
_Representer.add_representer(Timestamp, _Representer.timestamp)
