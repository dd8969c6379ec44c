"""The documents of the repository, each parsed once for all rules that look at it.

Knows: which there are, and how their sections and tables are marked up.  Does not know what they should say.
"""

from __future__ import annotations

import functools
import io
from pathlib import Path

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives

from tests.tidy.sources import ROOT, file_name

README = ROOT / "README.rst"
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.rst"))
BESIDE = ("CONTRIBUTING.rst", "tests/README.rst", "changelog/README.rst", "packaging/bench/README.rst")
"""Documents for those who change distkv; no pages of the documentation."""
DOCUMENTS = [README, *PAGES, *(ROOT / name for name in BESIDE)]


class _Ignored(Directive):
    """What only Sphinx knows."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return []


directives.register_directive("toctree", _Ignored)
directives.register_directive("literalinclude", _Ignored)


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def parsed(path: Path) -> tuple[nodes.document, str]:
    """The document, and what docutils has to complain about."""
    complaints = io.StringIO()
    settings = {
        "warning_stream": complaints,
        "report_level": 2,
        "halt_level": 5,
        "syntax_highlight": "none",
        "_disable_config": True,
    }
    found = publish_doctree(text_of(path), source_path=str(path), settings_overrides=settings)
    return found, complaints.getvalue()


def section(path: Path, title: str) -> nodes.section:
    """The one section whose title begins so."""
    document, _ = parsed(path)
    found = [part for part in document.findall(nodes.section) if part[0].astext().startswith(title)]
    assert len(found) == 1, f"{file_name(path)} has {len(found)} sections that begin with {title!r}"
    return found[0]


def rows(part: nodes.Element) -> list[list[str]]:
    """The rows of all tables in a part of a document, without heads."""
    bodies = part.findall(nodes.tbody)
    return [[cell.astext() for cell in row] for body in bodies for row in body.findall(nodes.row)]
