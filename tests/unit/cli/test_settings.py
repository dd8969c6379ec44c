"""Where settings come from, which one wins, and how each mistake is named.

Knows: files, -C and options.  Does not know the commands.
"""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from distkv.cli.settings import (
    HIDDEN,
    Given,
    default_data_dir,
    effective_settings,
    find_file,
    known_settings,
    read_settings,
)
from distkv.config import Config
from distkv.errors import SettingsError

NAME = {"node.name": ("NAME", "a")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def read(file: Path, text: str, *assignments: str) -> Config:
    file.write_text(text)
    return read_settings(str(file), assignments, NAME)


def mistake(file: Path, text: str, *assignments: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read(file, text, *assignments)
    return str(caught.value).replace(str(file), "FILE")


# -- what wins ----------------------------------------------------------------------------------------------------


def test_without_a_file_all_is_default() -> None:
    assert read_settings(None, (), NAME | {"data.dir": ("--data-dir", "d")}) == Config("a", Path("d"))


def test_file_sets_every_key(file: Path) -> None:
    config = read(
        file,
        """
        data: {dir: /d}
        listen: ['127.0.0.1:1', '[::1]:2']
        advertise: host:3
        transport: solo
        serf: {host: h, port: 4, auth: key, root: r, event_bytes: 1024, packets_per_s: 5}
        ping: {clock: 2, length: 6}
        chain: {length: 7}
        limits: {connections: 8}
        """,
    )
    assert (config.node, config.data_dir, config.listen) == ("a", Path("/d"), ("127.0.0.1:1", "[::1]:2"))
    assert (config.advertise, config.transport, config.chain_length) == ("host:3", "solo", 7)
    assert attrs.astuple(config.serf) == ("h", 4, "key", "r", 1024, 5.0)
    assert attrs.astuple(config.ping) == (2.0, 6)
    assert config.limits.connections == 8


def test_assignment_wins_over_the_file_and_the_option_over_both(file: Path) -> None:
    file.write_text("ping: {clock: 1, length: 5}\nadvertise: f:1")
    options = NAME | {"advertise": ("--advertise", "o:3")}
    config = read_settings(str(file), ("ping.clock=2", "advertise=c:2"), options)
    assert (config.ping.clock_s, config.ping.length, config.advertise) == (2.0, 5, "o:3")


def test_last_assignment_of_a_key_wins() -> None:
    assert read_settings(None, ("ping.clock=2", "ping.clock=3"), NAME).ping.clock_s == 3.0


def test_assignment_may_be_a_list_or_quoted() -> None:
    config = read_settings(None, ("listen=[a:1, b:2]", "serf.auth='007'"), NAME)
    assert (config.listen, config.serf.auth) == (("a:1", "b:2"), "007")


def test_one_address_may_stand_without_a_list(file: Path) -> None:
    assert read(file, "listen: a:1").listen == ("a:1",)


def test_null_means_none_where_that_is_a_default(file: Path) -> None:
    assert read(file, "advertise: null").advertise is None


@pytest.mark.parametrize("text", ["", "# nothing", "serf:\n", "serf: {}\n", "advertise:\n"])
def test_what_is_empty_sets_nothing(file: Path, text: str) -> None:
    assert read(file, text) == read_settings(None, (), NAME)


def test_name_may_stand_in_the_file(file: Path) -> None:
    file.write_text("node: {name: b}")
    assert read_settings(str(file), (), {}).node == "b"


def test_node_without_a_name_is_refused() -> None:
    with pytest.raises(SettingsError, match="distkv server NAME"):
        read_settings(None, (), {})


def test_every_setting_of_the_node_has_a_key() -> None:
    sections = {
        "serf", "swim", "cluster", "ping", "delete", "history", "scrub", "links", "tree", "tokens", "log", "limits",
    }  # fmt: skip
    fields = {(setting.section, setting.field) for setting in known_settings().values()}
    for field in attrs.fields(Config):
        if field.name in sections:
            assert field.default is not None
            inner = type(field.default)
            assert all((inner, one.name) in fields for one in attrs.fields(inner))
        else:
            assert (Config, field.name) in fields or field.name == "services"  # whose sections are their own


def test_name_that_is_none_is_refused_with_its_line(file: Path) -> None:
    file.write_text("node: {name: a b}")
    with pytest.raises(SettingsError, match=r"config.yaml:1: node.name is 'a b': it must be"):
        read_settings(str(file), (), {})


# -- where files lie ----------------------------------------------------------------------------------------------


def test_named_file_wins_over_the_variable_and_that_over_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    users = tmp_path / "distkv/config.yaml"
    assert find_file(None) != users
    users.parent.mkdir()
    users.touch()
    assert find_file(None) == users
    monkeypatch.setenv("DISTKV_CONFIG", "variable")
    assert find_file(None) == Path("variable")
    assert find_file("option") == Path("option")


def test_users_file_lies_below_home_without_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    users = tmp_path / ".config/distkv/config.yaml"
    users.parent.mkdir(parents=True)
    users.touch()
    assert find_file(None) == users


def test_data_lies_below_the_state_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("distkv.cli.settings.SYSTEM_STATE", tmp_path / "absent")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_data_dir("a") == tmp_path / "distkv/a"


def test_data_of_root_lies_below_the_systems_directory_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("distkv.cli.settings.SYSTEM_STATE", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert default_data_dir("a") == tmp_path / "a"


@pytest.mark.parametrize("name", [".", ".."])
def test_name_that_would_lead_elsewhere_needs_a_directory(name: str) -> None:
    with pytest.raises(SettingsError, match="--data-dir"):
        default_data_dir(name)


# -- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("transport: solo\nping:\n  clock: 0.1\n", "FILE:3: ping.clock is 0.1: it must be 0.5 to 3600 seconds"),
        ("ping: {clock: soon}", "FILE:1: ping.clock is 'soon': it must be a number"),
        ("ping: {clock: true}", "FILE:1: ping.clock is true: it must be a number"),
        ("ping: {clock: null}", "FILE:1: ping.clock is null: it must be a number"),
        ("ping: {length: 2.5}", "FILE:1: ping.length is 2.5: it must be an integer"),
        ("ping: {length: true}", "FILE:1: ping.length is true: it must be an integer"),
        ("ping: {length: 99}", "FILE:1: ping.length is 99: it must be 2 to 32"),
        ("ping: {clock: .nan}", "FILE:1: ping.clock is '.nan': it must be a number"),
        ("ping: {clock: 05}", "FILE:1: ping.clock is '05': it must be a number"),
        ("chain: {length: 1}", "FILE:1: chain.length is 1: it must be 2 to 64"),
        ("log: {format: xml}", "FILE:1: log.format is 'xml': it must be one of text, json"),
        ("ping:\n  clock: 2\n  length: 4\n  clock: 3\n", "FILE:4: ping.clock stands twice: leave one"),
        ("ping.clock: 2\nping:\n  clock: 3\n", "FILE:3: ping.clock stands twice: leave one"),
        ("limits:\n  outbox: 0\n", "FILE:2: limits.outbox is 0: it must be 1 or more"),
        ("serf: {port: 0}", "FILE:1: serf.port is 0: it must be 1 to 65535"),
        ("serf: {auth: 7}", "FILE:1: serf.auth is 7: it must be text (quote it when it looks like a number)"),
        ("serf: {event_bytes: 99}", "FILE:1: serf.event_bytes is 99: Serf takes 256 to 9216"),
        ("serf: {packets_per_s: 0}", "FILE:1: serf.packets_per_s is 0.0: it must be above 0, and a million at most"),
        ("serf: {root: a b}", "FILE:1: serf.root is 'a b': it must be 1-63 of letters, digits, '.', '-', '_'"),
        ("transport: gossip", "FILE:1: transport is 'gossip': it must be one of serf, swim, solo"),
        ("swim: {join: [hut2]}", "FILE:1: swim.join is 'hut2': write HOST:PORT"),
        ("swim: {join: 'hut2:0'}", "FILE:1: swim.join is 'hut2:0': it needs a port"),
        ("swim: {group: a b}", "FILE:1: swim.group is 'a b': it must be 1-63 of letters"),
        ("swim: {interval: 0.05}", "FILE:1: swim.interval is 0.05: it must be seconds, from 0.1 to 60"),
        ("swim: {admission: maybe}", "FILE:1: swim.admission is 'maybe': it must be one of accept, ignore, closed"),
        ("swim: {bytes_per_s: 100}", "FILE:1: swim.bytes_per_s is 100: it must be 16384 or more"),
        ("transport: swim\nlisten: 'unix:/a'\nadvertise: hut1:1\n", "listen names Unix sockets only, and nodes of"),
        ("data: {dir: ''}", "FILE:1: data.dir is '': it must be the path of a directory"),
        ("listen: []", "FILE:1: listen is empty: name at least one HOST:PORT"),
        ("listen: [1]", "FILE:1: listen is [1]: it must be a list of texts"),
        ("listen: [here]", "FILE:1: listen is 'here': write HOST:PORT, such as 127.0.0.1:27586"),
        ("listen: [/a]", "FILE:1: listen is '/a': write HOST:PORT, such as 127.0.0.1:27586, or, for a Unix"),
        ("listen: ['unix:a']", "FILE:1: listen is 'unix:a': write HOST:PORT, such as 127.0.0.1:27586, or, for a Unix"),
        (f"listen: ['unix:/{'a' * 107}']", "FILE:1: listen is 'unix:/aaa"),
        (r'listen: ["unix:/a\0b"]', r"FILE:1: listen is 'unix:/a\x00b': no file can have this name"),
        ("advertise: 'unix:/a'", "FILE:1: advertise is 'unix:/a': write HOST:PORT"),
        ("advertise: a:0", "FILE:1: advertise is 'a:0': other nodes need a port to connect to"),
        ("a: 1\n", "FILE:1: there is no setting a: known are"),
        ("\nping: {clok: 1}\n", "FILE:2: there is no setting ping.clok: did you mean ping.clock?"),
        ("tls: {key: x}\n", "FILE:1: there is no setting tls: known are"),
        ("ping: 5\n", "FILE:1: ping is a section: it must hold 'key: value' lines"),
        ("- a\n", "FILE:1: the configuration must hold 'key: value' lines"),
        ("text\n", "FILE:1: the configuration must hold 'key: value' lines"),
        ("data: {}\ndata: {}\n", "FILE:2: data stands twice: leave one"),
        ("x: &a 1\n", "FILE:1: the configuration cannot be read: anchors"),
        ("serf:\n\thost: x\n", "FILE:2: the configuration cannot be read: found character"),
        ("listen: [a:1,\n", "FILE:2: the configuration cannot be read: "),
    ],
)
def test_mistake_in_the_file_names_file_line_and_key(file: Path, text: str, line: str) -> None:
    told = mistake(file, text)
    assert told.startswith(line)
    assert "\n" not in told


@pytest.mark.parametrize("path", ["/" + "a" * 106, "/" + "ö" * 53, "/a b", "//a", "/a:1"])
def test_socket_path_of_up_to_107_bytes_is_taken(file: Path, path: str) -> None:
    assert read(file, f"transport: solo\nlisten: 'unix:{path}'").listen == (f"unix:{path}",)


@pytest.mark.parametrize("path", ["/" + "a" * 107, "/" + "ö" * 54])
def test_longer_socket_path_is_refused(file: Path, path: str) -> None:
    assert f"its path has {len(path.encode())} bytes, that of a Unix socket can have 107" in mistake(
        file, f"transport: solo\nlisten: 'unix:{path}'"
    )


def test_host_called_unix_is_a_host(file: Path) -> None:
    assert read(file, "listen: 'unix:27586'").listen == ("unix:27586",)


NO_SECRETS = ["", "x", "hut", "file:a", "file:", "A" * 44, "QUJD", f"{'A' * 43}=\n{'B' * 43}=", "é" * 43 + "="]


@pytest.mark.parametrize("secret", NO_SECRETS)
def test_secret_that_is_none_is_refused_and_not_repeated(file: Path, secret: str) -> None:
    told = "FILE:1: cluster.secret is no secret: write 32 random bytes as base64, or file: and"
    file.write_text(f"cluster: {{secret: {json.dumps(secret)}}}")
    with pytest.raises(SettingsError) as caught:
        read_settings(str(file), (), NAME)
    assert str(caught.value).replace(str(file), "FILE").startswith(told)
    if secret:
        with pytest.raises(SettingsError) as caught:
            read_settings(str(file), (f"cluster.secret={secret}",), NAME)
        assert len(secret) < 6 or secret not in str(caught.value)


def test_secret_is_hidden_and_the_name_of_its_file_is_not(file: Path) -> None:
    secret = f"{'A' * 43}="
    file.write_text(f"cluster: {{secret: '{secret}'}}")
    assert effective_settings(str(file), ())["cluster.secret"] == Given(HIDDEN, f"{file}:1")
    assert secret not in repr(read(file, f"cluster: {{secret: '{secret}'}}"))
    file.write_text("cluster: {secret: 'file:/etc/distkv/secret'}")
    assert effective_settings(str(file), ())["cluster.secret"].value == "file:/etc/distkv/secret"


def test_node_that_others_cannot_reach_is_refused(file: Path) -> None:
    assert mistake(file, "listen: 'unix:/a'").startswith("listen names Unix sockets only")


WILDCARDS = ["0.0.0.0:1", "[::]:1", "0:1", "0.0:1", "[::0]:1", "[0:0:0:0:0:0:0:0]:1", "[::ffff:0.0.0.0]:1", ":::1"]


@pytest.mark.parametrize("address", WILDCARDS)
def test_node_that_tells_others_of_all_addresses_and_of_none_is_refused(file: Path, address: str) -> None:
    says = f"{address!r}, which means all addresses of this host"
    assert mistake(file, f"listen: ['unix:/a', '{address}', 'hut:1']").startswith(f"listen is {says}")
    assert mistake(file, f"advertise: '{address}'").startswith(f"advertise is {says}")


@pytest.mark.parametrize("address", WILDCARDS)
def test_node_that_listens_at_all_addresses_and_names_one_or_has_no_others_is_taken(file: Path, address: str) -> None:
    assert read(file, f"listen: '{address}'\nadvertise: hut:1").listen == (address,)
    assert read(file, f"listen: ['hut:1', '{address}']").listen == ("hut:1", address)
    assert read(file, f"listen: '{address}'\ntransport: solo").listen == (address,)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "hut:1", "0.0.0.1:1", "[fe80::1%lo]:1", "zero:1"])
def test_single_address_is_taken(file: Path, address: str) -> None:
    assert read(file, f"listen: '{address}'").advertise is None


@pytest.mark.parametrize(
    "text",
    ["listen: ['unix:/a', 'a:1']", "listen: ['unix:/a']\nadvertise: a:1", "listen: ['unix:/a']\ntransport: solo"],
)
def test_node_with_a_unix_socket_that_others_can_reach_or_that_has_no_others_is_taken(file: Path, text: str) -> None:
    assert read(file, text).listen[0] == "unix:/a"


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ("ping.clock=0", "-C ping.clock=0: ping.clock is 0.0: it must be 0.5 to 3600 seconds"),
        ("ping.clock", "-C ping.clock: write KEY=VALUE, such as ping.clock=2"),
        ("ping=5", "-C ping=5: ping is a section: set ping.clock, ping.length"),
        ("x.y=1", "-C x.y=1: there is no setting x.y: known are"),
        ("listen=[a", "-C listen=[a: listen cannot be read: expected"),
        ("limits.outbox=" + "9" * 5000, "-C limits.outbox=999"),
    ],
)
def test_mistake_in_an_assignment_names_it(assignment: str, line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(None, (assignment,), NAME)
    assert str(caught.value).startswith(line)


def test_mistake_in_an_option_names_it() -> None:
    with pytest.raises(SettingsError, match=r"^--advertise: advertise is 'x'"):
        read_settings(None, (), NAME | {"advertise": ("--advertise", "x")})


def test_file_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"config.yaml: the configuration cannot be read: No such file"):
        read_settings(str(file), (), NAME)


def test_file_that_is_no_text_is_named(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        read_settings(str(file), (), NAME)


# -- the secret ---------------------------------------------------------------------------------------------------


def test_auth_may_stand_in_a_file_of_its_own(file: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\nnot this\n")
    assert read(file, f"serf: {{auth_file: {tmp_path / 'key'}}}").serf.auth == "secret"


def test_auth_and_its_file_exclude_each_other(file: Path) -> None:
    assert "exclude each other" in mistake(file, "serf: {auth_file: x, auth: y}")


@pytest.mark.parametrize("content", ["", "\nsecret", "  \n"])
def test_auth_file_without_a_secret_is_refused(file: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    assert "is empty" in mistake(file, f"\nserf: {{auth_file: {tmp_path / 'key'}}}")


def test_auth_file_that_is_not_there_is_named_with_the_line(file: Path) -> None:
    told = mistake(file, "\nserf: {auth_file: /nowhere}")
    assert told == "FILE:2: serf.auth_file: /nowhere cannot be read: No such file or directory"
