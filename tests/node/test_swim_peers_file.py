"""What a node of the membership layer remembers of its peers between two starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from distkv.transport.peers_file import KnownPeers, PeersFile

KNOWN = KnownPeers(7 << 16, {"b": "127.0.0.1:27586", "c": "[::1]:27586"})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = PeersFile(tmp_path)
    file.write(KnownPeers(1))
    file.write(KNOWN)
    assert file.read() == (KNOWN, "")
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [file.path.name]


def test_a_file_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    assert PeersFile(tmp_path).read() == (KnownPeers(), "")


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"generation": 1}', '{"generation": -1, "peers": {}}',
        '{"generation": 1.5, "peers": {}}',
        '{"generation": 9223372036854775808, "peers": {}}', '{"generation": 1, "peers": {"b": 1}}',
        '{"generation": 1, "peers": {"b b": "127.0.0.1:1"}}', '{"generation": 1, "peers": {"b": "hut1:1"}}',
        '{"generation": true, "peers": {}}', "[" * 100_000, "\xff\xfe",
    ],
)  # fmt: skip
def test_a_damaged_file_is_as_good_as_none_and_says_so(tmp_path: Path, text: str) -> None:
    file = PeersFile(tmp_path)
    file.path.write_text(text, encoding="latin-1")
    assert file.read() == (KnownPeers(), "it is no file of peers")


def test_a_file_that_cannot_be_read_is_as_good_as_none_and_says_so(tmp_path: Path) -> None:
    file = PeersFile(tmp_path)
    file.path.mkdir()
    assert file.read() == (KnownPeers(), "Is a directory")
