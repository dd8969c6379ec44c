"""Finds and parses the configuration: defaults, then the file, then -C, then options.

Knows: where files lie, which key sets which field, and how to say where a mistake is.  Does not know what a setting is
for: that, the defaults and the checks stand in `config`.

Invariant: every mistake is told in one line that begins with where it stands (FILE:LINE, or the option) and names the
key; a `Config` that comes out is usable.
"""

from __future__ import annotations

import math
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from distkv.cli.input import STDIN, standard_input
from distkv.config import (
    FILE,
    ClusterConfig,
    Config,
    DeleteConfig,
    HistoryConfig,
    Limits,
    LinksConfig,
    LogConfig,
    PingConfig,
    ScrubConfig,
    SerfConfig,
    SwimConfig,
    TreeConfig,
)
from distkv.errors import SettingsError
from distkv.mount import parts
from distkv.text.schema import YamlError, scalar

Section: TypeAlias = type[Any]
"""One of the classes of the configuration, or of a service's settings."""

SYSTEM_FILE: Final = Path("/etc/distkv/config.yaml")
SYSTEM_STATE: Final = Path("/var/lib/distkv")

BY_DEFAULT: Final = "default"
"""Who says so, when nobody else does."""
HIDDEN: Final = "***"
"""Stands for a secret."""


@attrs.frozen
class Setting:
    """A key of the configuration, and the field that it sets."""

    key: str
    section: Section
    field: str
    kind: object
    """The type: of int, float, str, Path, tuple[str, ...], or one of these or None."""
    default: object
    """`attrs.NOTHING` when there is none."""


@attrs.frozen
class Given:
    """A value that somebody gave, and where."""

    value: object
    where: str


Tell: TypeAlias = Callable[[str, str], None]
"""What is done about a mistake: where it is, and what. When that returns, what is wrong is left out."""


def _refuse(where: str, what: str) -> None:
    raise SettingsError(f"{where}: {what}")


def read_settings(
    file: str | None, assignments: tuple[str, ...], options: Mapping[str, tuple[str, object]]
) -> Config:
    """The configuration of a node.

    Args:
        file: -c; None: as `find_file` finds it.
        assignments: every -C, as KEY=VALUE.
        options: per key the option that sets it, and its value.

    Raises:
        SettingsError: the first mistake.
    """
    given = _given(file, assignments, _refuse)
    given |= {key: Given(value, option) for key, (option, value) in options.items()}
    if "node.name" not in given:
        raise SettingsError("the node has no name: write 'distkv server NAME', or set node.name")
    return _config(_checked(_with_auth(given, _refuse), _refuse))


def find_mistakes(file: str | None, assignments: tuple[str, ...]) -> list[tuple[str, str]]:
    """Every mistake: where it is, and what, in the order of lines. A file that is no YAML is one."""
    found: list[tuple[str, str]] = []

    def tell(where: str, what: str) -> None:
        found.append((where, what))

    _checked(_with_auth(_given(file, assignments, tell), tell), tell)
    return sorted(found, key=_line_of)


def effective_settings(file: str | None, assignments: tuple[str, ...]) -> dict[str, Given]:
    """What every key would be for `distkv server`, and who says so; keys without a value are left out.

    A secret is not told, but for the name of its file.

    Raises:
        SettingsError: the first mistake.
    """
    given = _given(file, assignments, _refuse)
    values = _checked(_with_auth(given, _refuse), _refuse)
    found: dict[str, Given] = {}
    for key, setting in known_settings().items():
        if key == AUTH and AUTH_FILE in given:
            found[AUTH_FILE] = given[AUTH_FILE]
        elif key == AUTH and values.get(AUTH) is not None:
            found[AUTH] = Given(HIDDEN, given[AUTH].where.partition("=")[0])
        elif key == SECRET and key in given and not str(values[key]).startswith(FILE):
            found[key] = Given(HIDDEN, given[key].where)
        elif key in given:
            found[key] = Given(values[key], given[key].where)
        elif setting.default is not attrs.NOTHING:
            found[key] = Given(setting.default, BY_DEFAULT)
        elif key == "data.dir" and "node.name" in given:
            found[key] = Given(default_data_dir(str(values["node.name"])), BY_DEFAULT)
    return found


def find_file(named: str | None) -> Path | None:
    """The file that is named, by option or DISTKV_CONFIG, else the first that exists of the user's and the system's."""
    name = named or os.environ.get("DISTKV_CONFIG")
    if name:
        return Path(name)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return next((path for path in (Path(home) / "distkv/config.yaml", SYSTEM_FILE) if path.exists()), None)


def default_data_dir(node: str) -> Path:
    """Where a node keeps its data when nothing else is said.

    Raises:
        SettingsError: the name cannot name a directory.
    """
    if node in (".", ".."):
        raise SettingsError(f"the node name {node!r} names no directory: give one with --data-dir")
    if os.geteuid() == 0 and SYSTEM_STATE.is_dir():
        return SYSTEM_STATE / node
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "distkv" / node


def all_settings() -> Iterator[Setting]:
    """Every key that is served, with type and default."""
    for section, prefix in sections().items():
        kinds = typing.get_type_hints(section)
        for field in attrs.fields(section):
            key = _KEYS.get((section, field.name), prefix and f"{prefix}.{_named(field.name)}")
            if key:
                yield Setting(key, section, field.name, kinds[field.name], field.default)


# -- which key sets what ------------------------------------------------------------------------------------------

_SECTIONS: Final[dict[Section, str]] = {
    Config: "", SerfConfig: "serf", SwimConfig: "swim", ClusterConfig: "cluster", PingConfig: "ping",
    DeleteConfig: "delete", HistoryConfig: "history",
    ScrubConfig: "scrub", LinksConfig: "links", TreeConfig: "tree", LogConfig: "log",
    Limits: "limits",
}  # fmt: skip
"""Keys are PREFIX.FIELD without seconds as a unit, but for those below. Services have sections of their own."""

_KEYS: Final[dict[tuple[Section, str], str]] = {
    (Config, "node"): "node.name",
    (Config, "data_dir"): "data.dir",
    (Config, "listen"): "listen",
    (Config, "advertise"): "advertise",
    (Config, "transport"): "transport",
    (Config, "chain_length"): "chain.length",
}

SECRET: Final = "cluster.secret"
AUTH: Final = "serf.auth"
AUTH_FILE: Final = "serf.auth_file"
"""A file whose first line is `serf.auth`. It keeps the secret out of the configuration."""


def sections() -> dict[Section, str]:
    """All, each with the first word of its keys; those with the same word one after the other."""
    found = [*_SECTIONS.items(), *(section for part in parts("config") for section in part.SECTIONS)]
    words = [word for _, word in found]
    return dict(sorted(found, key=lambda section: words.index(section[1])))


def known_settings() -> Mapping[str, Setting]:
    """All settings, by their keys."""
    return _known(parts("config"))


@cache
def _known(_: tuple[object, ...]) -> Mapping[str, Setting]:
    return {setting.key: setting for setting in all_settings()}


def _named(field: str) -> str:
    return field if field.endswith("_per_s") else field.removesuffix("_s")


# -- reading ------------------------------------------------------------------------------------------------------


def _line_of(mistake: tuple[str, str]) -> float:
    """For sorting: what stands in no line comes last."""
    line = mistake[0].rpartition(":")[2]
    return int(line) if line.isdecimal() else math.inf


def _given(file: str | None, assignments: Sequence[str], tell: Tell) -> dict[str, Given]:
    """What the file says, and -C, which counts more."""
    path = find_file(file)
    found = {} if path is None else _read_file(path, tell)
    for text in assignments:
        found |= _read_assignment(text, tell)
    return found


def _read_file(path: Path, tell: Tell) -> dict[str, Given]:
    from distkv.text import yaml  # takes longer to load than all the rest, and many starts have no file

    def tell_twice(names: Sequence[object], line: int) -> None:
        tell(f"{path}:{line}", f"{'.'.join(map(str, names))} stands twice: leave one")

    try:
        is_stdin = str(path) == STDIN
        text = (standard_input("configuration").read() if is_stdin else path.read_bytes()).decode()
        found: dict[str, Given] = {}
        for key, one in _keys_in(yaml.read(text, tell_twice), "", path, tell):
            if key in found:  # written in two ways: with a dot, and in its section
                tell(one.where, f"{key} stands twice: leave one")
            found.setdefault(key, one)
        return found
    except OSError as error:
        tell(str(path), f"the configuration cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        tell(str(path), "the configuration is not UTF-8 text")
    except YamlError as error:
        tell(f"{path}:{error.line}", f"the configuration cannot be read: {error}")
    return {}


def _keys_in(node: object, prefix: str, path: Path, tell: Tell) -> Iterator[tuple[str, Given]]:
    """The settings below one map of the file; a section without content is as good as none."""
    from distkv.text import yaml

    assert isinstance(node, yaml.YamlNode)
    if node.value is None:
        return
    if not isinstance(node.value, dict):
        what = f"{prefix} is a section: it" if prefix else "the configuration"
        tell(f"{path}:{node.line}", f"{what} must hold 'key: value' lines")
        return
    for name, inner in node.value.items():
        key = f"{prefix}.{name}" if prefix else str(name)
        if key in known_settings() or key == AUTH_FILE:
            if not inner.is_empty:
                yield key, Given(yaml.plain(inner), f"{path}:{inner.line}")
        elif any(known.startswith(f"{key}.") for known in known_settings()):
            yield from _keys_in(inner, key, path, tell)
        else:
            tell(f"{path}:{inner.line}", _unknown(key))


def _read_assignment(text: str, tell: Tell) -> dict[str, Given]:
    from distkv.text import yaml

    key, equals, word = text.partition("=")
    where = f"-C {key}" if key == SECRET else f"-C {text}"  # a log may keep what is said of a mistake
    if not equals:
        tell(where, "write KEY=VALUE, such as ping.clock=2")
    elif key not in known_settings() and key != AUTH_FILE:
        tell(where, _unknown(key))
    else:
        try:
            value = yaml.plain(yaml.read(word)) if word[:1] in ("[", "'", '"') else scalar(word)
            return {key: Given(value, where)}
        except YamlError as error:
            tell(where, f"{key} cannot be read: {error}")
    return {}


def _unknown(key: str) -> str:
    import difflib

    known = [*known_settings(), AUTH_FILE]
    below = [name for name in known if name.startswith(f"{key}.")]
    if below:
        return f"{key} is a section: set {', '.join(below)}"
    near = difflib.get_close_matches(key, known, 1)
    sections = sorted({name.partition(".")[0] for name in known})
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sections)}, most with keys below them"
    return f"there is no setting {key}: {hint}"


# -- building -----------------------------------------------------------------------------------------------------


def _checked(given: dict[str, Given], tell: Tell) -> dict[str, object]:
    """The values of the keys that are given, as their fields want them."""
    found: dict[str, object] = {}
    for key, one in given.items():
        setting = known_settings()[key]
        try:
            value = _converted(key, one.value, setting.kind)
            _check(setting, value)
        except SettingsError as error:
            tell(one.where, str(error))
        else:
            found[key] = value
    return found


def _config(values: dict[str, object]) -> Config:
    fields: dict[Section, dict[str, Any]] = {}
    for key, value in values.items():
        setting = known_settings()[key]
        fields.setdefault(setting.section, {})[setting.field] = value
    top = fields.pop(Config)
    top.setdefault("data_dir", default_data_dir(str(top["node"])))
    made = {section: section(**given) for section, given in fields.items()}
    own = {prefix: made.pop(section) for section, prefix in _SECTIONS.items() if section in made}
    of_services = {section: one for section, one in made.items() if one != section()}
    return Config(**top, **own, services=of_services)


def _check(setting: Setting, value: object) -> None:
    """Make the section with this field alone, so that a complaint is known to be about it."""
    needed = {"node": "x", "data_dir": Path(), "transport": "solo"} if setting.section is Config else {}
    setting.section(**{**needed, setting.field: value})


def _with_auth(given: dict[str, Given], tell: Tell) -> dict[str, Given]:
    """The secret in the place of the file that holds it."""
    if AUTH_FILE not in given:
        return given
    rest = dict(given)
    one = rest.pop(AUTH_FILE)
    if AUTH in rest:
        tell(one.where, f"{AUTH_FILE} and {AUTH} exclude each other: give one")
        return rest
    try:
        return rest | {AUTH: Given(_read_secret(_converted(AUTH_FILE, one.value, str)), one.where)}
    except SettingsError as error:
        tell(one.where, str(error))
        return rest


def _read_secret(name: object) -> str:
    try:
        lines = Path(str(name)).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"{AUTH_FILE}: {name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{AUTH_FILE}: {name} is not UTF-8 text") from None
    if not lines or not lines[0].strip():
        raise SettingsError(f"{AUTH_FILE}: the first line of {name} is empty: write the secret there")
    return lines[0].strip()


def _converted(key: str, value: object, kind: object) -> object:
    """A value as its field wants it; the messages are for people who write YAML."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and type(None) in options:
        return None
    wanted = next(option for option in options if option is not type(None))
    match wanted, value:
        case (type() as exact, _) if exact in (str, int, bool) and type(value) is exact:
            return value
        case (type() as exact, int() | float()) if exact is float and not isinstance(value, bool):
            return float(value)
        case (type() as exact, str(text)) if exact is Path and text:
            return Path(text).expanduser()
        case (_, str(text)) if typing.get_origin(wanted) is tuple:
            return (text,)
        case (_, list(items) | tuple(items)) if typing.get_origin(wanted) is tuple and _are_texts(items):
            return tuple(items)
    raise SettingsError(f"{key} is {_shown(value)}: it must be {_KINDS.get(wanted, 'a list of texts')}")


def _are_texts(items: list[object] | tuple[object, ...]) -> bool:
    return all(isinstance(item, str) for item in items)


def _shown(value: object) -> str:
    text = "null" if value is None else repr(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_KINDS: Final[dict[object, str]] = {
    str: "text (quote it when it looks like a number)",
    int: "an integer",
    bool: "true or false",
    float: "a number",
    Path: "the path of a directory",
}
