"""A service on a real server: it asks the tokens of its node, writes under their fence, works on a thread, and hides.

Knows: a server with the echo mounted, and the command.  Does not know what the ground does for the echo.
"""

from __future__ import annotations

import pytest

from tests.process.proving import PROGRAM, asked
from tests.process.servers import Server, Servers, wait_until

FORBIDDEN = 6
ALONE = ("--transport", "solo", "--init", "hello")


@pytest.fixture
def solo(servers: Servers) -> Server:
    """A node alone, which serves tokens."""
    server = servers.add("solo")
    server.program = PROGRAM
    server.start(*ALONE, options=("-v", "-C", "tokens.servers=solo")).wait_ready()
    return server


def test_it_holds_a_token_and_its_entry_has_the_fence_of_that(solo: Server) -> None:
    wait_until(lambda: "text" in asked(solo, "echo_hold", token="night"), "a token is granted")
    fence = asked(solo, "echo_hold", token="night")["text"]
    found = asked(solo, "get_value", path=[None, "service", "echo", "night"], nchain=1)
    token, epoch, counter = found["fence"]
    assert (found["value"], f"{token}:{epoch}.{counter}") == (fence, fence)


def test_slow_work_is_done_and_a_fault_in_it_costs_nothing_else(solo: Server) -> None:
    assert len(asked(solo, "echo_seal", text="abc")["text"]) == 128
    assert asked(solo, "echo_seal", text="fault")["code"] == "internal"
    assert "text" in asked(solo, "echo_seal", text="abc")


def test_what_it_hides_ends_a_command_with_its_own_code(solo: Server) -> None:
    for name in ("secret-plans", "plain"):
        assert "code" not in asked(solo, "echo_name", name=name, text="hushed")
    refused = solo.run("get", ":n.service.echo.secret-plans")
    assert (refused.code, refused.out) == (FORBIDDEN, b"")
    assert "ask the service" in refused.err
    assert "hushed" not in refused.err
    listed = solo.run("get", "-r", ":n.service.echo")
    assert (listed.code, "plain" in listed.text, "secret" in listed.text) == (0, True, False)
    assert solo.terminate() == 0
