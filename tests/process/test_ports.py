"""The ports of tests are nobody else's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from tests.process.ports import BLOCKS, free_port
from tests.process.servers import ROOT


def test_another_process_gives_ports_of_another_block() -> None:
    ours = free_port()
    program = "from tests.process.ports import free_port; print(free_port())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    theirs = int(subprocess.check_output([sys.executable, "-c", program], env=environment, timeout=300))
    assert ours // BLOCKS.step != theirs // BLOCKS.step


def test_port_at_which_somebody_listens_is_not_given() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        assert listener.getsockname()[1] not in {free_port() for _ in range(BLOCKS.step)}
