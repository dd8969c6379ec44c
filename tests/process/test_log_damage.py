"""A node whose log was damaged while it was stopped: one line, and what `--restored` brings back."""

from __future__ import annotations

from pathlib import Path

from distkv.storage.segment import content_end
from tests.process.cluster import open_cluster
from tests.process.load import get_many, set_many


def flip_last_batch(data_dir: Path) -> Path:
    """Change a bit of the last thing that the log holds; the segment."""
    file = max(path for path in data_dir.glob("segment-*") if content_end(path.read_bytes()) > 100)
    data = bytearray(file.read_bytes())
    data[content_end(bytes(data)) - 9] ^= 8
    file.write_bytes(data)
    return file


def test_damaged_log_is_refused_in_one_line_and_restored_gets_back_what_others_hold(tmp_path: Path) -> None:
    with open_cluster(tmp_path / "cluster", "ab") as cluster:
        node, written = cluster["b"], {f"written.n{number}": number for number in range(100)}
        set_many(node, written)
        cluster.wait_equal(20)
        old_life = int(str(node.state()["life"]))
        node.kill()
        file = flip_last_batch(node.data_dir)
        node.start()
        assert node.wait_end() == 1
        said = node.errors.splitlines()[-1]
        assert said.startswith(f"distkv: {file} is damaged at offset ")
        assert "start once with --restored to go on with what is whole" in said
        node.start("--restored").wait_ready()
        cluster.wait_equal(20)
        assert [get_many(server, written) for server in cluster] == [written, written]
        assert int(str(node.state()["life"])) > old_life
        assert "log_cut reason=" in node.errors
