"""Pages that speak of Spark are true: README.rst, docs/pipeline.rst and docs/howto/spark.rst; their commands are typed
as they are printed.

Knows: who types them.  Does not know how (`tests.process.pages`), nor what they mean.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.process.pages import ROOT, Reader, check_page
from tests.process.servers import Server
from tests.spark import home

PIPELINE = ROOT / "docs" / "pipeline.rst"
CLUSTER = ROOT / "docs" / "howto" / "spark.rst"
PACKAGES = Path(pyspark.__file__).parents[1]


def test_commands_of_the_first_page_print_what_it_shows(tmp_path: Path) -> None:
    check_page(ROOT / "README.rst", (Reader(pastes=True),), tmp_path)


def test_commands_of_the_page_about_the_pipeline_print_what_it_shows(
    machine: Mapping[str, str], tmp_path: Path
) -> None:
    """It has a job in each line, nearly: they share one machine."""
    check_page(PIPELINE, (Reader(environment=machine, pastes=True),), tmp_path)


def test_commands_of_the_page_about_clusters_print_what_it_shows(tmp_path: Path) -> None:
    """The Python of the program for which distkv is sent along has our packages, but distkv, which is among them by a
    .pth file only."""
    (program,) = python_blocks(CLUSTER)
    file = tmp_path / "count.py"
    file.write_text(f'{program}\nassert ".zip/" in distkv.__file__\n')
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    bare = f"PYTHONPATH={PACKAGES} PYSPARK_PYTHON={base}"
    needs = f"{ROOT}/distkv {PACKAGES}/msgpack {PACKAGES}/attr {PACKAGES}/attrs"
    swap = {
        "count.py": str(file),
        "spark-submit ": f"{bare} spark-submit --conf spark.executorEnv.PYTHONPATH={PACKAGES} ",
        "python3 -m pip install --quiet --target sent distkv": f"mkdir sent && cp -r {needs} sent",
    }
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", **home.cluster_environment()}
    check_page(CLUSTER, (Reader(swap, environment, pastes=True),), tmp_path)


def python_blocks(page: Path) -> list[str]:
    found = re.findall(r"^\.\. code-block:: python\n\n((?:   [^\n]*\n|\n)+)", page.read_text(), re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def test_python_examples_run(
    spark: SparkSession, solo: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = python_blocks(PIPELINE)
    assert len(found) == 5
    for block in found:
        code = block.replace("10.0.0.1,10.0.0.2", solo.address).replace("27588", str(solo.port))
        # Java has a directory of its own, which is not that of this test.
        for folder in ("stream", "checkpoint", "copied"):
            code = code.replace(f'"{folder}"', f'"{tmp_path / folder}"')
        exec(compile(code, str(PIPELINE), "exec"), {"spark": spark})
    assert (tmp_path / "events" / "manifest.json").exists()
    assert (tmp_path / "checkpoint").exists()
    assert not (ROOT / "checkpoint").exists()
