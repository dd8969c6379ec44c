#!/bin/sh
# Run the fast tests with the lowest version of each dependency that pyproject.toml allows, in a venv of its own.
set -eu
cd "$(dirname "$0")/.."

"${PYTHON:-python3}" -m venv --clear .venv-lowest
PATH=$PWD/.venv-lowest/bin:$PATH
python -c '
import re, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
for bounds in project["dependencies"] + project["optional-dependencies"]["swim"]:
    print(re.sub(r">=([^,]+),.*", r"==\1", bounds))
' >.venv-lowest/constraints
cat .venv-lowest/constraints
python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/constraints --editable '.[dev]'
exec python -m pytest --numprocesses auto -m "not process and not netns and not spark and not browser"
