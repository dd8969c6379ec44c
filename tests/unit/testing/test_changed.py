"""Which tests a change reaches, by the import lines of sources."""

from __future__ import annotations

from testing.changed import module_of, nearest

SOURCES = {
    "distkv.wire.codec": "import struct",
    "distkv.core.replica": "from distkv.wire import codec  # the only one\nfrom distkv.model.path import Path",
    "distkv.cli.kv": "from distkv.client import (\n    Client,\n)",
    "distkv.client": "from __future__ import annotations",
    "tests.fleet": "from distkv.core.replica import Replica",
    "tests.unit.wire.test_codec": "from distkv.wire.codec import encode as written",
    "tests.unit.core.test_replica": "    import distkv.core.replica",
    "tests.node.test_fleet": "from tests.fleet import Fleet",
    "tests.unit.cli.test_kv": "from distkv.errors import DistkvError",
    "tests.process.test_all": "from distkv.wire.codec import encode",
}


def test_nearest_tests_come_first() -> None:
    found = nearest(["distkv.wire.codec"], SOURCES)
    assert found == ["tests.unit.wire.test_codec", "tests.unit.core.test_replica", "tests.node.test_fleet"]


def test_support_module_of_tests_reaches_those_that_import_it() -> None:
    assert nearest(["tests.fleet"], SOURCES) == ["tests.node.test_fleet"]


def test_names_in_parentheses_are_read() -> None:
    changed = {**SOURCES, "tests.unit.text.test_kv": "from distkv.cli import (\n    kv,\n    logs,\n)"}
    assert nearest(["distkv.cli.kv"], changed)[0] == "tests.unit.text.test_kv"


def test_module_that_nobody_imports_has_the_tests_in_the_folder_of_its_package() -> None:
    assert nearest(["distkv.cli.kv"], SOURCES) == ["tests.unit.cli.test_kv"]


def test_tests_that_need_more_than_python_are_left_to_make_test() -> None:
    assert "tests.process.test_all" not in nearest(["distkv.wire.codec"], SOURCES)


def test_module_that_was_taken_away_reaches_nothing() -> None:
    assert nearest(["distkv.wire.gone"], {"distkv.wire.codec": ""}) == []


def test_files_that_no_test_imports_have_no_module() -> None:
    files = ("distkv/wire/__init__.py", "tests/fleet.py", "docs/reference.py", "tests/README.rst")
    assert [module_of(file) for file in files] == ["distkv.wire", "tests.fleet", None, None]
