#!/bin/sh
# Install Serf from Debian if it is missing and this user may.  Never fails: tests that need Serf say why they are skipped.
set -eu

! command -v serf >/dev/null || exit 0

if ! command -v apt-get >/dev/null; then
    echo "make: no serf on PATH and no apt-get to install it with; get Serf for this system to run the process tests" >&2
    exit 0
elif [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    echo "make: no serf on PATH; to run the process tests: sudo apt-get install serf" >&2
    exit 0
fi

echo "installing serf with apt-get (on a system with systemd this starts its agent, too)"
install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends serf"
$install >/dev/null 2>&1 || { $sudo apt-get update --quiet >/dev/null && $install >/dev/null; } ||
    echo "make: apt-get could not install serf; the process tests will be skipped" >&2
