"""What is said of damage, and kept."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from distkv.storage.archive import Batch, open_archive
from distkv.storage.archive_rows import Damage


def test_place_whose_name_is_no_text_any_more_is_kept_and_shown(tmp_path: Path) -> None:
    name = b"to\xef\xbfk".decode(errors="surrogateescape")
    damage = Damage(f"meta, {name}")
    assert damage.place == "meta, to\\udcef\\udcbfk"
    with closing(open_archive(str(tmp_path / "state.sqlite"))) as archive:
        archive.damage.note(damage)
        archive.settle(Batch(1))
    with closing(open_archive(str(tmp_path / "state.sqlite"))) as again:
        assert list(again.damage.all()) == [damage]
