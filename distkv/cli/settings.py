"""Finds and parses the configuration: defaults, then the file, then -C, then options.

Knows: where files lie, which key sets which field, and how to say where a mistake is.  Does not know what a setting is
for: that, the defaults and the checks stand in `config`.

Invariant: every mistake is a `SettingsError` of one line that begins with where it stands (FILE:LINE, or the option)
and names the key; a `Config` that comes out is usable.
"""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from distkv.cli.schema import YamlError, scalar
from distkv.config import Config, HistoryConfig, Limits, PingConfig, SerfConfig
from distkv.errors import SettingsError

Section: TypeAlias = type[Config] | type[PingConfig] | type[SerfConfig] | type[HistoryConfig] | type[Limits]

SYSTEM_FILE: Final = Path("/etc/distkv/config.yaml")
SYSTEM_STATE: Final = Path("/var/lib/distkv")


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
    given: dict[str, Given] = {}
    path = find_file(file)
    if path is not None:
        given |= _read_file(path)
    for text in assignments:
        key, value = _read_assignment(text)
        given[key] = Given(value, f"-C {text}")
    for key, (option, value) in options.items():
        given[key] = Given(value, option)
    return _config(given)


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
    for section, prefix in _SECTIONS.items():
        kinds = typing.get_type_hints(section)
        for field in attrs.fields(section):
            key = _KEYS.get((section, field.name), prefix and f"{prefix}.{field.name}")
            if key:
                yield Setting(key, section, field.name, kinds[field.name], field.default)


# -- which key sets what ------------------------------------------------------------------------------------------

_SECTIONS: Final[dict[Section, str]] = {
    Config: "", SerfConfig: "serf", PingConfig: "ping", HistoryConfig: "history", Limits: "limits",
}  # fmt: skip
"""Keys are PREFIX.FIELD, but for those below."""

_KEYS: Final[dict[tuple[Section, str], str]] = {
    (Config, "node"): "node.name",
    (Config, "data_dir"): "data.dir",
    (Config, "listen"): "listen",
    (Config, "advertise"): "advertise",
    (Config, "transport"): "transport",
    (Config, "chain_length"): "chain.length",
    (PingConfig, "clock_s"): "ping.clock",
    (HistoryConfig, "retention_s"): "history.retention",
}

AUTH_FILE: Final = "serf.auth_file"
"""A file whose first line is `serf.auth`: so that the secret need not stand in the configuration."""

SETTINGS: Final = {setting.key: setting for setting in all_settings()}


# -- reading ------------------------------------------------------------------------------------------------------


def _read_file(path: Path) -> dict[str, Given]:
    from distkv.cli import yaml  # takes longer to load than all the rest, and many starts have no file

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: the configuration cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: the configuration is not UTF-8 text") from None
    try:
        return dict(_keys_in(yaml.read(text), "", path))
    except YamlError as error:
        raise SettingsError(f"{path}:{error.line}: the configuration cannot be read: {error}") from None


def _keys_in(node: object, prefix: str, path: Path) -> Iterator[tuple[str, Given]]:
    """The settings below one map of the file; a section without content is as good as none."""
    from distkv.cli import yaml

    assert isinstance(node, yaml.Node)
    if node.value is None:
        return
    if not isinstance(node.value, dict):
        what = f"{prefix} is a section: it" if prefix else "the configuration"
        raise SettingsError(f"{path}:{node.line}: {what} must hold 'key: value' lines")
    for name, inner in node.value.items():
        key = f"{prefix}.{name}" if prefix else str(name)
        if key in SETTINGS or key == AUTH_FILE:
            if not inner.is_empty:
                yield key, Given(yaml.plain(inner), f"{path}:{inner.line}")
        elif any(known.startswith(f"{key}.") for known in SETTINGS):
            yield from _keys_in(inner, key, path)
        else:
            raise SettingsError(f"{path}:{inner.line}: {_unknown(key)}")


def _read_assignment(text: str) -> tuple[str, object]:
    from distkv.cli import yaml

    key, equals, word = text.partition("=")
    if not equals:
        raise SettingsError(f"-C {text}: write KEY=VALUE, such as ping.clock=2")
    if key not in SETTINGS and key != AUTH_FILE:
        raise SettingsError(f"-C {text}: {_unknown(key)}")
    try:
        return key, yaml.plain(yaml.read(word)) if word[:1] in ("[", "'", '"') else scalar(word)
    except YamlError as error:
        raise SettingsError(f"-C {text}: {key} cannot be read: {error}") from None


def _unknown(key: str) -> str:
    import difflib

    known = [*SETTINGS, AUTH_FILE]
    below = [name for name in known if name.startswith(f"{key}.")]
    if below:
        return f"{key} is a section: set {', '.join(below)}"
    near = difflib.get_close_matches(key, known, 1)
    sections = sorted({name.partition(".")[0] for name in known})
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sections)}, most with keys below them"
    return f"there is no setting {key}: {hint}"


# -- building -----------------------------------------------------------------------------------------------------


def _config(given: dict[str, Given]) -> Config:
    if AUTH_FILE in given:
        given = _with_auth(given)
    if "node.name" not in given:
        raise SettingsError("the node has no name: write 'distkv server NAME', or set node.name")
    fields: dict[Section, dict[str, object]] = {section: {} for section in _SECTIONS}
    for key, one in given.items():
        setting = SETTINGS[key]
        try:
            value = _converted(key, one.value, setting.kind)
            _check(setting, value)
        except SettingsError as error:
            raise SettingsError(f"{one.where}: {error}") from None
        fields[setting.section][setting.field] = value
    top = fields[Config]
    top.setdefault("data_dir", default_data_dir(str(top["node"])))
    serf, ping, limits = SerfConfig(**fields[SerfConfig]), PingConfig(**fields[PingConfig]), Limits(**fields[Limits])  # type: ignore[arg-type]
    history = HistoryConfig(**fields[HistoryConfig])  # type: ignore[arg-type]
    return Config(**top, serf=serf, ping=ping, history=history, limits=limits)  # type: ignore[arg-type]


def _check(setting: Setting, value: object) -> None:
    """Make the section with this field alone, so that a complaint is known to be about it."""
    needed = {"node": "x", "data_dir": Path(), "transport": "solo"} if setting.section is Config else {}
    setting.section(**{**needed, setting.field: value})  # type: ignore[arg-type]


def _with_auth(given: dict[str, Given]) -> dict[str, Given]:
    rest = dict(given)
    one = rest.pop(AUTH_FILE)
    if "serf.auth" in rest:
        raise SettingsError(f"{one.where}: {AUTH_FILE} and serf.auth exclude each other: give one")
    name = _converted(AUTH_FILE, one.value, str)
    try:
        lines = Path(str(name)).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"{one.where}: {AUTH_FILE}: {name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{one.where}: {AUTH_FILE}: {name} is not UTF-8 text") from None
    if not lines or not lines[0].strip():
        raise SettingsError(f"{one.where}: {AUTH_FILE}: the first line of {name} is empty: write the secret there")
    return rest | {"serf.auth": Given(lines[0].strip(), one.where)}


def _converted(key: str, value: object, kind: object) -> object:
    """A value as its field wants it; the messages are for people who write YAML."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and type(None) in options:
        return None
    wanted = next(option for option in options if option is not type(None))
    match wanted, value:
        case (type() as exact, _) if exact in (str, int) and type(value) is exact:
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
    return bool(items) and all(isinstance(item, str) for item in items)


def _shown(value: object) -> str:
    text = "null" if value is None else repr(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_KINDS: Final[dict[object, str]] = {
    str: "text (quote it when it looks like a number)",
    int: "an integer",
    float: "a number",
    Path: "the path of a directory",
}
