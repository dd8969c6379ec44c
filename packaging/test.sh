#!/bin/sh
# Check and test in parts: test.sh [lint] [docs] [fast] [process] [browser] [netns] [spark]; all of them when none is named.
# `test.sh quick` is what one runs again and again while something is changed: less than a minute, and not all of it.
# Every part runs, also after one that failed; the end says which failed, and repeats the errors of tests.
set -eu
cd "$(dirname "$0")/.."

packaging/venv.sh dev
PATH=$PWD/.venv/bin:$PATH
# Each process of tests, and each server that they start, would compile all that it imports anew.
unset PYTHONDONTWRITEBYTECODE
failed=
FAILURES=$(mktemp)  # tests/conftest.py writes into it
export FAILURES
trap 'rm -f "$FAILURES"' EXIT

part() {
    echo
    echo "== $*"
    "$@" || failed="$failed
    $*"
}

# The linters keep what they found of files that did not change, so all files cost no more than the changed ones.
quick() {
    part ruff check .
    part mypy
    part lint-imports --no-logo
    part pytest --numprocesses auto --dist worksteal --quick tests/unit tests/scenarios tests/property
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

# Only what has a floor is measured, and only in the tests that are about it: measured code takes three to four times as
# long, and the simulator plays most of it again. What stands in the one run stays out of the other one.
fast() {
    measured="tests/unit/model tests/unit/wire tests/unit/core tests/node tests/scenarios/test_scenarios.py"
    measured="$measured $(echo tests/property/test_model_*.py tests/property/test_wire_*.py)"
    measured="$measured $(echo tests/property/test_token_*.py)"
    measured="$measured tests/unit/cli/test_values.py tests/unit/spark/test_reading.py tests/unit/spark/test_rows.py"
    # shellcheck disable=SC2086
    part pytest --numprocesses auto --dist worksteal $measured \
        --cov=distkv/model --cov=distkv/wire --cov=distkv/core --cov-report=json
    part python packaging/branch_floor.py 95 model wire core
    # shellcheck disable=SC2046,SC2086
    part pytest --numprocesses auto --dist worksteal $(printf -- '--ignore=%s ' $measured) \
        -m "not process and not netns and not spark and not browser"
}

process() {
    packaging/packages.sh serf=serf cc=gcc,libc6-dev zsh=zsh fish=fish systemd-analyze=systemd
    # They wait more than they work, hence two for each processor; eight are as fast as any more.
    workers=$(($(nproc) * 2))
    [ $workers -le 8 ] || workers=8
    part pytest --numprocesses $workers --dist loadscope --no-loadscope-reorder -m "process and not alone" tests/process
    part pytest -m "process and alone" tests/process  # what is promised of time is looked at with nothing beside it
}

browser() {
    packaging/packages.sh chromium=chromium chromedriver=chromium-driver
    folder browser
}

# Each test has a network of its own and waits for 30 s, so all run at once, but for what is promised of time.
netns() {
    packaging/packages.sh serf=serf ip=iproute2 iptables=iptables nsenter=util-linux
    if unshare --net true 2>/dev/null; then
        part pytest --numprocesses 8 -m "netns and not alone" tests/netns
        part pytest -m "netns and alone" tests/netns
    else
        part env CI= pytest -m netns tests/netns  # each says why it is skipped
    fi
}

# Spark takes both processors of a small machine, so nothing runs beside it. Tests wait half of the time, hence two.
spark() {
    packaging/packages.sh serf=serf java=openjdk-17-jre-headless
    part python -m tests.spark.classes
    folder spark --numprocesses 2 --dist worksteal
}

# All tests of one folder.
folder() {
    kind=$1
    shift
    [ ! -d "tests/$kind" ] || part pytest "$@" -m "$kind" "tests/$kind"
}

[ $# -gt 0 ] || set -- lint docs fast process browser netns spark
for name in "$@"; do
    "$name"
done

echo
if [ -n "$failed" ]; then
    cat "$FAILURES"
    echo "FAILED:$failed"
    exit 1
fi
echo "passed: $*"
