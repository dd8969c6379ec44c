"""packaging/fleet/host.sh makes a host ready: run with another root, and with commands that only a host has replaced.

Knows: what the script writes.  Does not know ssh, apt, nor systemd.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from distkv.cli.settings import read_settings
from tests.process.pages import ROOT

STAND_IN = '#!/bin/sh\necho "${0##*/} $*" >>"$DESTDIR/called"\n'
PYTHON = f'{STAND_IN}mkdir -p "$3/bin" && cp "$(dirname "$0")/apt-get" "$3/bin/pip"\n'


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The root directory of a host on which the script ran, as the page says."""
    commands, work, root = (tmp_path / name for name in ("commands", "work", "root"))
    for place in (commands, work, root):
        place.mkdir()
    for name in ("apt-get", "systemd-sysusers", "systemctl", "python3"):
        (commands / name).write_text(PYTHON if name == "python3" else STAND_IN)
        (commands / name).chmod(0o755)
    for file in ("fleet/host.sh", "systemd/distkv@.service", "systemd/distkv.sysusers"):
        (work / Path(file).name).write_bytes((ROOT / "packaging" / file).read_bytes())
    variables = {"PATH": f"{commands}:{os.environ['PATH']}", "DESTDIR": str(root)}
    command = ["sh", "host.sh", "hut2", "192.168.1.12", "192.168.1.11,192.168.1.12"]
    for _ in range(2):  # it may be run again
        subprocess.run(command, cwd=work, env=variables, check=True)
    return root


def test_script_writes_settings_that_a_server_takes(host: Path) -> None:
    config = read_settings(str(host / "etc/distkv/config.yaml"), (), {})
    assert (config.node, config.listen) == ("hut2", ("127.0.0.1:27586", "192.168.1.12:27586"))
    assert config.advertise == "192.168.1.12:27586"


def test_script_tells_the_agent_its_name_and_whom_to_look_for(host: Path) -> None:
    found = json.loads((host / "etc/serf/distkv.json").read_text())
    assert found == {
        "node_name": "hut2", "bind": "192.168.1.12:7946", "retry_join": ["192.168.1.11", "192.168.1.12"]
    }  # fmt: skip


def test_script_installs_from_the_wheels_alone_and_starts_the_agent_last(host: Path) -> None:
    called = (host / "called").read_text().splitlines()
    called = called[len(called) // 2 :]
    assert "pip install --quiet --no-index --find-links wheels --upgrade distkv" in called
    assert called[-1] == "systemctl restart serf"
    assert not any("distkv@" in line for line in called)
    assert os.readlink(host / "usr/bin/distkv") == "/opt/distkv/bin/distkv"
    assert (host / "etc/systemd/system/distkv@.service").exists()
