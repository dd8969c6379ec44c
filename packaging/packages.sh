#!/bin/sh
# Install Debian's packages for commands that are missing, if this user may: packages.sh COMMAND=PACKAGE[,PACKAGE]...
# Never fails: tests that need a command say why they are skipped.
set -eu

missing=
for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || missing="$missing $(echo "${pair#*=}" | tr , ' ')"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "make: some tests need$missing, and there is no apt-get to install that with" >&2
    exit 0
elif [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    echo "make: to run all tests: sudo apt-get install$missing" >&2
    exit 0
fi

echo "installing$missing with apt-get (on a system with systemd, serf starts its agent, too)"
install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends$missing"
$install >/dev/null 2>&1 || { $sudo apt-get update --quiet >/dev/null && $install >/dev/null; } ||
    echo "make: apt-get could not install$missing; tests that need it will be skipped" >&2
