"""How values, links and files are read from a command line (docs: command line, VALUE).

Knows: every rule and refusal.  Does not know the commands.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from distkv.cli.values import DELETING, pack_argument, read_aside, read_link, read_value
from distkv.errors import BadPathError, BadValueError, SettingsError
from distkv.wire.values import unpack_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("21", 21),
        ("-5", -5),
        ("0", 0),
        ("-0", 0),
        ("1.5", 1.5),
        ("1.10", 1.1),
        ("-0.0", -0.0),
        ("1e5", 100000.0),
        ("-1E+3", -1000.0),
        (" 21 ", 21),
        ("true", True),
        ("FALSE", False),
        ('"21"', "21"),
        ("'it''s'", "it's"),
        ('"a\\nb"', "a\nb"),
        ("[]", []),
        ("{}", {}),
        ("[1, -2, x, 'y']", [1, -2, "x", "y"]),
        ('{"a":1, b: [true]}', {"a": 1, "b": [True]}),
        ("{1: a}", {1: "a"}),
        ("[1] # with a comment", [1]),
        ("[2024-01-01, yes, 12:30:45, 1_000, =]", ["2024-01-01", "yes", "12:30:45", "1_000", "="]),
        ("[01234, +49301234, 0x10, .5]", ["01234", "+49301234", "0x10", ".5"]),
        ("[null]", [None]),
    ],
)
def test_yaml_scalar_or_flow_collection_is_read_as_such(text: str, value: object) -> None:
    found = read_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "text",
        "two words",
        "",
        "  ",
        " lead",
        "#c",
        "a # b",
        "2024-01-01",
        "2024-01-01T12:00:00Z",
        "12:30:45",
        "1_000",
        "01234",
        "+49301234",
        "+1",
        "00",
        "-01",
        "007.5",
        "0x1F",
        "0o17",
        ".5",
        "-.5",
        "1.",
        "1.e5",
        "1e5.0",
        "nan",
        ".nan",
        "inf",
        "-.INF",
        "Infinity",
        "1 000",
        "yes",
        "off",
        "tRue",
        "nil",
        "1.2.3",
        "0b11",
        "1e",
        "a: b",
        "- a",
        "|",
        "> x",
        "%x",
        "@x",
        "`x`",
        "?",
        "two\nlines",
        "-text",
        "٣",
    ],
)
def test_everything_else_is_text_as_it_stands(text: str) -> None:
    assert read_value(text) == text


@pytest.mark.parametrize("text", ["null", "Null", "NULL", "~", " null "])
def test_null_is_refused_with_what_to_do_instead(text: str) -> None:
    with pytest.raises(BadValueError, match="no value: to delete, use 'distkv client delete'; for the text, add -s"):
        read_value(text, instead=DELETING)


def test_null_where_nothing_is_deleted_is_refused_without_the_way_to_delete() -> None:
    with pytest.raises(BadValueError) as caught:
        read_value("null", argument="MESSAGE")
    assert str(caught.value) == "null is no message: for the text, add -s or quote it"


@pytest.mark.parametrize("text", ["null", "&a", "[1"])
def test_argument_without_the_option_s_is_refused_without_naming_it(text: str) -> None:
    for read in (lambda: read_aside("--data", text), lambda: pack_argument(text)):
        with pytest.raises(BadValueError) as caught:
            read()
        assert str(caught.value).endswith("for the text, quote it")


@pytest.mark.parametrize("text", ["&a x", "*a", "*.txt", "!x", "!!str 1", " &a"])
def test_beginning_of_an_anchor_or_tag_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadValueError, match="add -s"):
        read_value(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[&a 1]", "anchors"),
        ("[*a]", "anchors"),
        ("&a [*a]", "begins like an anchor"),
        ("[!!str 1]", "tags"),
        ("[!x 1]", "tags"),
        ("{x:1}", "mind the space after a colon"),
        ("{x: }", "a value is missing"),
        ("{a: 1, a: 2}", "'a' stands twice"),
        ("{1: a, true: b}", "stands twice"),
        ("{[1]: a}", "a key is a list"),
        ("[1] [2]", "more follows"),
        ('"x" y', "more follows"),
        ("[a]: b", "a key is a list"),
        ("[1,,2]", "found ','"),
        ("[a, b", "expected ','"),
        ('"open', "end of stream"),
        ("[" * 300 + "]" * 300, "nest deeper than 256"),
        ("[1e999]", "too large for a float"),
        ("1e999", "too large for a float"),
        ("9" * 5000, "more than 64 bits"),
        ("[\x01]", "control character"),
    ],
)
def test_what_could_be_meant_in_two_ways_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadValueError, match=problem) as caught:
        read_value(text)
    assert "-s" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_packed_argument_is_the_value() -> None:
    assert unpack_value(pack_argument("{a: [1]}")) == {"a": [1]}


@pytest.mark.parametrize("text", [str(2**64), '"\\ud800"', "[18446744073709551616]"])
def test_value_that_no_node_can_keep_is_refused_when_packed(text: str) -> None:
    with pytest.raises(BadValueError):
        pack_argument(text)


# -- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["21", "null", "--", "", "&a", "[1"])
def test_string_option_takes_any_text_as_it_stands(text: str) -> None:
    assert read_value(text, as_text=True) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("21", 21),
        ('"x"', "x"),
        ('{"a": [1.5, true, null]}', {"a": [1.5, True, None]}),
        ('{"$bytes": "AAH/"}', b"\x00\x01\xff"),
    ],
)
def test_json_option_reads_json(text: str, value: object) -> None:
    assert read_value(text, as_json=True) == value


@pytest.mark.parametrize("text", ["", "text", "{a: 1}", "[1,]", '{"a": 1, "a": 2}', "NaN", "1e999", "9" * 5000])
def test_json_option_refuses_what_is_no_json(text: str) -> None:
    with pytest.raises(BadValueError):
        read_value(text, as_json=True)


def test_json_null_is_refused_with_the_way_to_delete() -> None:
    with pytest.raises(BadValueError, match="distkv client delete"):
        read_value("null", as_json=True, instead=DELETING)


def test_string_and_json_exclude_each_other() -> None:
    with pytest.raises(SettingsError, match="-s and -j"):
        read_value("x", as_text=True, as_json=True)


@pytest.mark.parametrize(("text", "file"), [(None, None), ("x", "y")])
def test_value_comes_from_the_argument_or_a_file(text: str | None, file: str | None) -> None:
    with pytest.raises(SettingsError, match="either VALUE or -f FILE"):
        read_value(text, file)


# -- files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "value"


def test_file_holds_a_yaml_document(file: Path) -> None:
    file.write_text("# a comment\na: 1\nb:\n- 2024-01-01\n- x # y\n")
    assert read_value(None, str(file)) == {"a": 1, "b": ["2024-01-01", "x"]}


def test_file_with_string_option_is_text_to_the_last_newline(file: Path) -> None:
    file.write_bytes(b"a: 1\r\n\n")
    assert read_value(None, str(file), as_text=True) == "a: 1\r\n\n"


def test_file_with_json_option_is_json(file: Path) -> None:
    file.write_text('{"a":\n1}\n')
    assert read_value(None, str(file), as_json=True) == {"a": 1}


@pytest.mark.parametrize("text", ["", "# nothing\n", "null\n", "---\n"])
def test_file_without_a_value_is_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(BadValueError, match="null is no value"):
        read_value(None, str(file))


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\nb: [\n", 3), ("a: 1\nb: &x 2\n", 2), ("a: 1\n\na: 2\n", 3), ("a:\n", 1), ("x\n\n\x01\n", 3)],
)
def test_mistake_in_a_file_is_named_with_its_line(file: Path, text: str, line: int) -> None:
    file.write_text(text)
    with pytest.raises(BadValueError, match=f"^line {line}: "):
        read_value(None, str(file))


def test_file_that_is_no_text_is_refused_with_the_way_for_bytes(file: Path) -> None:
    file.write_bytes(b"\xff\x00")
    with pytest.raises(BadValueError, match=r"\$bytes"):
        read_value(None, str(file), as_text=True)


def test_file_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"value: No such file"):
        read_value(None, str(file))


@pytest.mark.parametrize(("text", "given"), [("-", None), (None, "-")])
@pytest.mark.parametrize(
    ("options", "value"), [({}, 21), ({"as_text": True}, "21\n"), ({"as_json": True}, 21)], ids=["plain", "-s", "-j"]
)
def test_dash_is_standard_input_whatever_the_options(
    monkeypatch: pytest.MonkeyPatch, text: str | None, given: str | None, options: dict[str, bool], value: object
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"21\n")))
    assert read_value(text, given, **options) == value


@pytest.mark.parametrize("text", ['"-"', "'-'"])
def test_dash_in_quotes_is_the_text(text: str) -> None:
    assert read_value(text) == "-"


def test_standard_input_that_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SettingsError, match="standard input is closed: there is no value to read"):
        read_value("-")


# -- links --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("a:12", ("a", 12)),
        ("a.b-c_d:7.12", ("a.b-c_d", (7 << 32) + 12)),
        (f"a:{(7 << 32) + 12}", ("a", (7 << 32) + 12)),
        (f"a:{2**31 - 1}.{2**32 - 1}", ("a", 2**63 - 1)),
        ("a:0.3", ("a", 3)),
    ],
)
def test_link_is_read(text: str, link: tuple[str, int]) -> None:
    assert read_link(text) == link


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:", ":1", "a:0", "a:7.0", "a:-1", "a:x", "a:1.2.3", "a:1.", "a:.1", f"a:{2**31}.1", f"a:1.{2**32}",
     f"a:{2**63}", "a:٣", f"a:{2**32}", "a b:1", "a:" + "9" * 5000],
)  # fmt: skip
def test_what_is_no_link_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadPathError, match=r"such as a:12 or a:7\.12"):
        read_link(text)
