"""The import contracts in pyproject.toml name every folder that they must.

import-linter itself sees to the layers, whose contract is exhaustive.  A `forbidden` contract is not: it may list only
what exists, so a new folder would escape it.

Knows: the folders there are and the contracts' text.  Does not repeat import-linter's work.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tests.offenders import assert_none

ROOT = Path(__file__).parents[2]

PURE = ("errors", "naming", "config", "model", "wire", "core", "swim")
"""The layers that decide everything and do nothing."""

LOOPLESS = ("sim", "graph")
"""They may read clocks and files, but see no event loop; a contract of their own forbids trio, anyio and asyncio."""


def _contracts() -> dict[str, dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return {contract["id"]: contract for contract in tomllib.load(file)["tool"]["importlinter"]["contracts"]}


def _existing(names: tuple[str, ...]) -> set[str]:
    package = ROOT / "distkv"
    return {f"distkv.{name}" for name in names if (package / name).is_dir() or (package / f"{name}.py").exists()}


def test_every_pure_layer_is_held_to_purity() -> None:
    assert set(_contracts()["pure"]["source_modules"]) == _existing(PURE)


def test_purity_forbids_what_is_not_pure() -> None:
    impure = {"anyio", "datetime", "logging", "os", "random", "socket", "threading", "time", "trio"}
    assert_none(impure - {*_contracts()["pure"]["forbidden_modules"]})


def test_layers_without_a_loop_are_held_to_it() -> None:
    named = set(_contracts().get("loopless", {}).get("source_modules", []))
    assert named == _existing(LOOPLESS)


def test_layers_contract_is_exhaustive() -> None:
    contracts = _contracts()
    assert_none([name for name in ("layers", "core", "sim") if contracts[name]["exhaustive"] is not True])
