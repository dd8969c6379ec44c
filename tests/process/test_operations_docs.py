"""docs/operations.rst is true: its commands print what it says they print.

Knows: how to be the node `hut1` of that page, at other addresses.  Does not know what the commands mean.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.process.cluster import open_cluster
from tests.process.pages import console_blocks
from tests.process.servers import COMMAND_S

PAGE = Path(__file__).parents[2] / "docs" / "operations.rst"
ABOUT_ASIDE = "aside"
"""What is typed there is typed by `test_aside`: it needs a node that failed."""


def commands() -> list[tuple[str, str]]:
    """Each command of the page, and what it prints."""
    found = [(command.text, command.prints.rstrip("\n")) for block in console_blocks(PAGE) for command in block]
    return [one for one in found if ABOUT_ASIDE not in one[0] and ABOUT_ASIDE not in one[1]]


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    assert len(commands()) == 5
    with open_cluster(tmp_path, ("hut1",)) as cluster:
        node, file = cluster["hut1"], Path(cluster["hut1"].environment["DISTKV_CONFIG"])
        file.write_text(f"{file.read_text()}listen: '{node.address}'\ndata: {{dir: {node.data_dir}}}\n")
        environment = {**node.environment, "DISTKV_PORT": str(node.port)}
        words = {
            "127.0.0.1:27586": node.address,
            "127.0.0.1:7373": f"127.0.0.1:{cluster.agent('hut1').rpc_port}",
            "/etc/distkv/config.yaml": str(file),
            "/var/lib/distkv/hut1": str(node.data_dir),
        }

        def is_settled() -> bool:  # what a node says in its first second is not what the page shows
            return run("distkv doctor hut1", environment).count("ok ") == 17

        cluster.wait(is_settled, "doctor finds nothing", 20)
        for command, shown in commands():
            assert re.fullmatch(pattern(shown, words), run(command, environment)), f"$ {command}"


def pattern(shown: str, words: Mapping[str, str]) -> str:
    """What is shown with other words for some, any text for `...`, and any number of blanks where there are several."""
    for word, other in words.items():
        shown = shown.replace(word, other)
    literal = r"[^\n]*".join(re.escape(part) for part in shown.split("..."))
    return re.sub(r"(?:\\ ){2,}", r"\\s+", literal) + "\n"


def run(command: str, environment: Mapping[str, str]) -> str:
    program, *arguments = command.split()
    assert program == "distkv"
    done = subprocess.run(
        [sys.executable, "-m", "distkv", *arguments],
        capture_output=True,
        text=True,
        env=dict(environment),
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
