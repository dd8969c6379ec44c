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

from distkv.cli.main import run
from distkv.cli.settings import AUTH_FILE, known_settings
from tests.process.pages import ROOT, pages

sys.path.append(str(ROOT / "docs"))
import reference  # the extension that `make docs` uses

from tests.offenders import assert_none

PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages()}
"""The text of each, by its name."""


def test_everything_that_is_generated_has_its_page() -> None:
    asked = [name for text in PAGES.values() for name in reference.MARKER.findall(text)]
    assert sorted(asked) == sorted(reference.GENERATED)
    kept = [found[1] for text in PAGES.values() for found in reference.KEPT.findall(text)]
    assert sorted(kept) == sorted(reference.WRITTEN)


def test_generated_text_that_is_kept_is_up_to_date() -> None:
    old = [page for page, text in PAGES.items() if text != reference.written(text)]
    assert_none(old, "run: python docs/reference.py")


def test_pages_that_readme_links_to_can_be_read_where_they_lie() -> None:
    linked = re.findall(r"<(docs/[\w/.-]+\.rst)>", PAGES["README.rst"])
    assert linked
    assert_none([name for name in linked if reference.MARKER.search(PAGES[name])])


def test_graphs_that_pages_show_can_be_drawn(tmp_path: Path) -> None:
    files = {file for text in PAGES.values() for file in reference.GRAPH.findall(text)}
    assert files
    assert_none([file for file in files if not _is_drawn(file, tmp_path)])


def _is_drawn(file: str, to: Path) -> bool:
    """Whether its picture has messages, and its page something to read."""
    reference.draw_graph(file, to)
    picture = ElementTree.parse(to / f"{Path(file).stem}.svg").getroot()
    circles = picture.findall("{http://www.w3.org/2000/svg}circle")
    return len(circles) >= 10 and (to / f"{Path(file).stem}.html").stat().st_size > 10_000


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
    sections = re.findall(r'^(distkv.*)\n[.~^"]+$', reference.cli_text(), re.MULTILINE)
    assert sorted(sections) == sorted(_shown_commands())


def _named(pattern: str) -> list[tuple[str, str]]:
    """A page, and what it names so, also across the end of a line."""
    return [(page, name) for page, text in PAGES.items() for name in re.findall(pattern, " ".join(text.split()))]


def test_commands_that_are_named_exist() -> None:
    known = {name for name, _ in reference.commands()}
    named = _named(r"``(distkv(?: (?:client|config|node))? [a-z]+)")
    assert named
    assert_none([(page, name) for page, name in named if name not in known])


# -- settings -----------------------------------------------------------------------------------------------------


def test_every_setting_is_in_the_reference() -> None:
    keys = re.findall(r"^``(\S+)``$", reference.settings_text(), re.MULTILINE)
    assert sorted(keys) == sorted([*known_settings(), AUTH_FILE])


def test_every_setting_says_what_it_is() -> None:
    said = {key: reference.setting_docstring(setting) for key, setting in known_settings().items()}
    assert said
    assert_none({key: words for key, words in said.items() if not words.endswith((".", "`"))})


def test_reference_shows_defaults_and_rules_of_settings() -> None:
    text = reference.settings_text()
    _, _, clock = text.partition("``ping.clock``\n")
    fields, _, body = clock.partition("\n``")[0].partition("\n\n")
    assert fields == "   Number, by default ``5``."
    assert body.strip().endswith("Must be 0.5 to 3600 seconds.")


def test_settings_that_are_named_exist() -> None:
    sections = {key.partition(".")[0] for key in known_settings() if "." in key}
    named = _named(rf"``((?:{'|'.join(sections)})\.\w+)``")
    assert named
    assert_none([(page, key) for page, key in named if key not in {*known_settings(), AUTH_FILE}])
