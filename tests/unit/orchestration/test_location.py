"""The code location loads as people load it: through workspace.yaml, through dg.toml, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_workspace_yaml_loads() -> None:
    out = run(
        "from dagster._core.workspace.load import location_origins_from_yaml_paths as load\n"
        "(origin,) = load(['workspace.yaml'])\n"
        "from dagster._utils.hosted_user_process import *\n"
        "import importlib\n"
        "pointer = origin.loadable_target_origin\n"
        "defs = getattr(importlib.import_module(pointer.module_name), pointer.attribute)\n"
        "print(origin.location_name, len(defs.resolve_all_asset_keys()))\n"
    )
    name, count = out.split()
    assert name == "backlinks"
    assert int(count) >= 10  # six stages and the dbt models


def test_dg_toml_loads() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "dg"), "list", "defs", "--json"],
        capture_output=True, text=True, cwd=ROOT, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "backlinks/page_fetches" in done.stdout
