"""Scenarios written as text, played in this process."""

from pathlib import Path

from leadsman_local.simulator.report import summary
from leadsman_local.simulator.scenario import Plan, load
from leadsman_local.simulator.world import World, simulate


def plan(folder: Path, text: str, name: str = "scenario.yaml") -> Plan:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load(path)


def play(folder: Path, text: str) -> World:
    return simulate(plan(folder, text))


def figures(folder: Path, text: str) -> dict:
    return summary(play(folder, text))
