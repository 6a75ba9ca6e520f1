"""The demo's script and its ground truth: `scenario.toml`, its loader, its import files, the comparison with reality.

Not here: the server that plays it (`orchestration.demo.web`).
"""

from orchestration.demo.scenario.exports import ExportFile, write_exports
from orchestration.demo.scenario.model import (
    BASE,
    STEP,
    WINDOWS,
    Edge,
    EdgeTruth,
    Project,
    Scenario,
    ScenarioError,
    TargetRule,
    TargetTruth,
    load_scenario,
    window_start,
)
from orchestration.demo.scenario.truth import Comparison, compare, compare_targets

__all__ = [
    "BASE",
    "STEP",
    "WINDOWS",
    "Comparison",
    "Edge",
    "EdgeTruth",
    "ExportFile",
    "Project",
    "Scenario",
    "ScenarioError",
    "TargetRule",
    "TargetTruth",
    "compare",
    "compare_targets",
    "load_scenario",
    "window_start",
    "write_exports",
]
