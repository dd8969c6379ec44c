#!/bin/sh
# Make .venv and install distkv into it: `venv.sh run` what a node needs, `venv.sh dev` what tests and checks need, too.
# A stamp for each holds what was installed, so that nothing is installed twice: the part of pyproject.toml above the
# settings of the tools.
set -eu
cd "$(dirname "$0")/.."

purpose=$1
python=${PYTHON:-python3}
wanted=$(sed '/^\[tool\.ruff\]/,$d' pyproject.toml | cksum)

fail() {
    echo "make: $1" >&2
    exit 1
}

installed() {
    [ "$(cat ".venv/installed-$1" 2>/dev/null)" = "$wanted" ]
}

# The scripts in a venv name its place: a tree that was moved or copied needs a new one.
if ! [ -x .venv/bin/python ] || ! grep -qsF "$PWD/.venv/bin/python" .venv/bin/pip; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "$python is missing or older than Python 3.11; name another one: make PYTHON=python3.12 ..."
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python has no venv; on Debian: apt-get install python3-venv"
    echo "making .venv"
    "$python" -m venv --clear .venv
elif installed dev || installed "$purpose"; then
    exit 0
fi

echo "installing distkv into .venv ($purpose): once, some minutes by a slow line"
began=$(date +%s)
if [ "$purpose" = dev ]; then what='.[dev]'; else what=.; fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable "$what"
echo "$wanted" >".venv/installed-$purpose"
echo "installed in $(($(date +%s) - began)) s"
