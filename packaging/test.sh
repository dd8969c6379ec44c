#!/bin/sh
# Check and test in parts: test.sh [lint] [docs] [fast] [process] [browser] [netns]; all of them when none is named.
# Every part runs, also after one that failed; the end says which failed.
set -eu
cd "$(dirname "$0")/.."

packaging/venv.sh dev
PATH=$PWD/.venv/bin:$PATH
failed=

part() {
    echo
    echo "== $*"
    "$@" || failed="$failed
    $*"
}

lint() {
    part ruff check .
    part mypy
    part lint-imports --no-logo
    part towncrier build --draft --version next
}

docs() {
    part sphinx-build --quiet --fail-on-warning --keep-going --fresh-env docs build/docs
    part nothing_from_elsewhere build/docs
}

# Pages that can be read where there is no network.
nothing_from_elsewhere() {
    ! grep -rnE --include='*.html' '<(script|link|img|iframe)[^>]* (src|href)="(https?:)?//' "$1"
}

fast() {
    part pytest --numprocesses auto -m "not process and not netns and not spark and not browser" --cov --cov-report=json
    part python packaging/branch_floor.py 95 model wire core
}

process() {
    packaging/packages.sh serf=serf cc=gcc,libc6-dev zsh=zsh fish=fish systemd-analyze=systemd
    # These tests wait more than they work; those of a file that share what it started stay together.
    folder process --numprocesses $(($(nproc) * 2)) --dist loadscope --no-loadscope-reorder
}

browser() {
    packaging/packages.sh chromium=chromium chromedriver=chromium-driver
    folder browser
}

# Each test has a network of its own and waits for 30 s, so all run at once.
netns() {
    packaging/packages.sh serf=serf ip=iproute2 iptables=iptables nsenter=util-linux
    if unshare --net true 2>/dev/null; then
        folder netns --numprocesses 8
    else
        part env CI= pytest -m netns tests/netns  # each says why it is skipped
    fi
}

# A folder of tests appears with its first issue.
folder() {
    kind=$1
    shift
    [ ! -d "tests/$kind" ] || part pytest "$@" -m "$kind" "tests/$kind"
}

[ $# -gt 0 ] || set -- lint docs fast process browser netns
for name in "$@"; do
    "$name"
done

echo
if [ -n "$failed" ]; then
    echo "FAILED:$failed"
    exit 1
fi
echo "passed: $*"
