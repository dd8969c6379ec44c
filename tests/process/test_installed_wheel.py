"""A wheel built from this checkout, alone in an empty environment: all that a first user does works there.

Knows: pip and venv, and where they put things.  Takes packages from wherever pip is configured to.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import ROOT
from tests.process.watchers import CommandWatch

PIP_S = 1200.0
NOT_SOURCES = (".git", ".venv*", ".run", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "*.egg-info")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because building leaves files behind, and with what lies beside the package."""
    directory = tmp_path_factory.mktemp("wheel")
    copy = shutil.copytree(ROOT, directory / "checkout", ignore=shutil.ignore_patterns(*NOT_SOURCES))
    pip("wheel", "--no-deps", "--wheel-dir", str(directory), str(copy))
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """An environment with the wheel, what it needs, and nothing else."""
    directory = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=PIP_S)
    pip("--python", str(directory / "bin" / "python"), "install", "--no-compile", str(wheel))
    return directory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, site: Path) -> Iterator[Cluster]:
    """The installed command beside real agents: one node that began the network, and one that joined it."""
    with open_cluster(tmp_path_factory.mktemp("cluster"), ("a", "b"), installed=site / "bin" / "distkv") as found:
        yield found


def pip(*words: str) -> None:
    """Run it as it is configured here.

    Raises:
        AssertionError: it failed; the message has what it said.
    """
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_S, check=False, cwd="/")
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"


# -- what is in it ------------------------------------------------------------------------------------------------


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "distkv"
    data = [package / "py.typed", *package.glob("graph/page.*"), package / "spark" / "reporting" / "page.css"]
    files = [*package.rglob("*.py"), *data, ROOT / "pyspark_distkv.py"]
    assert names == {str(path.relative_to(ROOT)) for path in files}


def test_installed_files_are_the_package_its_description_and_one_command(site: Path) -> None:
    (package,) = site.glob("lib/python*/site-packages")
    (record,) = package.glob("distkv-*.dist-info/RECORD")
    files = [line.split(",")[0] for line in record.read_text(encoding="utf-8").splitlines()]
    tops = {file.split("/")[0] for file in files}
    assert tops == {"distkv", "pyspark_distkv.py", record.parent.name, ".."}
    assert [file for file in files if file.startswith("..")] == ["../../../bin/distkv"]
    assert not {"tests", "packaging", "bench", "docs"} & {path.name for path in package.iterdir()}


def test_every_dependency_has_a_lower_and_an_upper_bound(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    found = HeaderParser().parsestr(archive.read(name).decode()).get_all("Requires-Dist")
    assert found
    others = [each for each in found if not each.startswith("distkv[")]
    unbound = [each for each in others if not (re.search(">=[0-9]", each) and re.search("<[0-9]", each))]
    assert unbound == []


# -- what it does -------------------------------------------------------------------------------------------------


def test_installed_command_shows_its_help(cluster: Cluster) -> None:
    ran = cluster.servers.run("--help")
    assert (ran.code, ran.err) == (0, "")
    assert "server" in ran.text


def test_pipeline_without_its_extra_says_what_to_install(cluster: Cluster, tmp_path: Path) -> None:
    ran = cluster.servers.run("pipeline", "archive", "--to", str(tmp_path / "t"), "--once")
    assert (ran.code, ran.err.startswith("distkv: Spark is not installed: pip install 'distkv[spark]'")) == (1, True)
    assert not (tmp_path / "t").exists()


def test_installed_package_is_what_runs(cluster: Cluster, site: Path) -> None:
    words = [str(site / "bin" / "python"), "-c", "import distkv; print(distkv.__file__)"]
    found = subprocess.check_output(words, text=True, env=cluster.servers.environment, cwd="/")
    assert Path(found).is_relative_to(site)


def test_installed_client_reads_on_the_second_node_what_it_set_on_the_first(cluster: Cluster) -> None:
    assert cluster["a"].run("set", "wheel.n", "21").code == 0
    assert cluster["a"].run("get", "wheel.n").text == "21\n"
    cluster.wait(lambda: cluster["b"].run("get", "wheel.n").text == "21\n", "b shows it, too", 30)


def test_installed_watch_shows_on_the_second_node_what_changes_on_the_first(cluster: Cluster) -> None:
    with CommandWatch(cluster["b"], "watched") as watch:
        watch.wait_watching()
        assert cluster["a"].run("set", "watched.n", "7").code == 0
        assert watch.wait_lines(1) == [{"path": "watched.n", "value": 7}]
        assert watch.interrupt() == (130, "")


def test_installed_command_draws_a_page_of_live_nodes(cluster: Cluster) -> None:
    words = [word for server in cluster for word in ("--live", server.address)]
    ran = cluster.servers.run("graph", *words, "--for", "0.2", "-o", "html")
    assert ran.code == 0
    assert ran.text.startswith("<!DOCTYPE html>")


def test_installed_nodes_end_cleanly(cluster: Cluster) -> None:
    assert [server.terminate() for server in cluster] == [0, 0]
