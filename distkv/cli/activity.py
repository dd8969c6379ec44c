"""`distkv client activity`: everybody who is connected hears everything.

Knows: where its commands are.  Does not know what they do.
"""

from __future__ import annotations

import asyncclick as click

from distkv.cli.commands import Commands, shared_commands

COMMANDS = Commands(
    {
        "register": "activity_talk:register_command",
        "send": "activity_talk:send_command",
        "listen": "activity_talk:listen_command",
        "who": "activity_views:who_command",
    },
    shared_commands("activity"),
)


@click.group("activity", commands=COMMANDS)
def activity_group() -> None:
    """The activity network: whoever is connected hears what anybody says.

    The node is asked where its listener is (activity.listen), and sends a client on where fewer are connected.
    """
