"""Who types the commands of each page, and what is different where they do it.

Knows: every page that has commands.  Does not know how they are typed (`pages`), nor what they mean.

Invariant: a page whose commands nobody here types is a failure of `tests/tidy/test_docs.py`.
"""

from __future__ import annotations

import sys

from tests.process.pages import ROOT, Reader

FAST = {"DISTKV_CONFIG": f"{ROOT}/tests/process/stand_ins/fast.yaml"}
"""Where a page says nothing of a configuration, and would wait for clocks. The tutorial is run with the default."""

PASTES = Reader(environment=FAST, pastes=True)
"""Whoever reads a page that shows every wait."""

HOSTS = (
    Reader(
        {
            "192.168.1.11:7946": "127.0.0.11:27711",
            "192.168.1.11": "127.0.0.11",
            "127.0.0.1:7373": "127.0.1.11:27811",
            "127.0.0.1:27586": "127.0.1.11:27586",
            "distkv server": "distkv -C serf.host=127.0.1.11 -C serf.port=27811 server",
        },
        {"DISTKV_HOST": "127.0.1.11", **FAST},
    ),
    Reader(
        {
            "192.168.1.11:7946": "127.0.0.11:27711",
            "192.168.1.12:7946": "127.0.0.12:27712",
            "192.168.1.11": "127.0.0.11",
            "192.168.1.12": "127.0.0.12",
            "127.0.0.1:7373": "127.0.1.12:27812",
            "127.0.0.1:27586": "127.0.1.12:27586",
            "distkv server": "distkv -C serf.host=127.0.1.12 -C serf.port=27812 server",
        },
        {"DISTKV_HOST": "127.0.1.12", **FAST},
    ),
)
"""Two hosts are one here: for each, the addresses that stand for its own; 127.0.1.x is the host's own 127.0.0.1."""

UNDER_SYSTEMD = Reader(
    {
        "systemd-sysusers ": "test -f ",
        "packaging/": f"{ROOT}/packaging/",
        "/etc/systemd/system/": "TMP/work/",
        "/etc/distkv": "TMP/work/etc",
        "/var/lib/distkv": "TMP/work/var",
        "install -d -o distkv -g distkv ": "install -d ",
        "runuser -u distkv -- ": "",
        "%'runuser -u distkv'": "%'distkv server'",
        "systemctl is-active serf": (
            "printf 'serf: {port: 27801}\\nping: {clock: 1}\\n' >>TMP/work/etc/config.yaml; echo active;"
            " serf agent -bind=127.0.0.1:27701 -rpc-addr=127.0.0.1:27801 >agent.log 2>&1 &"
        ),
        "systemctl": f"{ROOT}/tests/process/stand_ins/systemctl",
        "journalctl -u distkv@hut1 -o cat": "cat distkv@hut1.log",
        "192.168.1.11:27586": "127.0.0.1:27702",
    },
    {"DISTKV_CONFIG": "TMP/work/etc/config.yaml", "UNITS": "TMP/work", "STATE": "TMP/work/var"},
)
"""Without root and systemd: nobody changes users, `stand_ins/systemctl` starts what the unit file says, and the agent
that Debian's package would have started is started when the page looks for it."""

CONTRIBUTOR = Reader(
    {
        "make quick": "make --dry-run quick >quick.txt",
        "make test": "make --dry-run test >test.txt",
        "make soak": "make --dry-run soak >soak.txt",
        ". .venv/bin/activate": ": .venv/bin/activate",
        "python ": f"{sys.executable} ",
    },
    pastes=True,
    sources=True,
)
"""Whoever changes distkv, in a copy of its sources. What `make` does takes too long here: it says what it would do."""

READERS: dict[str, tuple[Reader, ...]] = {
    "CONTRIBUTING.rst": (CONTRIBUTOR,),
    "docs/cli.rst": (Reader(pastes=True),),
    "docs/concepts.rst": (Reader(environment=FAST),),
    "docs/howto/activity.rst": (Reader(),),
    "docs/howto/agent-gone.rst": (PASTES,),
    "docs/howto/backup.rst": (PASTES,),
    "docs/howto/conflicts.rst": (PASTES,),
    "docs/howto/disk-full.rst": (Reader(wrap=("unshare", "--map-root-user", "--mount")),),
    "docs/howto/disk-rots.rst": (Reader(),),
    "docs/howto/fleet.rst": (Reader(pastes=True),),
    "docs/howto/hosts.rst": HOSTS,
    "docs/howto/keys.rst": (Reader(environment=FAST),),
    "docs/howto/node-lost.rst": (PASTES,),
    "docs/howto/remove.rst": (PASTES,),
    "docs/howto/systemd.rst": (UNDER_SYSTEMD,),
    "docs/howto/token-servers.rst": (Reader(environment=FAST),),
    "docs/howto/tokens.rst": (Reader(environment=FAST, pastes=True),),
    "docs/howto/topics.rst": (Reader(environment={"XDG_STATE_HOME": "TMP/work", **FAST}, pastes=True),),
    "docs/howto/transport.rst": (Reader(environment=FAST),),
    "docs/howto/upgrade.rst": (Reader(environment=FAST),),
    "docs/shell.rst": (Reader(environment={"LC_ALL": "C"}, pastes=True),),
    "docs/tutorial.rst": (Reader(),),
    "tests/README.rst": (CONTRIBUTOR,),
}
"""Who types the commands of each page: one reader all of them in one shell, or one for each block."""

ELSEWHERE: dict[str, str] = {
    "README.rst": "tests/spark/test_pages.py",
    "docs/operations.rst": "tests/process/test_operations_docs.py",
    "docs/howto/spark.rst": "tests/spark/test_pages.py",
    "docs/swim.rst": "tests/process/test_swim_keys.py",
    "docs/pipeline.rst": "tests/spark/test_pages.py",
}
"""Pages whose commands a test of their own types: the page, and that test."""
