"""Pages that speak of Spark are true: README.rst and docs/pipeline.rst; their commands are typed as they are printed.

Knows: who types them.  Does not know how (`tests.process.pages`), nor what they mean.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.process.pages import ROOT, Reader, check_page
from tests.process.servers import Server

PIPELINE = ROOT / "docs" / "pipeline.rst"


@pytest.mark.parametrize("page", ["README.rst", "docs/pipeline.rst"])
def test_commands_print_what_the_page_shows(page: str, tmp_path: Path) -> None:
    check_page(ROOT / page, (Reader(pastes=True),), tmp_path)


def test_python_examples_run(
    spark: SparkSession, solo: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"^\.\. code-block:: python\n\n((?:   [^\n]*\n|\n)+)", PIPELINE.read_text(), re.MULTILINE)
    assert len(found) == 5
    for block in found:
        code = textwrap.dedent(block).replace("10.0.0.1,10.0.0.2", solo.address).replace("27588", str(solo.port))
        # Java has a directory of its own, which is not that of this test.
        for folder in ("stream", "checkpoint", "copied"):
            code = code.replace(f'"{folder}"', f'"{tmp_path / folder}"')
        exec(compile(code, str(PIPELINE), "exec"), {"spark": spark})
    assert (tmp_path / "events" / "manifest.json").exists()
    assert (tmp_path / "checkpoint").exists()
    assert not (ROOT / "checkpoint").exists()
