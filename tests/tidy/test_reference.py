"""What the documentation takes from the code is all there: every command with its options, and every setting.

Knows: how the generated text is marked up.  Does not judge what it says.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from xml.etree import ElementTree

import pytest

from distkv.cli.main import run
from distkv.cli.settings import AUTH_FILE, SETTINGS
from tests.process.pages import ROOT, pages

sys.path.append(str(ROOT / "docs"))
import reference  # the extension that `make docs` uses

PAGES = list(pages())


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_everything_that_is_generated_has_its_page() -> None:
    asked = [name for page in PAGES for name in reference.MARKER.findall(page.read_text(encoding="utf-8"))]
    assert sorted(asked) == sorted(reference.GENERATED)
    kept = [found[1] for page in PAGES for found in reference.KEPT.findall(page.read_text(encoding="utf-8"))]
    assert sorted(kept) == sorted(reference.WRITTEN)


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_generated_text_that_is_kept_is_up_to_date(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == reference.written(text), "run: python docs/reference.py"


def test_pages_that_readme_links_to_can_be_read_where_they_lie() -> None:
    linked = re.findall(r"<(docs/[\w/.-]+\.rst)>", (ROOT / "README.rst").read_text(encoding="utf-8"))
    assert linked
    assert [name for name in linked if reference.MARKER.search((ROOT / name).read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("file", sorted({file for page in PAGES for file in reference.GRAPH.findall(page.read_text())}))
def test_graph_that_a_page_shows_can_be_drawn(file: str, tmp_path: Path) -> None:
    reference.draw_graph(file, tmp_path)
    drawn = ElementTree.parse(tmp_path / f"{Path(file).stem}.svg").getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}circle")) >= 10
    assert (tmp_path / f"{Path(file).stem}.html").stat().st_size > 10_000


def test_picture_of_a_graph_leads_to_its_page() -> None:
    text = reference.graph_text("tests/scenarios/lost.txt", depth=1)
    assert '<a href="../graphs/lost.html"><img src="../graphs/lost.svg" alt="Message graph of' in text


# -- commands -----------------------------------------------------------------------------------------------------


def _shown_commands(*words: str) -> Iterator[str]:
    """What `--help` lists, and what the help of that lists in turn."""
    yield " ".join(("distkv", *words))
    told = io.StringIO()
    with redirect_stdout(told):
        run([*words, "--help"])
    _, _, listed = told.getvalue().partition("\nCommands:\n")
    for name in re.findall(r"^  ([\w-]+)", listed, re.MULTILINE):
        yield from _shown_commands(*words, name)


def test_reference_has_a_section_for_every_command() -> None:
    sections = re.findall(r"^(distkv.*)\n[.~^]+$", reference.cli_text(), re.MULTILINE)
    assert sorted(sections) == sorted(_shown_commands())


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_commands_that_are_named_exist(path: Path) -> None:
    known = {name for name, _ in reference.commands()}
    text = " ".join(path.read_text(encoding="utf-8").split())
    named = re.findall(r"``(distkv(?: (?:client|config|node))? [a-z]+)", text)
    assert [name for name in named if name not in known] == []


# -- settings -----------------------------------------------------------------------------------------------------


def test_every_setting_is_in_the_reference() -> None:
    keys = re.findall(r"^``(\S+)``$", reference.settings_text(), re.MULTILINE)
    assert sorted(keys) == sorted([*SETTINGS, AUTH_FILE])


@pytest.mark.parametrize("key", SETTINGS)
def test_setting_says_what_it_is(key: str) -> None:
    assert reference.setting_docstring(SETTINGS[key]).endswith((".", "`"))


def test_reference_shows_defaults_and_rules_of_settings() -> None:
    text = reference.settings_text()
    _, _, clock = text.partition("``ping.clock``\n")
    fields, _, body = clock.partition("\n``")[0].partition("\n\n")
    assert fields == "   Number, by default ``5``."
    assert body.strip().endswith("Must be 0.5 to 3600 seconds.")


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_settings_that_are_named_exist(path: Path) -> None:
    sections = {key.partition(".")[0] for key in SETTINGS if "." in key}
    named = re.findall(rf"``((?:{'|'.join(sections)})\.\w+)``", path.read_text(encoding="utf-8"))
    assert set(named) - {*SETTINGS, AUTH_FILE} == set()
