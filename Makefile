# What to type.  The scripts in packaging/ do the work.

# Given on the command line only (`make run PORT=27590`): an environment may hold such names for other reasons.
PYTHON := python3
NAME := demo
PORT := 27586
HOURS := 2
ONLY :=
export PYTHON NAME PORT HOURS ONLY

.PHONY: help quick run test lint docs fast process browser netns spark soak lowest bench clean

help:
	@echo "make quick    while something is changed: lint, types, and the nearest tests that a minute has room for;"
	@echo "              make quick ONLY=wire,client takes these packages instead of what git says was changed"
	@echo "make run      install into .venv and run one node in the foreground (NAME=$(NAME) PORT=$(PORT))"
	@echo "make test     set up all that the tests need, then everything below"
	@echo "make lint     style, types, import rules, changelog fragments"
	@echo "make docs     the documentation as HTML in build/docs; a warning is an error"
	@echo "make fast     tests without real processes, and the floor of covered branches"
	@echo "make process  tests with real servers and Serf agents"
	@echo "make browser  the page of distkv graph in a headless chromium"
	@echo "make netns    tests in network namespaces (root)"
	@echo "make spark    tests of the data pipeline on Spark"
	@echo "make soak     all that repeats, with more and new seeds, in spare time and before a release (HOURS=$(HOURS) ONLY=sim,tokens,...)"
	@echo "make lowest   make fast with the oldest dependencies that pyproject.toml allows"
	@echo "make bench    distkv beside Redis, etcd and NATS on this machine, about half an hour (packaging/bench/README.rst)"
	@echo "make clean    remove what all this made: .venv, .run, caches"

run:
	@packaging/run.sh

test:
	@packaging/test.sh

quick lint docs fast process browser netns spark soak:
	@packaging/test.sh $@

lowest:
	@packaging/lowest.sh

bench:
	@packaging/bench/run

clean:
	rm -rf .venv .venv-lowest .run build dist *.egg-info coverage.json
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find distkv tests packaging -name __pycache__ -type d -prune -exec rm -rf {} +
