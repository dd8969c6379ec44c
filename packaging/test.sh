#!/bin/sh
# Set up what the tests need, and run them: test.sh [PART...], test.sh times; packaging/testing does the work.
set -eu
cd "$(dirname "$0")/.."

packaging/venv.sh dev
PATH=$PWD/.venv/bin:$PATH
PYTHONPATH=$PWD/packaging${PYTHONPATH:+:$PYTHONPATH} exec .venv/bin/python -m testing "$@"
