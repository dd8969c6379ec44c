"""Where and with what the figures were measured.

Knows: where Linux and the programs say it.  Does not measure anything but the disk's fdatasync.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Final

from distkv import __version__

ROOT: Final = Path(__file__).parents[2]
SYNCS: Final = 200
MEMORY_FILE_SYSTEMS: Final = ("tmpfs", "ramfs")


def describe(directory: Path) -> dict[str, str]:
    """Names and values, for people."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "processors": f"{os.cpu_count()} x {_field('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 1e6:.1f} GB",
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "system": f"{_field('/etc/os-release', 'PRETTY_NAME', '=')}, Linux {platform.release()}",
        "data on": f"{file_system(directory)}, fdatasync of 100 bytes {1000 * sync_s(directory):.2f} ms (median)",
        "distkv": f"{__version__}, {_commit()}",
        "Python": f"{platform.python_version()}, trio {version('trio')}, msgpack {version('msgpack')}",
        "Redis": _package("redis-server"),
        "etcd": _package("etcd-server"),
        "Serf": _package("serf"),
        "NATS": _package("nats-server"),
    }


def file_system(directory: Path) -> str:
    """The type of the file system that holds a directory."""
    return _said("df", "--output=fstype", str(directory)).rpartition("\n")[2]


def sync_s(directory: Path) -> float:
    """How long one small write and its fdatasync take here: nothing durable can be faster, one at a time."""
    path = directory / "sync"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.write(descriptor, bytes(100 * SYNCS))
        os.fsync(descriptor)
        found = []
        for number in range(SYNCS):
            began = time.perf_counter()
            os.pwrite(descriptor, b"x" * 100, 100 * number)
            os.fdatasync(descriptor)
            found.append(time.perf_counter() - began)
        return median(found)
    finally:
        os.close(descriptor)
        path.unlink()


def _field(path: str, name: str, separator: str = ":") -> str:
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip().strip('"')
    return "unknown"


def _commit() -> str:
    commit = _said("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    changed = _said("git", "-C", str(ROOT), "status", "--porcelain", "--", "distkv")
    return f"commit {commit}{' with changes' if changed else ''}" if commit else "not from a repository"


def _package(name: str) -> str:
    found = _said("dpkg-query", "--show", "--showformat=${Version}", name)
    return f"Debian's {name} {found}" if found else "unknown"


def _said(*command: str) -> str:
    """What a command prints; nothing when it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
